package wire

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
)

// events returns n node events of all kinds of features, and the same events encoded.
func events(n int) (nodes []event.Node, origins []*event.Origin) {
	for i := range n {
		e := event.Node{ID: event.ID{Str: fmt.Sprint("node ", i)}, Neighbours: []event.ID{{Str: fmt.Sprint("node ", i+1)}, {Num: int64(i)}}, Time: 1}
		switch i % 3 {
		case 0:
			e.Dense = []float32{float32(i), 2, 3}
		case 1:
			e.Index, e.Value = []uint32{uint32(i), uint32(i + 7)}, []float32{1, float32(i)}
		case 2:
			e.Dense = []float32{}
		}
		nodes = append(nodes, e)
		origins = append(origins, &event.Origin{Value: AppendNode(nil, &e)})
	}
	return nodes, origins
}

// TestMemory: events that are decoded into one shared Memory do not overwrite each other,
// and their strings stay valid after Reset, because engines keep them.
func TestMemory(t *testing.T) {
	want, origins := events(1000)
	d := Decoder{Memory: &Memory{}}
	var ids []string
	for range 3 {
		d.Memory.Reset()
		got := make([]event.Node, len(want))
		for i, o := range origins {
			if reason, detail := d.Node(o, &got[i]); reason != "" {
				t.Fatalf("refused: %s: %s", reason, detail)
			}
		}
		for i := range got {
			got[i].Origin = nil
			ids = append(ids, got[i].ID.Str)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("decoded events, -want +got\n%s", diff)
		}
	}
	for i, id := range ids {
		if want := want[i%len(want)].ID.Str; id != want {
			t.Fatalf("id %d is %q after Reset, want %q", i, id, want)
		}
	}
}

// TestDecodeAllocations: decoding into a shared Memory reuses it, so that the garbage
// collector does not limit the throughput of the inputs.
func TestDecodeAllocations(t *testing.T) {
	_, origins := events(300)
	label := &event.Origin{Value: AppendLabel(nil, &event.Label{Node: event.ID{Str: "a"}, Class: "b"})}
	d := Decoder{Memory: &Memory{}}
	var n event.Node
	var l event.Label
	got := testing.AllocsPerRun(100, func() {
		d.Memory.Reset()
		for _, o := range origins {
			d.Node(o, &n)
			d.Label(label, &l)
		}
	})
	if per := got / float64(len(origins)); per > 0.02 {
		t.Errorf("%v allocations per event, want at most 0.02", per)
	}
}
