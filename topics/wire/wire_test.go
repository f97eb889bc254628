package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/gvbll/gvbll/pipeline/event"
)

var asJSON = []event.Header{{Key: "Content-Type", Value: []byte("application/json; charset=utf-8")}}

func pack(t *testing.T, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type obj = map[string]any

// TestNode: what producers write, by way of libraries of their own, and what
// comes of it.
func TestNode(t *testing.T) {
	id := event.ID{Str: "a"}
	for _, c := range []struct {
		name   string
		value  []byte
		header []event.Header
		want   event.Node
	}{
		{"msgpack array", pack(t, obj{"id": "a", "features": []float64{1, -2.5}}), nil, event.Node{ID: id, Dense: []float32{1, -2.5}}},
		{"msgpack array of integers", pack(t, obj{"id": 7, "features": []int{1, -300, 70000}}), nil, event.Node{ID: event.ID{Num: 7}, Dense: []float32{1, -300, 70000}}},
		{"msgpack block", pack(t, obj{"id": "a", "features": []byte{0, 0, 128, 63, 0, 0, 0, 192}}), nil, event.Node{ID: id, Dense: []float32{1, -2}}},
		{"no features but an empty list", pack(t, obj{"id": "a", "features": []int{}}), nil, event.Node{ID: id, Dense: []float32{}}},
		{
			"msgpack sparse", pack(t, obj{"id": -1, "indices": []int{2, 9}, "values": []float64{.5, 4}}), nil,
			event.Node{ID: event.ID{Num: -1}, Index: []uint32{2, 9}, Value: []float32{.5, 4}},
		},
		{"values left out are ones", pack(t, obj{"id": "a", "indices": []int{3}}), nil, event.Node{ID: id, Index: []uint32{3}, Value: []float32{1}}},
		{
			"neighbours of both kinds, time, context", pack(t, obj{"id": "a", "features": []int{1}, "neighbours": []any{"b", 5}, "time": 17, "context": true}), nil,
			event.Node{ID: id, Dense: []float32{1}, Neighbours: []event.ID{{Str: "b"}, {Num: 5}}, Time: 17, Context: true},
		},
		{"unknown fields are passed over", pack(t, obj{"id": "a", "features": []int{1}, "x": []any{obj{"y": []byte("z")}, nil, 2.5}}), nil, event.Node{ID: id, Dense: []float32{1}}},
		{
			"JSON", []byte(`{"id": "a", "features": [1, 2e0], "neighbours": ["b", 5], "time": 17, "context": false}`), asJSON,
			event.Node{ID: id, Dense: []float32{1, 2}, Neighbours: []event.ID{{Str: "b"}, {Num: 5}}, Time: 17},
		},
		{"JSON block", []byte(`{"id": 9007199254740993, "features": "AACAPwAAAMA="}`), asJSON, event.Node{ID: event.ID{Num: 9007199254740993}, Dense: []float32{1, -2}}},
		{"JSON sparse", []byte(`{"id": "a", "indices": [1], "values": [2]}`), asJSON, event.Node{ID: id, Index: []uint32{1}, Value: []float32{2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			var got event.Node
			reason, detail := d.Node(&event.Origin{Value: c.value, Headers: c.header}, &got)
			if reason != "" {
				t.Fatalf("refused: %s, %s", reason, detail)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(event.Node{}, "Origin")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRefusals: what is refused, and for which reason.
func TestRefusals(t *testing.T) {
	deep := append(pack(t, "x"), bytes.Repeat([]byte{0x91}, 100)...)
	many := func(n int) []any {
		ids := make([]any, n)
		for i := range ids {
			ids[i] = 1
		}
		return ids
	}
	node := func(v any) []byte { return pack(t, v) }
	for _, c := range []struct {
		name   string
		value  []byte
		header []event.Header
		want   event.Reason
	}{
		{"null", nil, nil, event.Empty},
		{"empty", []byte{}, nil, event.Empty},
		{"no msgpack", []byte{0xc1}, nil, event.Undecodable},
		{"no map", pack(t, []int{1}), nil, event.Undecodable},
		{"nil", []byte{0xc0}, nil, event.Undecodable},
		{"cut short", node(obj{"id": "a", "features": []float64{1, 2}})[:9], nil, event.Undecodable},
		{"bytes after the event", append(node(obj{"id": "a", "features": []int{1}}), 0), nil, event.Undecodable},
		{"a key twice", []byte("\x82\xa2id\x01\xa2id\x01"), nil, event.Undecodable},
		{"nested deep", append(append([]byte{0x81}, deep...), 0xc0), nil, event.Undecodable},
		{"content type unknown", node(obj{"id": "a", "features": []int{1}}), []event.Header{{Key: ContentType, Value: []byte("text/plain")}}, event.Undecodable},
		{"too large", make([]byte, 5<<20), nil, event.TooLarge},
		{"no id", node(obj{"features": []int{1}}), nil, event.BadID},
		{"an empty id", node(obj{"id": "", "features": []int{1}}), nil, event.BadID},
		{"a long id", node(obj{"id": strings.Repeat("x", 1025), "features": []int{1}}), nil, event.BadID},
		{"an id that is not UTF-8", node(obj{"id": "\xff", "features": []int{1}}), nil, event.BadID},
		{"a float id", node(obj{"id": 1.5, "features": []int{1}}), nil, event.BadID},
		{"an id beyond 64 bits", node(obj{"id": uint64(math.MaxUint64), "features": []int{1}}), nil, event.BadID},
		{"a neighbour without a name", node(obj{"id": 1, "features": []int{1}, "neighbours": []any{""}}), nil, event.BadID},
		{"no features", node(obj{"id": "a"}), nil, event.BadFeatures},
		{"both forms", node(obj{"id": "a", "features": []int{1}, "indices": []int{1}}), nil, event.BadFeatures},
		{"values alone", node(obj{"id": "a", "values": []int{1}}), nil, event.BadFeatures},
		{"lengths that differ", node(obj{"id": "a", "indices": []int{1, 2}, "values": []int{1}}), nil, event.BadFeatures},
		{"indices out of order", node(obj{"id": "a", "indices": []int{2, 1}}), nil, event.BadFeatures},
		{"an index twice", node(obj{"id": "a", "indices": []int{2, 2}}), nil, event.BadFeatures},
		{"a negative index", node(obj{"id": "a", "indices": []int{-1}}), nil, event.BadFeatures},
		{"a feature that is text", node(obj{"id": "a", "features": []any{"1"}}), nil, event.BadFeatures},
		{"half a number", node(obj{"id": "a", "features": []byte{1, 2, 3}}), nil, event.BadFeatures},
		{"NaN", node(obj{"id": "a", "features": []float64{math.NaN()}}), nil, event.NonFinite},
		{"infinity", node(obj{"id": "a", "indices": []int{0}, "values": []float64{math.Inf(-1)}}), nil, event.NonFinite},
		{"infinity in single precision", node(obj{"id": "a", "features": []float64{1e300}}), nil, event.NonFinite},
		{"a huge number", node(obj{"id": "a", "features": []float64{-1e30}}), nil, event.HugeNumber},
		{"too many neighbours", node(obj{"id": "a", "features": []int{1}, "neighbours": many(65537)}), nil, event.TooManyNeighbours},
		{"a million neighbours", node(obj{"id": "a", "features": []int{1}, "neighbours": many(1_000_000)}), nil, event.TooManyNeighbours},
		{"JSON: none", []byte(`{`), asJSON, event.Undecodable},
		{"JSON: an array", []byte(`[]`), asJSON, event.Undecodable},
		{"JSON: null", []byte(`null`), asJSON, event.BadID},
		{"JSON: nested deep", []byte(strings.Repeat("[", 1_000_000)), asJSON, event.Undecodable},
		{"JSON: not UTF-8", []byte("{\"id\":\"\xff\"}"), asJSON, event.Undecodable},
		{"JSON: a float id", []byte(`{"id": 1.5, "features": [1]}`), asJSON, event.BadID},
		{"JSON: half a number", []byte(`{"id": 1, "features": "AAA="}`), asJSON, event.BadFeatures},
		{"JSON: a huge number", []byte(`{"id": 1, "features": [1e30]}`), asJSON, event.HugeNumber},
		{"JSON: beyond single precision", []byte(`{"id": 1, "features": [1e300]}`), asJSON, event.NonFinite},
		{"JSON: too many neighbours", []byte(`{"id": 1, "features": [1], "neighbours": [1` + strings.Repeat(",1", 65536) + `]}`), asJSON, event.TooManyNeighbours},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			var n event.Node
			reason, detail := d.Node(&event.Origin{Value: c.value, Headers: c.header}, &n)
			if reason != c.want || strings.Contains(detail, "\n") || detail == "" {
				t.Errorf("reason %q (%s), want %q", reason, detail, c.want)
			}
		})
	}
}

func TestLabel(t *testing.T) {
	for _, c := range []struct {
		name   string
		value  []byte
		header []event.Header
		want   event.Label
		reason event.Reason
	}{
		{"by name", pack(t, obj{"node": 3, "class": "red", "time": 4}), nil, event.Label{Node: event.ID{Num: 3}, Class: "red", Time: 4}, ""},
		{"by index", pack(t, obj{"node": "a", "class": 2}), nil, event.Label{Node: event.ID{Str: "a"}, Index: 2}, ""},
		{"JSON by name", []byte(`{"node": "a", "class": "red"}`), asJSON, event.Label{Node: event.ID{Str: "a"}, Class: "red"}, ""},
		{"JSON by index", []byte(`{"node": 1, "class": 0, "time": 9}`), asJSON, event.Label{Node: event.ID{Num: 1}, Time: 9}, ""},
		{"no node", pack(t, obj{"class": 2}), nil, event.Label{}, event.BadID},
		{"no class", pack(t, obj{"node": 2}), nil, event.Label{}, event.UnknownClass},
		{"a class without a name", pack(t, obj{"node": 2, "class": ""}), nil, event.Label{}, event.UnknownClass},
		{"a negative index", pack(t, obj{"node": 2, "class": -1}), nil, event.Label{}, event.UnknownClass},
		{"JSON: a float", []byte(`{"node": 1, "class": 0.5}`), asJSON, event.Label{}, event.UnknownClass},
		{"JSON: no class", []byte(`{"node": 1}`), asJSON, event.Label{}, event.UnknownClass},
		{"empty", nil, nil, event.Label{}, event.Empty},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			var got event.Label
			reason, detail := d.Label(&event.Origin{Value: c.value, Headers: c.header}, &got)
			if reason != c.reason {
				t.Fatalf("reason %q (%s), want %q", reason, detail, c.reason)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(event.Label{}, "Origin")); reason == "" && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAttacks: a few bytes that declare gigabytes, and nesting without end. No
// decoder takes more memory than a small multiple of what it was given.
func TestAttacks(t *testing.T) {
	in := func(tail ...byte) []byte { return append(append([]byte{0x82}, pack(t, "x")...), tail...) }
	big := []byte{0xff, 0xff, 0xff, 0xff}
	attacks := map[string][]byte{
		"map32":        append([]byte{0xdf}, big...),
		"array32":      in(append([]byte{0xdd}, big...)...),
		"bin32":        in(append([]byte{0xc6}, big...)...),
		"str32":        in(append([]byte{0xdb}, big...)...),
		"ext32":        in(append([]byte{0xc9}, append(big, 1)...)...),
		"inner map32":  in(append([]byte{0xdf}, big...)...),
		"nested":       in(bytes.Repeat([]byte{0x91}, 1_000_000)...),
		"nested maps":  in(bytes.Repeat([]byte{0x81, 0x01}, 500_000)...),
		"features":     append(append([]byte{0x82}, pack(t, "features")...), append([]byte{0xdd}, big...)...),
		"feature bin":  append(append([]byte{0x82}, pack(t, "features")...), append([]byte{0xc6}, big...)...),
		"indices":      append(append([]byte{0x82}, pack(t, "indices")...), append([]byte{0xdd}, big...)...),
		"neighbours":   append(append([]byte{0x82}, pack(t, "neighbours")...), append([]byte{0xdd}, big...)...),
		"id":           append(append([]byte{0x82}, pack(t, "id")...), append([]byte{0xdb}, big...)...),
		"class":        append(append([]byte{0x82}, pack(t, "class")...), append([]byte{0xdb}, big...)...),
		"key":          append([]byte{0x82, 0xdb}, big...),
		"headers":      append(append([]byte{0x82}, pack(t, "headers")...), append([]byte{0xdd}, big...)...),
		"value":        append(append([]byte{0x82}, pack(t, "value")...), append([]byte{0xc6}, big...)...),
		"probability":  append(append([]byte{0x82}, pack(t, "probabilities")...), append([]byte{0xdd}, big...)...),
		"JSON nesting": []byte(strings.Repeat(`{"id":`, 200_000)),
	}
	for name, b := range attacks {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var d Decoder
			var n event.Node
			if reason, _ := d.Node(&event.Origin{Value: b}, &n); reason == "" {
				t.Error("taken as a node")
			}
			var l event.Label
			if reason, _ := d.Label(&event.Origin{Value: b}, &l); reason == "" {
				t.Error("taken as a label")
			}
			if reason, _ := d.Node(&event.Origin{Value: b, Headers: asJSON}, &event.Node{}); reason == "" {
				t.Error("taken as JSON")
			}
			if DecodePrediction(b, &event.Prediction{}) == nil {
				t.Error("taken as a prediction")
			}
			if DecodeDeadLetter(b, &event.Refusal{}) == nil {
				t.Error("taken as a dead letter")
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 64*uint64(len(b))+1<<20 {
				t.Errorf("%d bytes were taken for %d", used, len(b))
			}
		})
	}
}

func TestPrediction(t *testing.T) {
	p := event.Prediction{
		Node: event.ID{Str: "a"}, Class: "red", ClassIndex: 1, Confidence: .75, Probabilities: []float32{.25, .75},
		Total: .56, Aleatoric: .5, Epistemic: .06, Window: 9, PosteriorVersion: 4, Time: 17, Model: "0123456789abcdef",
	}
	b := AppendPrediction([]byte("before"), &p)
	var got event.Prediction
	if err := DecodePrediction(b[len("before"):], &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Error(diff)
	}
	// Whoever has a msgpack library reads the same fields as in the JSON.
	var generic, fromJSON obj
	if err := msgpack.Unmarshal(b[len("before"):], &generic); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(AppendPredictionJSON(nil, &p), &fromJSON); err != nil {
		t.Fatal(err)
	}
	for k := range fromJSON {
		if _, has := generic[k]; !has {
			t.Errorf("msgpack has no %s", k)
		}
	}
	if len(generic) != len(fromJSON) || generic["class"] != "red" || fromJSON["node"] != "a" {
		t.Errorf("%v and %v", generic, fromJSON)
	}
}

func TestDeadLetter(t *testing.T) {
	r := event.Refusal{
		Reason: event.NonFinite, Detail: "feature 3 is NaN",
		Origin: &event.Origin{
			Topic: "g.nodes", Partition: 2, Offset: 77, Key: []byte{}, Value: []byte{1, 2, 3},
			Headers: []event.Header{{Key: "a", Value: []byte("b")}, {Key: "c", Value: nil}},
		},
	}
	for _, value := range [][]byte{{1, 2, 3}, {}, nil} {
		r.Origin.Value = value
		var got event.Refusal
		if err := DecodeDeadLetter(AppendDeadLetter(nil, &r), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("value %v: %s", value, diff)
		}
	}
	// A giant keeps its head, and fits a broker's limit.
	r.Origin.Value, r.Origin.Key = make([]byte, 4<<20), make([]byte, 4<<20)
	for range 1000 {
		r.Origin.Headers = append(r.Origin.Headers, event.Header{Key: strings.Repeat("k", 5000), Value: make([]byte, 5000)})
	}
	b := AppendDeadLetter(nil, &r)
	var got event.Refusal
	if err := DecodeDeadLetter(b, &got); err != nil || len(got.Origin.Value) != MaxDeadLetterValue {
		t.Errorf("%d bytes of the value are kept, %v", len(got.Origin.Value), err)
	}
	if len(b) > 900_000 {
		t.Errorf("a dead letter of %d bytes", len(b))
	}
}

func TestKey(t *testing.T) {
	for id, want := range map[event.ID]string{{Str: "a b"}: "a b", {Num: -5}: "-5", {}: "0"} {
		if got := string(AppendKey(nil, id)); got != want {
			t.Errorf("key of %v is %q, want %q", id, got, want)
		}
	}
}
