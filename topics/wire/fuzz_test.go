package wire

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

// asJSON are the headers of a record whose value is JSON.
var asJSON = []event.Header{{Key: ContentType, Value: []byte(JSON)}}

func FuzzNode(f *testing.F) {
	dense := event.Node{ID: event.ID{Str: "a"}, Dense: []float32{1, 2}, Neighbours: []event.ID{{Num: 3}, {Str: "b"}}, Time: 5, Context: true}
	sparse := event.Node{ID: event.ID{Num: 7}, Index: []uint32{1, 5}, Value: []float32{2, .5}}
	f.Add(AppendNode(nil, &dense), false)
	f.Add(AppendNode(nil, &sparse), false)
	f.Add([]byte(`{"id":"a","features":[1,2],"neighbours":["b",3],"time":5}`), true)
	f.Add([]byte(`{"id":1,"indices":[1,5],"values":[2,0.5]}`), true)
	f.Add([]byte(`{"id":1,"features":"AACAPw=="}`), true)
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff}, false)
	f.Add([]byte{0x81, 0xa1, 'x', 0xdd, 0xff, 0xff, 0xff, 0xff}, false)
	f.Fuzz(func(t *testing.T, b []byte, json bool) {
		o := &event.Origin{Value: b}
		if json {
			o.Headers = asJSON
		}
		var d Decoder
		var n event.Node
		reason, detail := d.Node(o, &n)
		if reason != "" {
			if detail == "" {
				t.Fatalf("refused as %s without a word", reason)
			}
			return
		}
		keeps(t, &n)
		var again event.Node
		if reason, detail := d.Node(&event.Origin{Value: AppendNode(nil, &n)}, &again); reason != "" {
			t.Fatalf("taken, and refused when sent on: %s, %s", reason, detail)
		}
		if diff := cmp.Diff(n, again, cmpopts.IgnoreFields(event.Node{}, "Origin"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// keeps checks what event.Node promises.
func keeps(t *testing.T, n *event.Node) {
	t.Helper()
	if (n.Dense == nil) == (n.Index == nil) || len(n.Index) != len(n.Value) {
		t.Fatalf("features of neither form, or of both: %+v", n)
	}
	for i := 1; i < len(n.Index); i++ {
		if n.Index[i] <= n.Index[i-1] {
			t.Fatalf("indices %v", n.Index)
		}
	}
	for _, x := range append(append([]float32(nil), n.Dense...), n.Value...) {
		if !(math.Abs(float64(x)) <= 1e6) {
			t.Fatalf("feature %v", x)
		}
	}
}

func FuzzLabel(f *testing.F) {
	f.Add(AppendLabel(nil, &event.Label{Node: event.ID{Str: "a"}, Class: "red", Time: 3}), false)
	f.Add(AppendLabel(nil, &event.Label{Node: event.ID{Num: 1}, Index: 2}), false)
	f.Add([]byte(`{"node":"a","class":"red","time":3}`), true)
	f.Add([]byte(`{"node":1,"class":0}`), true)
	f.Fuzz(func(t *testing.T, b []byte, json bool) {
		o := &event.Origin{Value: b}
		if json {
			o.Headers = asJSON
		}
		var d Decoder
		var l, again event.Label
		if reason, _ := d.Label(o, &l); reason != "" {
			return
		}
		if reason, detail := d.Label(&event.Origin{Value: AppendLabel(nil, &l)}, &again); reason != "" {
			t.Fatalf("taken, and refused when sent on: %s, %s", reason, detail)
		}
		if diff := cmp.Diff(l, again, cmpopts.IgnoreFields(event.Label{}, "Origin")); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzPrediction(f *testing.F) {
	f.Add(AppendPrediction(nil, &event.Prediction{Node: event.ID{Num: 3}, Class: "a", Probabilities: []float32{.5, .5}, Model: "m"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again event.Prediction
		if DecodePrediction(b, &p) != nil {
			return
		}
		if err := DecodePrediction(AppendPrediction(nil, &p), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, again, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzDeadLetter(f *testing.F) {
	f.Add(AppendDeadLetter(nil, &event.Refusal{Reason: event.Empty, Detail: "x", Origin: &event.Origin{Topic: "t", Headers: []event.Header{{Key: "k"}}}}))
	f.Add([]byte("\x82\xa6reason\xa1x\xa6detail\xa3a\nb"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again event.Refusal
		if DecodeDeadLetter(b, &r) != nil {
			return
		}
		if err := DecodeDeadLetter(AppendDeadLetter(nil, &r), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

var sink []byte

func BenchmarkNode(b *testing.B) {
	dense := event.Node{ID: event.ID{Num: 7}, Dense: make([]float32, 128), Neighbours: make([]event.ID, 14)}
	sparse := event.Node{ID: event.ID{Num: 7}, Index: make([]uint32, 18), Value: make([]float32, 18), Neighbours: make([]event.ID, 4)}
	for i := range sparse.Index {
		sparse.Index[i] = uint32(79 * i)
	}
	for name, n := range map[string]*event.Node{"dense 128": &dense, "sparse 18 of 1433": &sparse} {
		bytes := AppendNode(nil, n)
		b.Run(name+"/encode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = AppendNode(sink[:0], n)
			}
		})
		for into, memory := range map[string]*Memory{"own memory": nil, "shared memory": {}} {
			b.Run(name+"/decode into "+into, func(b *testing.B) {
				b.ReportAllocs()
				d := Decoder{Memory: memory}
				o := &event.Origin{Value: bytes}
				var got event.Node
				for b.Loop() {
					if memory != nil {
						memory.Reset()
					}
					if reason, _ := d.Node(o, &got); reason != "" {
						b.Fatal(reason)
					}
				}
			})
		}
	}
}
