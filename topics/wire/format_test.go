package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/gvbll/gvbll/pipeline/event"
)

// fields is a msgpack map to encode with pack.
type fields map[string]any

// pack encodes with the library's encoder, as another producer might.
func pack(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func record(value []byte) *event.Origin { return &event.Origin{Topic: "gvbll.nodes", Value: value} }

func jsonRecord(value string) *event.Origin {
	o := record([]byte(value))
	o.Headers = asJSON
	return o
}

func decodeNode(t testing.TB, o *event.Origin) event.Node {
	t.Helper()
	var d Decoder
	var n event.Node
	if reason, detail := d.Node(o, &n); reason != "" {
		t.Fatalf("refused: %s: %s", reason, detail)
	}
	if n.Origin != o {
		t.Error("Origin is not set")
	}
	n.Origin = nil
	return n
}

// TestNodeFromPython: node events that another implementation encoded are read. Python's
// msgpack 1.2 wrote the bytes, with the calls that docs/wire-format.md shows.
func TestNodeFromPython(t *testing.T) {
	tests := map[string]struct {
		hex  string
		want event.Node
	}{
		"dense block": {
			"84a26964a870617065722d3137a86665617475726573c40c0000003f000080bf00000040aa6e65696768626f75727392a770617065722d3307a474696d65cf0000018bcfe56800",
			event.Node{ID: event.ID{Str: "paper-17"}, Dense: []float32{0.5, -1, 2}, Neighbours: []event.ID{{Str: "paper-3"}, {Num: 7}}, Time: 1700000000000},
		},
		"dense array": {
			"82a26964fba8666561747572657393cb3fe0000000000000ff02",
			event.Node{ID: event.ID{Num: -5}, Dense: []float32{0.5, -1, 2}},
		},
		"sparse, values of one, null neighbours": {
			"84a2696407a7696e64696365739203ce00011170a7636f6e74657874c3aa6e65696768626f757273c0",
			event.Node{ID: event.ID{Num: 7}, Index: []uint32{3, 70000}, Value: []float32{1, 1}, Context: true},
		},
		"sparse block": {
			"83a2696407a7696e6469636573c4080300000070110100a676616c7565739201cb3fd0000000000000",
			event.Node{ID: event.ID{Num: 7}, Index: []uint32{3, 70000}, Value: []float32{1, 0.25}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := hex.DecodeString(test.hex)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, decodeNode(t, record(b))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestNodeJSON: JSON node events are read in every form that docs/wire-format.md allows,
// with white space, escapes, null and unknown keys.
func TestNodeJSON(t *testing.T) {
	block := base64.StdEncoding.EncodeToString([]byte{0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf})
	tests := map[string]event.Node{
		`{"id":"a,b","features":[0.5, -1 ,2e0],"neighbours":["x,y",-7],"context":true,"time":12}`: {
			ID: event.ID{Str: "a,b"}, Dense: []float32{0.5, -1, 2}, Neighbours: []event.ID{{Str: "x,y"}, {Num: -7}}, Context: true, Time: 12,
		},
		`{"id":"\u00e9\n","features":"` + block + `"}`:                       {ID: event.ID{Str: "é\n"}, Dense: []float32{0.5, -1}},
		`{"id":7,"indices":[0, 3],"values":[1,0.25],"neighbours":null}`:      {ID: event.ID{Num: 7}, Index: []uint32{0, 3}, Value: []float32{1, 0.25}},
		`{"id":7,"indices":[ 5 ],"neighbours":[],"later":[{"x":[1]},"id"]}`:  {ID: event.ID{Num: 7}, Index: []uint32{5}, Value: []float32{1}, Neighbours: []event.ID{}},
		`{"id":7,"features":[],"neighbours":[ "x\\\",y" ,1,"\\\\" , "]"]}`:   {ID: event.ID{Num: 7}, Dense: []float32{}, Neighbours: []event.ID{{Str: `x\",y`}, {Num: 1}, {Str: `\\`}, {Str: "]"}}},
		`{"id":7,"indices":[ ]}`:                                             {ID: event.ID{Num: 7}, Index: []uint32{}, Value: []float32{}},
		` {"id":9223372036854775807,"features":[0.1],"time":null} ` + "\r\n": {ID: event.ID{Num: math.MaxInt64}, Dense: []float32{0.1}},
	}
	for value, want := range tests {
		if diff := cmp.Diff(want, decodeNode(t, jsonRecord(value))); diff != "" {
			t.Errorf("%s: -want +got\n%s", value, diff)
		}
	}
}

// TestNodeRefused: a bad node event in msgpack is refused with the reason that
// docs/wire-format.md gives, and with a detail that names what is wrong.
func TestNodeRefused(t *testing.T) {
	one := []float32{1}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	good := pack(t, fields{"id": 1, "features": one})
	deep := append(bytes.Repeat([]byte{0x91}, 1_000_000), 0xc0)
	wide := fields{"id": 1, "features": one}
	for i := range 100 * maxFields {
		wide[fmt.Sprint("k", i)] = i
	}
	tests := []struct {
		name   string
		value  []byte
		reason event.Reason
		detail string
	}{
		{"null", nil, event.BadID, "the key"},
		{"empty", []byte{}, event.Empty, ""},
		{"too large", make([]byte, 4<<20+1), event.TooLarge, "4194305 bytes"},
		{"text", []byte("hello"), event.Undecodable, "where a map is needed"},
		{"nil", []byte{0xc0}, event.Undecodable, "where a map is needed"},
		{"a map behind an extension's header", append([]byte{0xd4, 1}, good...), event.Undecodable, "where a map is needed"},
		{"JSON that no header announces, cut off", []byte(`{"id":1,"features":[1]`), event.Undecodable, ""},
		{"cut off", good[:len(good)-1], event.Undecodable, "ends inside"},
		{"cut off before a value", []byte{0x81, 0xa2, 'i', 'd'}, event.Undecodable, "ends inside"},
		{"bytes after the map", append(bytes.Clone(good), 0xc0), event.Undecodable, "1 bytes after"},
		{"integer key", []byte{0x81, 1, 1}, event.Undecodable, "where a string is needed"},
		{"a duplicate key", []byte{0x82, 0xa2, 'i', 'd', 1, 0xa2, 'i', 'd', 2}, event.Undecodable, `"id" comes twice`},
		{"a duplicate key, first null", []byte{0x82, 0xa2, 'i', 'd', 0xc0, 0xa2, 'i', 'd', 2}, event.Undecodable, `"id" comes twice`},
		{"too many keys", pack(t, wide), event.Undecodable, "6402 keys"},
		{"a long key", pack(t, fields{strings.Repeat("k", 65): 1}), event.Undecodable, "65 bytes"},
		{"a code that msgpack does not use", []byte{0x81, 0xa1, 'x', 0xc1}, event.Undecodable, ""},
		{"nested too deeply", append([]byte{0x81, 0xa1, 'x'}, deep...), event.Undecodable, "nested deeper"},
		{"context as a number", pack(t, fields{"context": 1}), event.Undecodable, "true or false"},
		{"time as text", pack(t, fields{"time": "now"}), event.Undecodable, "is no time"},
		{"features as text", pack(t, fields{"id": 1, "features": "1"}), event.Undecodable, "a list is needed"},
		{"no id", pack(t, fields{"features": one}), event.BadID, "no id"},
		{"null id", pack(t, fields{"id": nil, "features": one}), event.BadID, "no id"},
		{"empty id", pack(t, fields{"id": ""}), event.BadID, ""},
		{"long id", pack(t, fields{"id": strings.Repeat("x", 1025)}), event.BadID, "1024"},
		{"id not UTF-8", pack(t, fields{"id": "\xff"}), event.BadID, "UTF-8"},
		{"id beyond int64", pack(t, fields{"id": uint64(1 << 63)}), event.BadID, "64 bits"},
		{"float id", pack(t, fields{"id": 1.0}), event.BadID, ""},
		{"binary id", pack(t, fields{"id": []byte("x")}), event.BadID, ""},
		{"binary neighbour", pack(t, fields{"neighbours": []any{[]byte("x")}}), event.BadID, ""},
		{"neither features nor indices", pack(t, fields{"id": 1}), event.BadFeatures, "neither"},
		{"features and indices", pack(t, fields{"id": 1, "features": one, "indices": []int{1}}), event.BadFeatures, "one or the other"},
		{"values without indices", pack(t, fields{"id": 1, "values": one}), event.BadFeatures, ""},
		{"features and values", pack(t, fields{"id": 1, "features": one, "values": one}), event.BadFeatures, ""},
		{"fewer values than indices", pack(t, fields{"id": 1, "indices": []int{1, 2}, "values": one}), event.BadFeatures, "2 indices and 1 values"},
		{"decreasing indices", pack(t, fields{"id": 1, "indices": []int{2, 1}}), event.BadFeatures, "must increase"},
		{"a duplicate index", pack(t, fields{"id": 1, "indices": []int{2, 2}}), event.BadFeatures, "must increase"},
		{"negative index", pack(t, fields{"id": 1, "indices": []int{-1}}), event.BadFeatures, "-1"},
		{"huge index", pack(t, fields{"id": 1, "indices": []int64{1 << 32}}), event.BadFeatures, ""},
		{"a block that is not whole numbers", pack(t, fields{"id": 1, "features": make([]byte, 7)}), event.BadFeatures, "7 bytes"},
		{"text among numbers", pack(t, fields{"id": 1, "features": []any{1, "2"}}), event.BadFeatures, "a number"},
		{"null among numbers", pack(t, fields{"id": 1, "features": []any{1, nil}}), event.PartialFeatures, "number 1 is null"},
		{"an attribute without a name", pack(t, fields{"id": 1, "features": fields{"": 1000}}), event.BadFeatures, "without a name"},
		{"an attribute that is an object", pack(t, fields{"id": 1, "features": fields{"a": fields{"b": 1}}}), event.BadFeatures, "attribute a: an object"},
		{"NaN", pack(t, fields{"id": 1, "features": []float32{1, nan}}), event.NonFinite, "feature 1 is NaN"},
		{"infinity", pack(t, fields{"id": 1, "indices": []int{9}, "values": []float32{inf}}), event.NonFinite, "feature 0"},
		{"infinite as float32", pack(t, fields{"id": 1, "features": []float64{1e39}}), event.NonFinite, "feature 0"},
		{"a huge number", pack(t, fields{"id": 1, "features": []float32{-1.1e6}}), event.HugeNumber, "1e+06"},
		{"a huge integer", pack(t, fields{"id": 1, "features": []uint64{math.MaxUint64}}), event.HugeNumber, ""},
		{"too many neighbours", pack(t, fields{"neighbours": make([]int, 1<<16+1)}), event.TooManyNeighbours, "65537"},
		{"too many features", pack(t, fields{"features": make([]int8, 1<<20+1)}), event.TooLarge, "1048577"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var d Decoder
			var n event.Node
			reason, detail := d.Node(record(test.value), &n)
			if reason != test.reason || !strings.Contains(detail, test.detail) {
				t.Errorf("reason %q and detail %q, want %q and a detail with %q", reason, detail, test.reason, test.detail)
			}
		})
	}
}

// TestNodeJSONRefused: a bad node event in JSON is refused with the same reasons as in
// msgpack.
func TestNodeJSONRefused(t *testing.T) {
	tests := []struct {
		value  string
		reason event.Reason
	}{
		{`{`, event.Undecodable},
		{`[]`, event.BadID},
		{`7`, event.Undecodable},
		{`null`, event.BadID},
		{`{"id":1,"features":[1]} x`, event.Undecodable},
		{`{"id":1,"id":1,"features":[1]}`, event.Undecodable},
		{`{"id":null,"id":1,"features":[1]}`, event.Undecodable},
		{`{"id":1,"features":[1],"FEATURES":[1]}`, event.Undecodable},
		{"{\"id\":\"\xff\",\"features\":[1]}", event.Undecodable},
		{`{"x":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + `}`, event.Undecodable},
		{`{"id":1,"features":[1],"time":"1.5s"}`, event.Undecodable},
		{`{"id":1,"features":[1],"context":1}`, event.Undecodable},
		{`{"id":1,"features":[1],"neighbours":3}`, event.Undecodable},
		{`{"features":[1]}`, event.BadID},
		{`{"id":"","features":[1]}`, event.BadID},
		{`{"id":1.0,"features":[1]}`, event.BadID},
		{`{"id":9223372036854775808,"features":[1]}`, event.BadID},
		{`{"id":1,"features":[1],"neighbours":[[1]]}`, event.BadID},
		{`{"id":1,"features":[1],"neighbours":[null]}`, event.BadID},
		{`{"id":1,"features":[1],"neighbours":[{"a":"x,"}]}`, event.BadID},
		{`{"id":1,"features":[1],"neighbours":["a",["b,\\"]]}`, event.BadID},
		{`{"id":1}`, event.BadFeatures},
		{`{"id":1,"features":null}`, event.BadFeatures},
		{`{"id":1,"features":[null]}`, event.PartialFeatures},
		{`{"id":1,"features":{"3":{}}}`, event.BadFeatures},
		{`{"id":1,"features":[[1]]}`, event.BadFeatures},
		{`{"id":1,"features":["1"]}`, event.BadFeatures},
		{`{"id":1,"features":3}`, event.BadFeatures},
		{`{"id":1,"features":"AAAA"}`, event.BadFeatures},
		{`{"id":1,"features":"?"}`, event.BadFeatures},
		{`{"id":1,"features":[1],"values":[1]}`, event.BadFeatures},
		{`{"id":1,"indices":[1.0]}`, event.BadFeatures},
		{`{"id":1,"indices":[-1]}`, event.BadFeatures},
		{`{"id":1,"indices":[4294967296]}`, event.BadFeatures},
		{`{"id":1,"indices":[2,1]}`, event.BadFeatures},
		{`{"id":1,"features":[1e400]}`, event.NonFinite},
		{`{"id":1,"features":"AADAfw=="}`, event.NonFinite},
		{`{"id":1,"features":[1e7]}`, event.HugeNumber},
		{`{"id":1,"features":[1],"neighbours":[0` + strings.Repeat(",0", 1<<16) + `]}`, event.TooManyNeighbours},
		{`{"id":1,"features":[0` + strings.Repeat(",0", 1<<20) + `]}`, event.TooLarge},
	}
	for _, test := range tests {
		var d Decoder
		var n event.Node
		if reason, detail := d.Node(jsonRecord(test.value), &n); reason != test.reason {
			t.Errorf("%.60s: reason %q (%s), want %q", test.value, reason, detail, test.reason)
		}
	}
}

// TestUnknownFields: unknown keys are ignored, whatever the kind of their values, so that
// producers can add fields.
func TestUnknownFields(t *testing.T) {
	value := pack(t, fields{
		"id": 1, "features": []float32{2}, "bin": []byte("abc"), "map": fields{"a": []any{1, nil, "x", 2.5}},
		"long": strings.Repeat("x", 300), "list": make([]int, 300), "true": true,
	})
	value[0]++ // one key more, with an extension value, which the library encodes for registered types only
	value = append(value, 0xa1, 'e', 0xc7, 3, 5, 1, 2, 3)
	want := event.Node{ID: event.ID{Num: 1}, Dense: []float32{2}}
	if diff := cmp.Diff(want, decodeNode(t, record(value))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestUnknownFieldsAreReported: the names of ignored fields are reported, in both encodings.
// Null is the same as a missing field.
func TestUnknownFieldsAreReported(t *testing.T) {
	for name, o := range map[string]*event.Origin{
		"msgpack": record(pack(t, fields{"id": 1, "features": []float32{2}, "neighbour": 3, "none": nil, "source": 4})),
		"JSON":    jsonRecord(`{"id":1,"FEATURES":[2],"n\u0065ighbour":{"id":[",}"]},"none":null,"source":4}`),
	} {
		var got []string
		d := Decoder{Unknown: func(name []byte) { got = append(got, string(name)) }}
		var n event.Node
		if reason, detail := d.Node(o, &n); reason != "" {
			t.Fatalf("%s: refused: %s: %s", name, reason, detail)
		}
		if diff := cmp.Diff([]string{"neighbour", "source"}, got); diff != "" {
			t.Errorf("%s: reported fields, -want +got\n%s", name, diff)
		}
	}
}

// TestEdges: events of only edges are read in every form that docs/wire-format.md has, and
// come back the same from AppendNode.
func TestEdges(t *testing.T) {
	a, b, c := event.ID{Str: "a"}, event.ID{Str: "b"}, event.ID{Num: 3}
	for value, want := range map[string]event.Node{
		`{"source":"a","target":"b"}`:                      {ID: a, Edges: []event.Edge{{Source: a, Target: b}}},
		`{"target":3,"time":5,"source":"a","remove":true}`: {ID: a, Edges: []event.Edge{{Source: a, Target: c, Remove: true}}, Time: 5},
		`[{"source":"a","target":"b","time":7}]`:           {ID: a, Edges: []event.Edge{{Source: a, Target: b}}, Time: 7},
		` [ {"source":"b","target":"a"} , {"source":3,"target":"b","remove":true,"time":9} ] `: {
			ID: b, Edges: []event.Edge{{Source: b, Target: a}, {Source: c, Target: b, Remove: true}}, Time: 9,
		},
		`{"id":"a","neighbours":["b",3]}`:                              {ID: a, Featureless: true, Neighbours: []event.ID{b, c}},
		`{"id":"a","neighbors":["b"],"remove":true,"context":true}`:    {ID: a, Featureless: true, Remove: true, Neighbours: []event.ID{b}},
		`{"id":"a","neighbors":["b"],"features":[1],"remove":false}`:   {ID: a, Dense: []float32{1}, Neighbours: []event.ID{b}},
		`{"id":"a","source":"b","target":3,"indices":[],"values":[]}`:  {ID: a, Index: []uint32{}, Value: []float32{}},
		`{"id":"a","departed":true,"neighbours":["b"],"remove":true}`:  {ID: a, Departed: true},
		`{"id":"a","neighbours":null,"neighbors":["b"],"features":[]}`: {ID: a, Dense: []float32{}, Neighbours: []event.ID{b}},
	} {
		var any any
		if err := json.Unmarshal([]byte(value), &any); err != nil {
			t.Fatal(err)
		}
		packed := bytes.NewBuffer(nil)
		e := msgpack.NewEncoder(packed)
		e.UseCompactInts(true)
		e.UseCompactFloats(true)
		if err := e.Encode(any); err != nil { // numbers come as floats, so ids are integers again
			t.Fatal(err)
		}
		for _, o := range []*event.Origin{jsonRecord(value), record(packed.Bytes()), record(AppendNode(nil, &want))} {
			if diff := cmp.Diff(want, decodeNode(t, o)); diff != "" {
				t.Errorf("%s: -want +got\n%s", value, diff)
			}
		}
	}
	for value, want := range map[string]event.Reason{
		`{"source":"a"}`:                                    event.BadID,
		`{"source":"a","target":""}`:                        event.BadID,
		`{"source":"a","target":"b","features":[1]}`:        event.Undecodable,
		`{"source":"a","target":"b","departed":true}`:       event.Undecodable,
		`{"source":"a","target":"b","neighbours":[]}`:       event.Undecodable,
		`{"source":"a","target":"b","remove":1}`:            event.Undecodable,
		`[{"id":"a","features":[1]}]`:                       event.Undecodable,
		`[{"source":"a","target":"b"},7]`:                   event.Undecodable,
		`[{"source":"a","target":"b"}`:                      event.Undecodable,
		`[[]]`:                                              event.Undecodable,
		`[[{"source":"a","target":"b"}]]`:                   event.Undecodable,
		`[{}` + strings.Repeat(",{}", 1<<16) + `]`:          event.TooManyNeighbours,
		`{"id":"a","features":[1],"remove":true}`:           event.BadFeatures,
		`{"id":"a","remove":true}`:                          event.BadFeatures,
		`{"id":"a","neighbours":[]}`:                        event.BadFeatures,
		`{"id":"a","neighbours":["b"],"neighbors":["b"]}`:   event.Undecodable,
		`{"id":"a","neighbours":["b"],"values":[1]}`:        event.BadFeatures,
		`{"id":"a","neighbours":["b"],"features":{"3":{}}}`: event.BadFeatures,
	} {
		var any any
		json.Unmarshal([]byte(value), &any)
		for _, o := range []*event.Origin{jsonRecord(value), record(pack(t, any))} {
			var n event.Node
			if reason, detail := (&Decoder{}).Node(o, &n); reason != want {
				t.Errorf("%.60s: reason %q (%s), want %q", value, reason, detail, want)
			}
		}
	}
}

// TestDecoderReuse: a decoder decodes one event after the other, bad ones among them. No
// event affects a later one, and a decoded event does not share the record's memory, which
// the caller reuses.
func TestDecoderReuse(t *testing.T) {
	var d Decoder
	first := AppendNode(nil, &event.Node{ID: event.ID{Str: "first"}, Dense: []float32{1, 2}, Neighbours: []event.ID{{Str: "other"}}})
	var a, bad, b event.Node
	if reason, detail := d.Node(record(first), &a); reason != "" {
		t.Fatalf("refused: %s: %s", reason, detail)
	}
	if reason, _ := d.Node(record(first[:9]), &bad); reason == "" {
		t.Fatal("an event that is cut off is accepted")
	}
	if reason, detail := d.Node(record(AppendNode(nil, &event.Node{Index: []uint32{4}, Value: []float32{8}})), &b); reason != "" {
		t.Fatalf("refused: %s: %s", reason, detail)
	}
	clear(first)
	a.Origin, b.Origin = nil, nil
	want := event.Node{ID: event.ID{Str: "first"}, Dense: []float32{1, 2}, Neighbours: []event.ID{{Str: "other"}}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("first event, -want +got\n%s", diff)
	}
	if diff := cmp.Diff(event.Node{Index: []uint32{4}, Value: []float32{8}}, b); diff != "" {
		t.Errorf("event after a bad one, -want +got\n%s", diff)
	}
}

// TestDecodeOverwrites: Node and Label overwrite every field of a value that is decoded into.
func TestDecodeOverwrites(t *testing.T) {
	var d Decoder
	n := event.Node{Context: true, Index: []uint32{1}, Value: []float32{1}, Neighbours: []event.ID{{Num: 1}}, Time: 1}
	want := event.Node{ID: event.ID{Num: 2}, Dense: []float32{2}}
	if reason, detail := d.Node(record(AppendNode(nil, &want)), &n); reason != "" {
		t.Fatalf("refused: %s: %s", reason, detail)
	}
	n.Origin = nil
	if diff := cmp.Diff(want, n); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	l := event.Label{Class: "red", Time: 1}
	wantLabel := event.Label{Node: event.ID{Num: 2}, Index: 3}
	if reason, detail := d.Label(record(AppendLabel(nil, &wantLabel)), &l); reason != "" {
		t.Fatalf("refused: %s: %s", reason, detail)
	}
	l.Origin = nil
	if diff := cmp.Diff(wantLabel, l); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestLabel: labels are read in both encodings, with a class's name or its index, or are
// refused with the reason that docs/wire-format.md gives.
func TestLabel(t *testing.T) {
	const python = "83a46e6f6465a870617065722d3137a5636c617373a65468656f7279a474696d65cf0000018bcfe56800" // written by Python's msgpack
	value, err := hex.DecodeString(python)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		o      *event.Origin
		want   event.Label
		reason event.Reason
	}{
		{record(value), event.Label{Node: event.ID{Str: "paper-17"}, Class: "Theory", Time: 1700000000000}, ""},
		{record(pack(t, fields{"node": 7, "class": 2, "source": "hand"})), event.Label{Node: event.ID{Num: 7}, Index: 2}, ""},
		{jsonRecord(`{"node":"a","class":"b","time":3}`), event.Label{Node: event.ID{Str: "a"}, Class: "b", Time: 3}, ""},
		{jsonRecord(`{"node":-1,"class":0}`), event.Label{Node: event.ID{Num: -1}}, ""},
		{record(nil), event.Label{}, event.Empty},
		{record(pack(t, fields{"class": 1})), event.Label{}, event.BadID},
		{record(pack(t, fields{"node": 1})), event.Label{}, event.UnknownClass},
		{record(pack(t, fields{"node": 1, "class": nil})), event.Label{Node: event.ID{Num: 1}, Withdrawn: true}, ""},
		{record(pack(t, fields{"class": nil})), event.Label{}, event.BadID},
		{record(pack(t, fields{"node": nil, "class": nil})), event.Label{}, event.BadID},
		{record(pack(t, fields{"node": 1, "class": ""})), event.Label{}, event.UnknownClass},
		{record(pack(t, fields{"node": 1, "class": -1})), event.Label{Node: event.ID{Num: 1}, Index: -1}, ""},
		{record(pack(t, fields{"node": 1, "class": int64(1 << 31)})), event.Label{Node: event.ID{Num: 1}, Class: "2147483648"}, ""},
		{record(pack(t, fields{"node": 1, "class": 2.0})), event.Label{Node: event.ID{Num: 1}, Index: 2}, ""},
		{record(pack(t, fields{"node": 1, "class": true})), event.Label{Node: event.ID{Num: 1}, Class: "true"}, ""},
		{record(pack(t, fields{"node": 1, "class": math.NaN()})), event.Label{}, event.UnknownClass},
		{record(pack(t, fields{"node": 1, "class": 1.5})), event.Label{Node: event.ID{Num: 1}, Class: "1.5"}, ""},
		{record(pack(t, fields{"node": 1, "class": "\xff"})), event.Label{}, event.Undecodable},
		{jsonRecord(`{"class":1}`), event.Label{}, event.BadID},
		{jsonRecord(`{"node":1,"Class":null,"time":2}`), event.Label{Node: event.ID{Num: 1}, Withdrawn: true, Time: 2}, ""},
		{jsonRecord(`{"node":1}`), event.Label{}, event.UnknownClass},
		{jsonRecord(`{"node":1,"class":null,"class":2}`), event.Label{}, event.Undecodable},
		{jsonRecord(`{"node":1,"class":""}`), event.Label{}, event.UnknownClass},
		{jsonRecord(`{"node":1,"class":1.5}`), event.Label{Node: event.ID{Num: 1}, Class: "1.5"}, ""},
		{jsonRecord(`{"node":1,"class":1.0}`), event.Label{Node: event.ID{Num: 1}, Index: 1}, ""},
		{jsonRecord(`{"node":1,"class":false}`), event.Label{Node: event.ID{Num: 1}, Class: "false"}, ""},
		{jsonRecord(`{"node":1,"class":[1]}`), event.Label{}, event.UnknownClass},
		{jsonRecord(`{"node":1,"class":"` + strings.Repeat("x", 1025) + `"}`), event.Label{}, event.UnknownClass},
		{jsonRecord(`{"node":1,"class":1,"class":2}`), event.Label{}, event.Undecodable},
	}
	for i, test := range tests {
		var d Decoder
		var l event.Label
		reason, detail := d.Label(test.o, &l)
		if reason != test.reason {
			t.Errorf("label %d: reason %q (%s), want %q", i, reason, detail, test.reason)
		}
		l.Origin = nil
		if reason != "" {
			continue
		}
		if diff := cmp.Diff(test.want, l); diff != "" {
			t.Errorf("label %d: -want +got\n%s", i, diff)
		}
	}
}

// TestContentType: the content-type header selects the encoding, whatever its case and its
// parameters. Another type is refused. Without the header a value that begins as JSON does is JSON, and any
// other msgpack.
func TestContentType(t *testing.T) {
	const node = `{"id":1,"features":[1]}`
	packed := string(AppendNode(nil, &event.Node{ID: event.ID{Num: 1}, Dense: []float32{1}}))
	tests := []struct {
		key, kind, value string
		reason           event.Reason
	}{
		{"content-type", "application/json", node, ""},
		{"Content-Type", "Application/JSON; charset=utf-8", node, ""},
		{"content-type", "application/msgpack", packed, ""},
		{"content-type", "application/x-msgpack", packed, ""},
		{"encoding", "application/json", packed, ""},
		{"encoding", "application/msgpack", node, ""},
		{"encoding", "application/msgpack", "\r\n\t " + node, ""},
		{"content-type", "application/msgpack", node, event.Undecodable},
		{"content-type", "application/json", packed, event.Undecodable},
		{"content-type", "text/plain", packed, event.Undecodable},
		{"content-type", "", packed, event.Undecodable},
		{"content-type", strings.Repeat("\xff", 1000), packed, event.Undecodable},
	}
	for _, test := range tests {
		o := record([]byte(test.value))
		o.Headers = []event.Header{{Key: "other"}, {Key: test.key, Value: []byte(test.kind)}}
		var d Decoder
		var n event.Node
		if reason, detail := d.Node(o, &n); reason != test.reason {
			t.Errorf("header %s: %.40q: reason %q (%s), want %q", test.key, test.kind, reason, detail, test.reason)
		}
	}
}

// TestLimits: each limit is enforced in both encodings, and an event at the limits passes.
func TestLimits(t *testing.T) {
	n := event.Node{ID: event.ID{Str: "abcd"}, Dense: []float32{3, 4}, Neighbours: []event.ID{{Num: 1}, {Num: 2}}}
	value := AppendNode(nil, &n)
	text := `{"id":"abcd","features":[3,4],"neighbours":[1,2]}`
	tests := []struct {
		limits Limits
		reason event.Reason
	}{
		{Limits{MaxID: 4, MaxFeatures: 2, MaxNeighbours: 2, MaxAbs: 4}, ""},
		{Limits{MaxValue: 20}, event.TooLarge},
		{Limits{MaxID: 3}, event.BadID},
		{Limits{MaxFeatures: 1}, event.TooLarge},
		{Limits{MaxNeighbours: 1}, event.TooManyNeighbours},
		{Limits{MaxAbs: 3.5}, event.HugeNumber},
		{Limits{MaxAbs: float32(math.Inf(1))}, ""},
	}
	for _, test := range tests {
		for _, o := range []*event.Origin{record(value), jsonRecord(text)} {
			d := Decoder{Limits: test.limits}
			if reason, detail := d.Node(o, new(event.Node)); reason != test.reason {
				t.Errorf("%+v: reason %q (%s), want %q", test.limits, reason, detail, test.reason)
			}
		}
	}
}

// TestDetailIsBounded: the detail of a refusal quotes the record, but stays one short line
// however long the record is.
func TestDetailIsBounded(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	for _, o := range []*event.Origin{
		jsonRecord(`{"id":` + long + `}`),
		jsonRecord(`{"id":1,"features":[1],"time":` + long + `}`),
		jsonRecord(`{"id":1,"indices":[` + long + `]}`),
		jsonRecord(long),
		jsonRecord("{\"id\":1,\"features\":[\n\n\"" + long + "\"]}"),
	} {
		_, detail := new(Decoder).Node(o, new(event.Node))
		if detail == "" || len(detail) > maxDetail || strings.Contains(detail, "\n") {
			t.Errorf("the detail has %d bytes and begins %.100q, want one line of 1 to %d bytes", len(detail), detail, maxDetail)
		}
	}
}

// TestDeadLetterIsSafeToPrint: the texts of a dead letter, which commands print, contain no
// control characters that a terminal would act on, even if the record did.
func TestDeadLetterIsSafeToPrint(t *testing.T) {
	o := jsonRecord("{\"id\":1,\"features\":\"\u009b2J\u202e\u007f\"}")
	_, detail := new(Decoder).Node(o, new(event.Node))
	written := event.Refusal{Reason: "a\x1b[2J", Detail: detail + "\r\n\x1b]0;x\a", Origin: &event.Origin{Topic: "t\u0085"}}
	var r event.Refusal
	if err := DecodeDeadLetter(AppendDeadLetter(nil, &written), &r); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{detail, r.Detail, string(r.Reason), r.Origin.Topic} {
		for _, c := range s {
			if !unicode.IsPrint(c) {
				t.Errorf("%q contains %U, which is not printable", s, c)
			}
		}
	}
}

func randomID(rng *rand.Rand) event.ID {
	if rng.IntN(2) == 0 {
		return event.ID{Num: rng.Int64() >> rng.IntN(64)}
	}
	return event.ID{Str: strings.Repeat("é", 1+rng.IntN(200))}
}

func randomNode(rng *rand.Rand) event.Node {
	n := event.Node{ID: randomID(rng), Context: rng.IntN(2) == 0, Time: rng.Int64() >> rng.IntN(64) * int64(rng.IntN(2))}
	k := rng.IntN(1 << rng.IntN(12))
	x := make([]float32, k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	if rng.IntN(2) == 0 {
		n.Dense = x
	} else {
		n.Value, n.Index = x, make([]uint32, k)
		for i := range n.Index {
			n.Index[i] = uint32(3*i + rng.IntN(3))
		}
	}
	for range rng.IntN(1 << rng.IntN(8)) {
		n.Neighbours = append(n.Neighbours, randomID(rng))
	}
	return n
}

// TestNodeRoundTrip: a random node event is the same after encoding and decoding.
func TestNodeRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := randomNode(rng)
		got := decodeNode(t, record(AppendNode([]byte("before"), &n)[len("before"):]))
		if diff := cmp.Diff(n, got); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	}
}

// TestLabelRoundTrip: a random label is the same after encoding and decoding.
func TestLabelRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		l := event.Label{Node: randomID(rng), Index: rng.Int32() >> rng.IntN(31), Time: rng.Int64() * int64(rng.IntN(2))}
		if rng.IntN(2) == 0 {
			l.Class, l.Index = "class", 0
		}
		var got event.Label
		if reason, detail := new(Decoder).Label(record(AppendLabel(nil, &l)), &got); reason != "" {
			t.Fatalf("refused: %s: %s", reason, detail)
		}
		got.Origin = nil
		if diff := cmp.Diff(l, got); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	}
}

// TestAppendKey: a node's record key is its id as text, so that all its events are in one
// partition.
func TestAppendKey(t *testing.T) {
	for want, id := range map[string]event.ID{"paper-17": {Str: "paper-17"}, "-7": {Num: -7}, "0": {}} {
		if got := string(AppendKey([]byte("k:"), id)); got != "k:"+want {
			t.Errorf("%v: got %q, want %q", id, got, "k:"+want)
		}
	}
}

func samplePrediction() event.Prediction {
	return event.Prediction{
		Node: event.ID{Str: "paper-17"}, Class: "Theory", ClassIndex: 2, Confidence: 0.7, Probabilities: []float32{0.1, 0.2, 0.7},
		Classes: []string{"Rule_Learning", "a \"b\"", "Theory"},
		Total:   0.8, Aleatoric: 0.75, Epistemic: 0.05, Window: 41, PosteriorVersion: 12, Time: 1700000000000, Model: "cora-1",
	}
}

// unnamed compares predictions without the names of their classes, which are not in msgpack.
var unnamed = cmpopts.IgnoreFields(event.Prediction{}, "Classes")

// TestPrediction: predictions, with and without a set of classes, are the same after encoding
// and decoding, and have the documented JSON. Bad ones are refused.
func TestPrediction(t *testing.T) {
	p := samplePrediction()
	b := MsgPack.AppendPrediction(nil, &p)
	got := event.Prediction{Class: "stale"}
	if err := DecodePrediction(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got, unnamed); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	const want = `{"node":"paper-17","class":"Theory","class_index":2,"confidence":0.7,"probabilities":{"Rule_Learning":0.1,"a \"b\"":0.2,"Theory":0.7},` +
		`"total_uncertainty":0.8,"aleatoric_uncertainty":0.75,"epistemic_uncertainty":0.05,"window":41,"posterior_version":12,` +
		`"time":1700000000000,"model":"cora-1"}`
	if got := string(JSON.AppendPrediction([]byte("> "), &p)); got != "> "+want {
		t.Errorf("JSON %s, want %s", got, "> "+want)
	}
	var read event.Prediction
	if err := DecodePrediction([]byte(want), &read); err != nil || !cmp.Equal(p, read) {
		t.Errorf("the JSON is read as %+v (%v), want %+v", read, err, p)
	}
	for tail, set := range map[string]event.Set{
		`"set":["Theory","Rule_Learning"],"coverage":0.9,"abstain":false}`:             {Classes: []string{"Theory", "Rule_Learning"}, Coverage: 0.9},
		`"set":[],"coverage":0.9,"abstain":true,"abstain_reason":"empty-set"}`:         {Coverage: 0.9, Abstain: "empty-set"},
		`"set":["a"],"coverage":0.5,"abstain":true,"abstain_reason":"low-confidence"}`: {Classes: []string{"a"}, Coverage: 0.5, Abstain: "low-confidence"},
	} {
		p := samplePrediction()
		p.Set = &set
		var got event.Prediction
		if err := DecodePrediction(MsgPack.AppendPrediction(nil, &p), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, got, unnamed); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		text := JSON.AppendPrediction(nil, &p)
		if want := want[:len(want)-1] + "," + tail; string(text) != want {
			t.Errorf("JSON %s, want %s", text, want)
		}
		if err := DecodePrediction(text, &got); err != nil || !cmp.Equal(p, got, cmpopts.EquateEmpty()) {
			t.Errorf("the JSON is read as %+v (%v), want %+v", got, err, p)
		}
	}
	for _, act := range []bool{true, false} {
		p := samplePrediction()
		p.Act = &act
		for _, b := range [][]byte{MsgPack.AppendPrediction(nil, &p), JSON.AppendPrediction(nil, &p)} {
			var got event.Prediction
			if err := DecodePrediction(b, &got); err != nil || got.Act == nil || *got.Act != act {
				t.Errorf("%q is read as %+v (%v)", b, got, err)
			}
		}
	}
	for name, value := range map[string][]byte{
		"abstain without a reason": pack(t, fields{"node": 1, "set": []string{}, "abstain": true}),
		"reason without abstain":   pack(t, fields{"node": 1, "abstain_reason": "large-set"}),
		"set of numbers":           pack(t, fields{"node": 1, "set": []int{1}}),
		"NaN coverage":             pack(t, fields{"node": 1, "coverage": math.NaN()}),
		"empty":                    nil,
		"JSON without a node":      []byte(`{"window":1}`),
		"JSON, probability of 2":   []byte(`{"node":1,"probabilities":{"a":2}}`),
		"JSON, no names":           []byte(`{"node":1,"probabilities":[1]}`),
		"JSON, revision -1":        []byte(`{"node":1,"revision":-1}`),
		"JSON, text behind":        []byte(`{"node":1} {}`),
		"JSON, huge confidence":    []byte(`{"node":1,"confidence":1e99}`),
		"JSON, reason alone":       []byte(`{"node":1,"set":[],"abstain_reason":"large-set"}`),
		"no node":                  {0x80},
		"bytes after the map":      append(bytes.Clone(b), 0),
		"cut off":                  b[:len(b)-1],
		"NaN confidence":           pack(t, fields{"node": 1, "confidence": math.NaN()}),
		"probability above 1":      pack(t, fields{"node": 1, "probabilities": []float32{1.5}}),
		"NaN probability":          pack(t, fields{"node": 1, "probabilities": []float64{math.NaN()}}),
		"class index beyond int32": pack(t, fields{"node": 1, "class_index": int64(1 << 31)}),
		"negative version":         pack(t, fields{"node": 1, "posterior_version": -1}),
	} {
		if err := DecodePrediction(value, new(event.Prediction)); err == nil {
			t.Errorf("%s: accepted, want it refused", name)
		}
	}
}

// TestDeadLetter: a dead letter holds the whole record, or says that it is truncated if a part
// of the record is beyond the bounds.
func TestDeadLetter(t *testing.T) {
	tests := map[string]struct {
		origin event.Origin
		err    error
	}{
		"whole": {event.Origin{
			Topic: "gvbll.nodes", Partition: 3, Offset: 99, Time: 1_700_000_000_123, Key: []byte("k"), Value: []byte{0xff, 0},
			Headers: []event.Header{{Key: "content-type", Value: []byte("x")}, {Key: "null"}, {Key: "", Value: []byte{}}},
		}, nil},
		"null key and value":   {event.Origin{Topic: "t", Headers: []event.Header{}}, nil},
		"empty key and value":  {event.Origin{Topic: "t", Key: []byte{}, Value: []byte{}, Headers: []event.Header{}}, nil},
		"value at the limit":   {event.Origin{Value: make([]byte, MaxDeadLetterValue), Headers: []event.Header{}}, nil},
		"long value":           {event.Origin{Value: make([]byte, MaxDeadLetterValue+1)}, ErrTruncated},
		"long key":             {event.Origin{Key: make([]byte, maxDeadLetterKey+1)}, ErrTruncated},
		"many headers":         {event.Origin{Headers: make([]event.Header, maxHeaders+1)}, ErrTruncated},
		"header key not UTF-8": {event.Origin{Headers: []event.Header{{Key: "a\xffb"}}}, ErrTruncated},
		"long header":          {event.Origin{Headers: []event.Header{{Key: strings.Repeat("é", 1000), Value: make([]byte, 5000)}}}, ErrTruncated},
	}
	for name, test := range tests {
		checkDeadLetter(t, name, &test.origin, test.err)
	}
}

func checkDeadLetter(t *testing.T, name string, o *event.Origin, want error) {
	t.Helper()
	r := event.Refusal{Origin: o, Reason: event.BadID, Detail: "there is no id"}
	b := AppendDeadLetter(nil, &r)
	var got event.Refusal
	if err := DecodeDeadLetter(b, &got); !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", name, err, want)
		return
	}
	if got.Reason != r.Reason || got.Detail != r.Detail {
		t.Errorf("%s: reason %q and detail %q, want %q and %q", name, got.Reason, got.Detail, r.Reason, r.Detail)
	}
	if want != nil {
		if !bytes.HasPrefix(r.Origin.Value, got.Origin.Value) || len(got.Origin.Value) > MaxDeadLetterValue {
			t.Errorf("%s: the dead letter holds %d bytes that are not the beginning of the value", name, len(got.Origin.Value))
		}
		return
	}
	if !bytes.Equal(got.Origin.Value, o.Value) {
		t.Errorf("%s: the value is another one", name)
	}
	others := cmpopts.IgnoreFields(event.Origin{}, "Value") // large
	if diff := cmp.Diff(o, got.Origin, cmpopts.EquateEmpty(), others); diff != "" || (o.Key == nil) != (got.Origin.Key == nil) || (o.Value == nil) != (got.Origin.Value == nil) {
		t.Errorf("%s: -want +got\n%s", name, diff)
	}
}

// TestDeadLetterJSON: a dead letter in JSON can be read: text is text, and other bytes are
// base64.
func TestDeadLetterJSON(t *testing.T) {
	r := event.Refusal{Reason: event.BadID, Detail: "there is no id", Origin: &event.Origin{
		Topic: "t", Partition: 1, Offset: 2, Time: 3, Key: []byte{0xff}, Value: []byte(`{"a": "<é>"}`), Headers: []event.Header{{Key: "content-type", Value: []byte(JSON)}},
	}}
	const want = `{"reason":"bad-id","detail":"there is no id","topic":"t","partition":1,"offset":2,"time":3,"key_base64":"/w==",` +
		`"value":"{\"a\": \"<é>\"}","headers":[{"key":"content-type","value":"application/json"}],"value_length":13}`
	if got := string(AppendDeadLetter([]byte("> "), &r)); got != "> "+want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDeadLetterFitsInARecord: the dead letter of a record with the largest parts possible
// stays below the 1 MB that brokers accept by default. A larger one would stop the worker.
func TestDeadLetterFitsInARecord(t *testing.T) {
	o := event.Origin{Topic: strings.Repeat("t", 249), Key: make([]byte, 1<<20), Value: make([]byte, 4<<20)}
	for range 1000 {
		o.Headers = append(o.Headers, event.Header{Key: strings.Repeat("\xff", 4096), Value: make([]byte, 4096)})
	}
	r := event.Refusal{Origin: &o, Reason: event.TooLarge, Detail: strings.Repeat("é\n", 1<<20)}
	b := AppendDeadLetter(nil, &r)
	for _, fill := range []string{"\x00", "\"", "\xff", "<", "\u2028", "a\""} {
		copy(o.Key, strings.Repeat(fill, len(o.Key)))
		copy(o.Value, strings.Repeat(fill, len(o.Value)))
		for i := range o.Headers {
			o.Headers[i] = event.Header{Key: strings.Repeat(fill, 4096), Value: o.Value[:4096]}
		}
		if b := AppendDeadLetter(nil, &r); len(b) > 1020<<10 {
			t.Errorf("a dead letter of a record full of %q, has %d bytes, want at most %d", fill, len(b), 1020<<10)
		}
	}
	if err := DecodeDeadLetter(b, new(event.Refusal)); !errors.Is(err, ErrTruncated) {
		t.Errorf("error %v, want %v", err, ErrTruncated)
	}
	for _, bad := range [][]byte{nil, {0x80}, b[:100], append(bytes.Clone(b), 0)} {
		if err := DecodeDeadLetter(bad, new(event.Refusal)); err == nil || errors.Is(err, ErrTruncated) {
			t.Errorf("a bad dead letter of %d bytes: error %v, want a refusal", len(bad), err)
		}
	}
}
