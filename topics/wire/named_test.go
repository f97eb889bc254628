package wire

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

const namedJSON = `{"id":"p-1","features":{"amount":12.5,"count":1700000000001,"country":"DE","k\u00fc":"a\"b","age":null,"new":true,"z":[1,0.5],"amount":-7},"time":9}`

// TestNamed: features by name are the same in JSON and msgpack, and read back as written.
func TestNamed(t *testing.T) {
	want := []event.Attribute{
		{Name: "amount", Kind: event.Number, Number: 12.5},
		{Name: "count", Kind: event.Number, Number: 1700000000001},
		{Name: "country", Kind: event.Text, Text: "DE"},
		{Name: "kü", Kind: event.Text, Text: `a"b`},
		{Name: "age"},
		{Name: "new", Kind: event.Bool, Number: 1},
		{Name: "z", Kind: event.Numbers, Numbers: []float32{1, .5}},
		{Name: "amount", Kind: event.Number, Number: -7},
	}
	var d Decoder
	var n, again event.Node
	if reason, detail := d.Node(&event.Origin{Value: []byte(namedJSON)}, &n); reason != "" {
		t.Fatal(reason, detail)
	}
	if diff := cmp.Diff(want, n.Named); diff != "" {
		t.Errorf("from JSON, -want +got\n%s", diff)
	}
	if reason, detail := d.Node(&event.Origin{Value: AppendNode(nil, &n)}, &again); reason != "" {
		t.Fatal(reason, detail)
	}
	if diff := cmp.Diff(n, again, cmpopts.IgnoreFields(event.Node{}, "Origin")); diff != "" {
		t.Errorf("in msgpack, -before +after\n%s", diff)
	}
	var any any
	json.Unmarshal([]byte(`{"id":"p-1","features":{"amount":12.5}}`), &any)
	if reason, detail := d.Node(record(pack(t, any)), &n); reason != "" || n.Named[0].Number != 12.5 {
		t.Errorf("a producer's msgpack: %s %s, %+v", reason, detail, n)
	}
}

func BenchmarkNodeNamed12(b *testing.B) {
	value := []byte(`{"id":"payment-123456","features":{"amount":12.5,"balance":1033.25,"age":44,"tenure":3.5,"country":"DE","plan":"gold","channel":"app","new":false,"created":1700000000000,"device":"ios","score":0.25,"limit":null},"neighbours":["card-7"],"time":1700000100000}`)
	b.Run("json", func(b *testing.B) { benchmarkDecode(b, &event.Origin{Value: value}, &Memory{}) })
	var d Decoder
	var n event.Node
	if reason, detail := d.Node(&event.Origin{Value: value}, &n); reason != "" {
		b.Fatal(reason, detail)
	}
	b.Run("msgpack", func(b *testing.B) { benchmarkDecode(b, &event.Origin{Value: AppendNode(nil, &n)}, &Memory{}) })
}
