package wire

import (
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// benchmarkDecode decodes a node event into memory, if that is not nil.
func benchmarkDecode(b *testing.B, o *event.Origin, memory *Memory) {
	b.Helper()
	b.ReportAllocs()
	d := Decoder{Memory: memory}
	var got event.Node
	for b.Loop() {
		if memory != nil {
			memory.Reset()
		}
		if reason, _ := d.Node(o, &got); reason != "" {
			b.Fatal(reason)
		}
	}
}

func BenchmarkNodeDense1433(b *testing.B) {
	n := event.Node{ID: event.ID{Num: 7}, Dense: make([]float32, 1433), Neighbours: make([]event.ID, 4)}
	benchmarkDecode(b, &event.Origin{Value: AppendNode(nil, &n)}, nil)
}

func BenchmarkNodeJSON(b *testing.B) {
	benchmarkDecode(b, &event.Origin{Headers: asJSON, Value: []byte(
		`{"id":"paper-7","indices":[3,79,158,300,512,790,1001,1200,1432],"neighbours":["paper-3","paper-4"],"time":1700000000000}`)}, nil)
}

func BenchmarkPrediction(b *testing.B) {
	p := samplePrediction()
	value := MsgPack.AppendPrediction(nil, &p)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			value = MsgPack.AppendPrediction(value[:0], &p)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := DecodePrediction(value, &p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDeadLetter(b *testing.B) {
	r := event.Refusal{Reason: event.BadID, Detail: "there is no id", Origin: &event.Origin{Topic: "t", Value: make([]byte, 600)}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendDeadLetter(buf[:0], &r)
	}
}

// TestEncodeAllocations: encoding into a buffer with enough room allocates nothing.
func TestEncodeAllocations(t *testing.T) {
	n := event.Node{ID: event.ID{Str: "a"}, Dense: make([]float32, 128), Neighbours: make([]event.ID, 14)}
	l := event.Label{Node: n.ID, Class: "b", Time: 1}
	p := samplePrediction()
	buf := make([]byte, 0, 4096)
	for name, encode := range map[string]func(){
		"node":       func() { AppendNode(buf, &n) },
		"label":      func() { AppendLabel(buf, &l) },
		"prediction": func() { MsgPack.AppendPrediction(buf, &p) },
		"key":        func() { AppendKey(buf, n.ID) },
	} {
		if got := testing.AllocsPerRun(100, encode); got != 0 {
			t.Errorf("%s: %v allocations, want none", name, got)
		}
	}
}
