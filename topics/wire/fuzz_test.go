package wire

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

// asJSON are the headers of a record whose value is JSON.
var asJSON = []event.Header{{Key: ContentType, Value: []byte(JSON)}}

// checkAllocated checks that f allocates memory in proportion to its n bytes of input,
// whatever they declare. A JSON list of a million short fields comes closest to the limit.
func checkAllocated(t *testing.T, n int, f func()) {
	t.Helper()
	if got, limit := allocated(f), uint64(32*n+16<<10); got > limit {
		t.Fatalf("%d bytes allocated for an input of %d, want at most %d", got, n, limit)
	}
}

// FuzzNode: a node event is refused with a reason of the closed list, or it keeps the
// invariants of event.Node and stays the same when it is encoded and decoded again. A shared
// Memory makes no difference.
func FuzzNode(f *testing.F) {
	dense := event.Node{ID: event.ID{Str: "a"}, Dense: []float32{1, 2}, Neighbours: []event.ID{{Num: 3}, {Str: "b"}}, Time: 5, Context: true}
	sparse := event.Node{ID: event.ID{Num: 7}, Index: []uint32{1, 5}, Value: []float32{2, .5}}
	f.Add(AppendNode(nil, &dense), false)
	f.Add(AppendNode(nil, &sparse), false)
	f.Add([]byte(`{"id":"a","features":[1,2],"neighbours":["b",3],"time":5}`), true)
	f.Add([]byte(`{"id":1,"indices":[1,5],"values":[2,0.5]}`), true)
	f.Add([]byte(`{"id":1,"features":"AACAPw=="}`), true)
	f.Add([]byte(`{"id":1,"departed":true,"neighbours":[2]}`), true)
	f.Add([]byte(`[{"source":1,"target":"b"},{"source":1,"target":2,"remove":true,"time":3}]`), true)
	f.Add([]byte(`{"id":1,"neighbors":["b"],"remove":true}`), true)
	f.Add(AppendNode(nil, &event.Node{Edges: []event.Edge{{Target: event.ID{Str: "b"}}, {Remove: true}}, Time: 5}), false)
	f.Add(AppendNode(nil, &event.Node{Edges: []event.Edge{{Target: event.ID{Str: "b"}, Mark: event.Mark{Kind: "paid", Weight: 2.5}}}}), false)
	f.Add(AppendNode(nil, &event.Node{Featureless: true, Neighbours: []event.ID{{Num: 1}, {Num: 2}}, Marks: []event.Mark{{}, {Kind: "paid", Weight: 3, In: true}}}), false)
	f.Add([]byte(`{"id":1,"features":[1],"neighbours":[2,{"id":"a","kind":"paid","weight":1e3,"in":true}]}`), true)
	f.Add(AppendNode(nil, &event.Node{Featureless: true, Remove: true, Neighbours: []event.ID{{Num: 1}}}), false)
	f.Add([]byte(namedJSON), true)
	f.Add([]byte(`{"id":1,"nodes":[[1,2],[0,5]],"edges":[[0,1],[1,1]]}`), true)
	f.Add(AppendNode(nil, &event.Node{Graph: &event.Graph{Nodes: [][]float32{{1}, {2}}, Ends: []uint32{0, 1}}}), false)
	f.Add([]byte(`{"id":"a","predict":true,"time":5}`), true)
	f.Add(AppendNode(nil, &event.Node{ID: event.ID{Num: 7}, Predict: true}), false)
	for _, b := range attacks() {
		if len(b) < 100 {
			f.Add(b, false)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, isJSON bool) {
		o := &event.Origin{Value: b}
		if isJSON {
			o.Headers = asJSON
		}
		var d Decoder
		var n, again event.Node
		var reason event.Reason
		var detail string
		checkAllocated(t, len(b), func() { reason, detail = d.Node(o, &n) })
		shared := Decoder{Memory: &Memory{}}
		if r, _ := shared.Node(o, &again); r != reason {
			t.Fatalf("reason %q with a shared Memory, want %q as without", r, reason)
		}
		if reason != "" {
			if detail == "" || !slices.Contains(event.Reasons(), reason) {
				t.Fatalf("refused with reason %q and detail %q, want a known reason and a detail", reason, detail)
			}
			return
		}
		checkNode(t, &n)
		if diff := cmp.Diff(n, again, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("with a shared Memory, -without +with\n%s", diff)
		}
		if reason, detail := d.Node(&event.Origin{Value: AppendNode(nil, &n)}, &again); reason != "" {
			t.Fatalf("accepted, but refused after encoding it again: %s, %s", reason, detail)
		}
		if diff := cmp.Diff(n, again, cmpopts.IgnoreFields(event.Node{}, "Origin"), cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("encoded and decoded again, -before +after\n%s", diff)
		}
	})
}

// checkNode checks the invariants of event.Node.
func checkNode(t *testing.T, n *event.Node) {
	t.Helper()
	if n.Departed {
		if n.Dense != nil || n.Index != nil || n.Value != nil || n.Named != nil || n.Neighbours != nil || n.Context {
			t.Fatalf("a departure has features, neighbours or context: %+v", n)
		}
		return
	}
	if n.OnlyAsks() {
		if n.Value != nil || n.Neighbours != nil || n.Context || n.Remove {
			t.Fatalf("an event that asks for a prediction has more than that: %+v", n)
		}
		return
	}
	if n.OnlyEdges() {
		if n.Dense != nil || n.Index != nil || n.Value != nil || n.Context || n.Featureless == (n.Edges != nil) || n.Edges != nil && (n.Neighbours != nil || n.Remove) {
			t.Fatalf("an event of only edges has features or context, or is of both kinds: %+v", n)
		}
		count := 0
		for _, e := range n.AllEdges() {
			count++
			checkID(t, e.Source)
			checkID(t, e.Target)
		}
		if count < 1 || count > 1<<16 {
			t.Fatalf("%d edges, want 1 to 65,536", count)
		}
		return
	}
	if n.Named != nil {
		if n.Dense != nil || n.Index != nil || n.Value != nil || len(n.Named) > maxNamed {
			t.Fatalf("features by name and as numbers: %+v", n)
		}
		return
	}
	if n.Graph != nil {
		if err := checkGraph(n, Limits{}.withDefaults()); err != nil || len(n.Graph.Nodes) > 1<<16 || len(n.Graph.Ends) > 2<<16 {
			t.Fatalf("a graph of %d nodes and %d ends: %v", len(n.Graph.Nodes), len(n.Graph.Ends), err)
		}
		return
	}
	if (n.Dense == nil) == (n.Index == nil) || len(n.Index) != len(n.Value) {
		t.Fatalf("the features are not in exactly one of the two forms: %+v", n)
	}
	if n.Marks != nil && len(n.Marks) != len(n.Neighbours) {
		t.Fatalf("%d marks of %d neighbours", len(n.Marks), len(n.Neighbours))
	}
	marks := slices.Clone(n.Marks)
	for _, e := range n.Edges {
		marks = append(marks, e.Mark)
	}
	for _, m := range marks {
		if len(m.Kind) > maxKind || !(m.Weight >= 0) || math.IsInf(float64(m.Weight), 0) {
			t.Fatalf("the mark %v of an edge", m)
		}
	}
	if len(n.Neighbours) > 1<<16 || len(n.Dense) > 1<<20 || len(n.Index) > 1<<20 {
		t.Fatalf("%d neighbours, %d features, %d indices: beyond the limits", len(n.Neighbours), len(n.Dense), len(n.Index))
	}
	for _, id := range append(n.Neighbours, n.ID) {
		checkID(t, id)
	}
	for i := 1; i < len(n.Index); i++ {
		if n.Index[i] <= n.Index[i-1] {
			t.Fatalf("the indices %v do not increase", n.Index)
		}
	}
	for _, x := range append(append([]float32(nil), n.Dense...), n.Value...) {
		if !(math.Abs(float64(x)) <= 1e6) {
			t.Fatalf("a feature is %v, want it finite and at most 1e6", x)
		}
	}
}

// checkID checks that an id is an integer or a string of valid UTF-8 within the limit.
func checkID(t *testing.T, id event.ID) {
	t.Helper()
	if len(id.Str) > 1024 || !utf8.ValidString(id.Str) || id.Str != "" && id.Num != 0 {
		t.Fatalf("invalid id %+v", id)
	}
}

// FuzzLabel: a label is refused, or it has a valid id and a class within the limits and stays
// the same when it is encoded and decoded again.
func FuzzLabel(f *testing.F) {
	f.Add(AppendLabel(nil, &event.Label{Node: event.ID{Str: "a"}, Class: "red", Time: 3}), false)
	f.Add(AppendLabel(nil, &event.Label{Node: event.ID{Num: 1}, Index: 2}), false)
	f.Add(AppendLabel(nil, &event.Label{Node: event.ID{Num: 1}, Withdrawn: true}), false)
	f.Add([]byte(`{"node":1,"class":null}`), true)
	f.Add([]byte(`{"node":"a","class":"red","time":3}`), true)
	f.Add([]byte(`{"node":1,"class":0}`), true)
	f.Fuzz(func(t *testing.T, b []byte, isJSON bool) {
		o := &event.Origin{Value: b}
		if isJSON {
			o.Headers = asJSON
		}
		var d Decoder
		var l, again event.Label
		var reason event.Reason
		checkAllocated(t, len(b), func() { reason, _ = d.Label(o, &l) })
		if reason != "" {
			return
		}
		checkID(t, l.Node)
		if len(l.Class) > 1024 || l.Index == event.NoClass || (l.Class != "" || l.Withdrawn) && l.Index != 0 || l.Withdrawn && l.Class != "" {
			t.Fatalf("invalid class in %+v", l)
		}
		if reason, detail := d.Label(&event.Origin{Value: AppendLabel(nil, &l)}, &again); reason != "" {
			t.Fatalf("accepted, but refused after encoding it again: %s, %s", reason, detail)
		}
		if diff := cmp.Diff(l, again, cmpopts.IgnoreFields(event.Label{}, "Origin")); diff != "" {
			t.Fatalf("encoded and decoded again, -before +after\n%s", diff)
		}
	})
}

// FuzzPrediction: a prediction that other programs may have written is refused, or it stays
// the same when it is encoded and decoded again, in both encodings.
func FuzzPrediction(f *testing.F) {
	f.Add(MsgPack.AppendPrediction(nil, &event.Prediction{Node: event.ID{Num: 3}, Class: "a", Probabilities: []float32{.5, .5}, Model: "m"}))
	f.Add(MsgPack.AppendPrediction(nil, &event.Prediction{Set: &event.Set{Classes: []string{"a", "b"}, Coverage: .9, Abstain: "large-set"}}))
	act := true
	f.Add(MsgPack.AppendPrediction(nil, &event.Prediction{Act: &act}))
	f.Add(MsgPack.AppendPrediction(nil, &event.Prediction{Reasons: sampleReasons()}))
	f.Add(JSON.AppendPrediction(nil, &event.Prediction{Node: event.ID{Str: "r"}, Reasons: sampleReasons()}))
	f.Add(JSON.AppendPrediction(nil, &event.Prediction{Node: event.ID{Str: "b"}, Act: &act}))
	f.Add(JSON.AppendPrediction(nil, &event.Prediction{Node: event.ID{Str: "a"}, Probabilities: []float32{.1}, Classes: []string{"b"}, Set: &event.Set{Coverage: .9}, Revision: 1, Asked: .5}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again event.Prediction
		var err error
		checkAllocated(t, len(b), func() { err = DecodePrediction(b, &p) })
		if err != nil {
			return
		}
		checkID(t, p.Node)
		for _, e := range []Encoding{MsgPack, JSON} {
			if err := DecodePrediction(e.AppendPrediction(nil, &p), &again); err != nil {
				t.Fatal(e, err)
			}
			if e == MsgPack {
				again.Classes = p.Classes
			}
			if diff := cmp.Diff(p, again, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("encoded as %s and decoded again, -before +after\n%s", e, diff)
			}
		}
	})
}

// FuzzDeadLetter: a dead letter is refused, or its texts are short and safe to print and it
// stays the same when it is encoded and decoded again.
func FuzzDeadLetter(f *testing.F) {
	f.Add(AppendDeadLetter(nil, &event.Refusal{Reason: event.Empty, Detail: "x", Origin: &event.Origin{Topic: "t", Headers: []event.Header{{Key: "k"}}}}))
	f.Add([]byte(`{"reason":"x","detail":"a\nb"}`))
	f.Add([]byte(`{"reason":"x","key":"k","value_base64":"AAA=","headers":[{"key":"a"},{"key":"a","value_base64":"/w=="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again event.Refusal
		var err error
		checkAllocated(t, len(b), func() { err = DecodeDeadLetter(b, &r) })
		if err != nil {
			return
		}
		for _, s := range []string{string(r.Reason), r.Detail, r.Origin.Topic} {
			if len(s) > maxDetail || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Fatalf("%q is too long or not safe to print", s)
			}
		}
		switch err := DecodeDeadLetter(AppendDeadLetter(nil, &r), &again); {
		case errors.Is(err, ErrTruncated): // the bounds, or what JSON changes in a header's name
			return
		case err != nil:
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("encoded and decoded again, -before +after\n%s", diff)
		}
	})
}

// FuzzContentType: a content-type header names one of the two encodings or is refused.
func FuzzContentType(f *testing.F) {
	for _, s := range []string{string(JSON), string(MsgPack), "application/x-msgpack", "application/json; charset=utf-8", "text/plain", ";a=b;c*0=d", "application/json;a=\"\\", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o := record([]byte{0x80})
		o.Headers = []event.Header{{Key: "Content-Type", Value: b}}
		var encoding Encoding
		var err error
		checkAllocated(t, len(b), func() { encoding, err = new(reading).encodingOf(o, o.Value) })
		if (err == nil) != (encoding == JSON || encoding == MsgPack) {
			t.Fatalf("encoding %q with error %v, want an encoding or an error", encoding, err)
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
				benchmarkDecode(b, &event.Origin{Value: bytes}, memory)
			})
		}
	}
}
