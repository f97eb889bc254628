package wire

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
)

// events are node events that share no list.
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

// TestMemory decodes many events into one memory: each is what it is with
// memory of its own, and what was text stays when the memory is taken back.
func TestMemory(t *testing.T) {
	want, origins := events(1000)
	d := Decoder{Memory: &Memory{}}
	var ids []string
	for range 3 {
		d.Memory.Reset()
		got := make([]event.Node, len(want))
		for i, o := range origins {
			if reason, detail := d.Node(o, &got[i]); reason != "" {
				t.Fatal(reason, detail)
			}
		}
		for i := range got {
			got[i].Origin = nil
			ids = append(ids, got[i].ID.Str)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	for i, id := range ids {
		if id != want[i%len(want)].ID.Str {
			t.Fatalf("id %d became %q", i, id)
		}
	}
}

func TestDecodingTakesNoMemory(t *testing.T) {
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
		t.Errorf("%v allocations an event", per)
	}
}
