package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestMapOfChanges: records of change data capture, as they come, become what they say: deletes without a time, keys that
// changed, values in wrappers, values that are not known, and what says nothing.
func TestMapOfChanges(t *testing.T) {
	documented := parsed(t, strings.Replace(paymentsMap, ", unit: s, optional: true", ", unit: s", 1))
	fk := parsed(t, `nodes: [{preset: debezium, id: {pointer: /after/id, or: /before/id, prefix: "pay:"}, neighbours: [{pointer: /after/card, or: /before/card, prefix: "card:", implicit: true}]}]`)
	escaped := parsed(t, `nodes: [{id: {pointer: /data/id, prefix: "p:"}, time: {pointer: /time}, remove: {pointer: /data/state, equals: gelöscht}}]`)
	flags := parsed(t, `nodes: [{id: {pointer: /id}, remove: {pointer: /gone, equals: ["true", 1]}, skip: {pointer: /kind, equals: [heartbeat, ddl]}}]`)
	keys := parsed(t, `nodes: [{id: {pointers: [/after/shop, /after/no], prefix: "o:"}, neighbours: [{pointers: [/after/shop, /after/ref], optional: true}]}]`)
	lists := parsed(t, `nodes: [{id: {pointer: /id}, neighbours: [{pointer: /cards, implicit: true}, {pointer: /items, item: /sku, kind: bought, weight: /n, optional: true}]}]`)
	cud := parsed(t, "nodes: [{preset: neo4j-cud, id: {pointer: /ids/*, prefix: 'n:'}}]")
	objects := parsed(t, "nodes: [{id: {pointer: /_id}, time: {pointer: /at, unit: days}, features: /f}]")
	one := func(m *Map, value string) (n event.Node, reason event.Reason, detail string) {
		reason, detail = (&Decoder{Map: m}).Node(&event.Origin{Value: []byte(value)}, &n)
		return n, reason, detail
	}
	amount := []event.Attribute{{Name: "id", Kind: event.Number, Number: 1}, {Name: "card", Kind: event.Text, Text: "c2"}, {Name: "amount", Kind: event.Number, Number: 1}}
	for _, c := range []struct {
		m     *Map
		value string
		want  event.Node
	}{
		{documented, `{"op": "d", "before": {"payment_id": 7}, "after": null}`, event.Node{ID: id("payment:7"), Departed: true}},
		{fk, `{"op":"u","before":{"id":1,"card":"c1","amount":1},"after":{"id":1,"card":"c2","amount":1},"ts_ms":1774800001000}`, event.Node{
			ID: id("pay:1"), Time: 1774800001000, Named: amount, Neighbours: []event.ID{id("card:c2")}, Implicit: []event.ID{id("card:c2")}, Dropped: []event.ID{id("card:c1")},
		}},
		{fk, `{"op":"u","before":{"id":1,"card":"c2","amount":0},"after":{"id":1,"card":"c2","amount":1},"ts_ms":5}`, event.Node{
			ID: id("pay:1"), Time: 5, Named: amount, Neighbours: []event.ID{id("card:c2")}, Implicit: []event.ID{id("card:c2")},
		}},
		{fk, `{"op":"u","before":{"id":1,"card":"c1"},"after":{"id":1,"card":"__debezium_unavailable_value"}}`, event.Node{ID: id("pay:1"), Named: amount[:1]}},
		{fk, `{"op":"t","source":{}}`, event.Node{Edges: []event.Edge{}}},
		{fk, `{"op":"c","after":{"id":{"long":11},"card":"c1","amount":{"scale":2,"value":"BAg="},"fee":{"double":12.5},"owed":{"scale":1,"value":"/w=="}},"ts_ms":1774800000000}`, event.Node{
			ID: id("pay:11"), Time: 1774800000000, Neighbours: []event.ID{id("card:c1")}, Implicit: []event.ID{id("card:c1")}, Named: []event.Attribute{
				{Name: "id", Kind: event.Number, Number: 11},
				{Name: "card", Kind: event.Text, Text: "c1"},
				{Name: "amount", Kind: event.Number, Number: 10.32},
				{Name: "fee", Kind: event.Number, Number: 12.5},
				{Name: "owed", Kind: event.Number, Number: -.1},
			},
		}},
		{escaped, `{"time":"2026-03-29T16:00:00Z","data":{"id":1,"state":"gel\u00f6scht"}}`, event.Node{ID: id("p:1"), Time: 1774800000000, Departed: true}},
		{escaped, `{"time":"2026-03-29 18:00+02","data":{"id":2,"state":"gelöscht"}}`, event.Node{ID: id("p:2"), Time: 1774800000000, Departed: true}},
		{flags, `{"id": 1, "gone": true}`, event.Node{ID: event.ID{Num: 1}, Departed: true}},
		{flags, `{"id": 1, "gone": 1.0}`, event.Node{ID: event.ID{Num: 1}, Departed: true}},
		{flags, `{"id": 1, "gone": "false"}`, event.Node{ID: event.ID{Num: 1}}},
		{flags, `{"kind": "heartbeat"}`, event.Node{Edges: []event.Edge{}}},
		{keys, `{"after": {"shop": "s", "no": 7}}`, event.Node{ID: id("o:s/7")}},
		{keys, `{"after": {"shop": "s", "no": 7, "ref": 6}}`, event.Node{ID: id("o:s/7"), Neighbours: []event.ID{id("s/6")}}},
		{lists, `{"id": "b", "cards": ["c1", 2], "items": [{"sku": "x"}, {"sku": "y"}], "n": 2}`, event.Node{
			ID: id("b"), Neighbours: []event.ID{id("c1"), {Num: 2}, id("x"), id("y")}, Implicit: []event.ID{id("c1"), {Num: 2}},
			Marks: []event.Mark{{}, {}, {Kind: "bought", Weight: 2}, {Kind: "bought", Weight: 2}},
		}},
		{objects, `{"_id": {"$oid": "5f"}, "at": 20541, "f": {"day": {"$date": "2026-03-01T00:00:00Z"}, "n": {"$numberLong": "7"}, "in": {"a": 1, "b": 2}}}`, event.Node{
			ID: id("5f"), Time: 20541 * 86400000, Named: []event.Attribute{{Name: "day", Kind: event.Text, Text: "2026-03-01T00:00:00Z"}, {Name: "n", Kind: event.Text, Text: "7"}, {Name: "in", Kind: event.Nested}},
		}},
	} {
		n, reason, detail := one(c.m, c.value)
		if diff := cmp.Diff(c.want, n, cmpopts.IgnoreFields(event.Node{}, "Origin", "Index"), cmpopts.EquateEmpty()); diff != "" || reason != "" || (n.Edges == nil) != (c.want.Edges == nil) {
			t.Errorf("%s: %s %s, -want +got\n%s", c.value, reason, detail, diff)
		}
	}
	for _, c := range []struct {
		m           *Map
		value, want string
	}{
		{documented, `{"op": "c", "after": {"payment_id": 7, "card_id": 1}}`, "time: the pointer /after/created_at finds nothing"},
		{keys, `{"after": {"shop": "s"}}`, "id: the pointer /after/no finds no member of an id"},
		{cud, `{"op": "merge", "type": "node", "ids": {"uid": 1, "region": 2}, "properties": {}}`, "id: the pointer /ids/* finds nothing"},
		{lists, `{"id": "b", "cards": [{"a": 1}]}`, "neither a string nor a 64-bit integer"},
		{lists, `{"id": "b", "cards": [], "items": [{"sku": 1}], "n": -1}`, "the pointer /n finds the weight -1"},
	} {
		if _, reason, detail := one(c.m, c.value); reason == "" || !strings.Contains(detail, c.want) {
			t.Errorf("%s: %q %s, want %s", c.value, reason, detail, c.want)
		}
	}
}

// TestTombstoneKeys: a null value removes the node that its key names, as JSON converters, REST proxies and serializers of
// integers write it.
func TestTombstoneKeys(t *testing.T) {
	prefixed := parsed(t, `nodes: [{id: {pointer: /after/id, prefix: "p:"}}]`)
	composite := parsed(t, `nodes: [{id: {pointers: [/after/a, /after/b]}}]`)
	for _, c := range []struct {
		m    *Map
		key  string
		want event.ID
	}{
		{nil, `h0`, id("h0")},
		{nil, `"h0"`, id("h0")},
		{nil, `{"schema":{"type":"string","optional":false},"payload":"h0"}`, id("h0")},
		{nil, `{"id":"h0"}`, id("h0")},
		{nil, `{"schema":{},"payload":{"id":7}}`, event.ID{Num: 7}},
		{nil, "7", event.ID{Num: 7}},
		{nil, "\x00\x00\x00\x00\x00\x00\x00\x07", event.ID{Num: 7}},
		{nil, "\xff\xff\xff\xff\xff\xff\xff\xfe", event.ID{Num: -2}},
		{nil, "\x00\x00\x01\x00", event.ID{Num: 256}},
		{nil, `"\u00e4"`, id("ä")},
		{nil, `"half`, id(`"half`)},
		{nil, `{"a":1,"b":2}`, id(`{"a":1,"b":2}`)},
		{prefixed, `"h0"`, id("p:h0")},
		{prefixed, `7`, id("p:7")},
		{prefixed, `{"schema":{},"payload":"h0"}`, id("p:h0")},
		{prefixed, `{"schema":{},"payload":{"id":7}}`, id("p:7")},
		{prefixed, "\x00\x00\x00\x00\x00\x00\x00\x07", id("p:7")},
		{composite, `{"a":1,"b":"x"}`, id("1/x")},
	} {
		var n event.Node
		if reason, detail := (&Decoder{Map: c.m}).Node(&event.Origin{Key: []byte(c.key)}, &n); reason != "" || n.ID != c.want || !n.Departed {
			t.Errorf("the key %q: %s %s, %v, want %v", c.key, reason, detail, n.ID, c.want)
		}
	}
	for m, key := range map[*Map]string{composite: `"h0"`, prefixed: `{"other":1,"more":2}`} {
		var n event.Node
		if reason, _ := (&Decoder{Map: m}).Node(&event.Origin{Key: []byte(key)}, &n); reason != event.BadID {
			t.Errorf("the key %s: %q and %+v, want it refused", key, reason, n)
		}
	}
}

// TestFrames: what stands before or around JSON is read, or named.
func TestFrames(t *testing.T) {
	const plain = `{"id":"v1","features":{"amount":1}}`
	for what, value := range map[string]string{"a byte order mark": "\xef\xbb\xbf" + plain, "five bytes of a registry": "\x00\x00\x00\x00\x07" + plain} {
		for _, m := range []*Map{nil, parsed(t, "nodes: [{id: {pointer: /id}, features: /features}]")} {
			var n event.Node
			if reason, detail := (&Decoder{Map: m}).Node(&event.Origin{Value: []byte(value)}, &n); reason != "" || n.ID != id("v1") || len(n.Named) != 1 {
				t.Errorf("%s: %s %s, %+v", what, reason, detail, n)
			}
		}
	}
	for header, ok := range map[string]bool{"application/cloudevents+json": true, "application/vnd.api+json; charset=utf-8": true, "application/json": true, "text/json": true, "text/plain": false, "avro/binary": false} {
		var n event.Node
		reason, _ := new(Decoder).Node(&event.Origin{Value: []byte(plain), Headers: []event.Header{{Key: ContentType, Value: []byte(header)}}}, &n)
		if (reason == "") != ok {
			t.Errorf("content type %s: %q", header, reason)
		}
	}
	for value, want := range map[string]string{
		"\x00\x00\x00\x00\x07\x02a\x02": "schema 7 of a registry, in Avro or Protobuf", "\x1f\x8b\x08\x00": "gzip", "\xff\xfe{\x00": "UTF-16", "{\x00\"\x00": "JSON that is not",
	} {
		for _, m := range []*Map{nil, parsed(t, "nodes: [{id: {pointer: /id}, features: /features}]")} {
			var n event.Node
			if reason, detail := (&Decoder{Map: m}).Node(&event.Origin{Value: []byte(value)}, &n); reason != event.Undecodable || !strings.Contains(detail, want) && want != "JSON that is not" {
				t.Errorf("%q: %q %s, want %s", value, reason, detail, want)
			}
		}
	}
}

// TestEventTimes: the time of an event is read as those of tables and maps are, in both encodings, and an error names field and value.
func TestEventTimes(t *testing.T) {
	const want = 1774800000000
	for _, at := range []any{int64(want), float64(want), "1774800000000.0", "2026-03-29T16:00:00Z", "2026-03-29 18:00+02"} {
		text, err := json.Marshal(at)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []*event.Origin{record(pack(t, fields{"id": 1, "features": []float32{1}, "time": at})), jsonRecord(`{"id":1,"features":[1],"time":` + string(text) + `}`), jsonRecord(`{"id":1,"features":[1],"time":1774800000000.0}`)} {
			var n event.Node
			if reason, detail := new(Decoder).Node(o, &n); reason != "" || n.Time != want {
				t.Errorf("%v (%T): %s %s, %d", at, at, reason, detail, n.Time)
			}
		}
	}
	for _, o := range []*event.Origin{record(pack(t, fields{"id": 1, "features": []float32{1}, "time": "soon"})), jsonRecord(`{"id":1,"features":[1],"time":"soon"}`), record(pack(t, fields{"id": 1, "features": []float32{1}, "time": 1e300}))} {
		var n event.Node
		if reason, detail := new(Decoder).Node(o, &n); reason != event.Undecodable || !strings.HasPrefix(detail, "time: ") || !strings.Contains(detail, "is no time") {
			t.Errorf("%q: %s, want the field and the value", reason, detail)
		}
	}
}

// TestSeveralEvents: a record may be several events, nodes and labels, by rules that go on and by items of a list, in which /^ is
// the record.
func TestSeveralEvents(t *testing.T) {
	m, err := ParseMap(`
nodes:
  - {id: {pointer: /order, prefix: "order:"}, features: /about, next: true}
  - {each: /items, id: {pointer: /sku}, features: /about, time: {pointer: /^/at}, neighbours: [{pointer: /^/order, prefix: "order:"}], next: true}
  - {when: {pointer: /outcome, equals: [good, bad]}, node: {pointer: /order, prefix: "order:"}, class: {pointer: /outcome}}
`)
	if err != nil {
		t.Fatal(err)
	}
	d := Decoder{Map: m}
	var n event.Node
	value := `{"order": 7, "at": 1766000000000, "about": {"a": 1}, "outcome": "bad", "items": [{"sku": "x", "about": {"b": 2}}, {"sku": "y", "about": {}}]}`
	if reason, detail := d.Node(record([]byte(value)), &n); reason != "" {
		t.Fatal(reason, detail)
	}
	if n.ID.Str != "order:7" || n.Also == nil || len(n.Also.Nodes) != 2 || len(n.Also.Labels) != 1 {
		t.Fatalf("the record is %+v with %+v", n, n.Also)
	}
	y, label := n.Also.Nodes[1], n.Also.Labels[0]
	if y.ID.Str != "y" || y.Time != 1766000000000 || y.Neighbours[0].Str != "order:7" || y.Origin == nil || label.Node.Str != "order:7" || label.Class != "bad" {
		t.Errorf("the second item is %+v, the label %+v", y, label)
	}
	for value, want := range map[string]string{
		`{"order": 7, "about": {}, "items": {}}`:                          "each: the pointer /items finds no list",
		`{"order": 7, "about": {}, "items": [{"sku": "x", "about": {}}]}`: "time: the pointer /^/at finds nothing",
		`{"order": 7, "about": {}, "items": [` + strings.Repeat(`{"sku": 1, "about": {}},`, maxEvents) + `{"sku": 1, "about": {}}], "at": 1}`: "more than 4096 events",
	} {
		if reason, detail := d.Node(record([]byte(value)), &n); reason == "" || !strings.Contains(detail, want) {
			t.Errorf("%.60s is %s, %s, want %s", value, reason, detail, want)
		}
	}
	m, err = ParseMap(`{nodes: [{each: "", id: {pointer: /id}, features: ""}]}`)
	if err != nil {
		t.Fatal(err)
	}
	d.Map = m
	if reason, detail := d.Node(record([]byte(`[{"id": 1, "a": 2}, {"id": 2}]`)), &n); reason != "" || n.ID.Num != 1 || n.Also.Nodes[0].ID.Num != 2 {
		t.Errorf("a list is %+v, %s, %s", n, reason, detail)
	}
}

// TestMapOfWeights: a weight is looked for in the item of a list, then in the record; one that is nowhere is 1 of an optional
// neighbour, and refused of others.
func TestMapOfWeights(t *testing.T) {
	for optional, want := range map[string][]string{
		"true":  {"[{ 2.5 false} { 7 false}]", "[]", "[{ 3 false}]", ""},
		"false": {"[{ 2.5 false} { 7 false}]", "the pointer /w finds no weight", "[{ 3 false}]", "the pointer /w finds the weight 0, want a number"},
	} {
		m := parsed(t, `nodes: [{id: {pointer: /id}, neighbours: [{pointer: /to, item: /id, weight: /w, optional: `+optional+`}]}]`)
		for i, record := range []string{
			`{"id": 1, "w": 7, "to": [{"id": 2, "w": 2.5}, {"id": 3}]}`, `{"id": 1, "to": [{"id": 2}]}`, `{"id": 1, "to": [{"id": 2, "w": "3"}]}`, `{"id": 1, "to": [{"id": 2, "w": 0}]}`,
		} {
			var n event.Node
			_, detail := (&Decoder{Map: m}).Node(&event.Origin{Value: []byte(record)}, &n)
			if got := detail + fmt.Sprint(n.Marks); !strings.Contains(got, want[i]) {
				t.Errorf("optional %s, %s: %s, want %s", optional, record, got, want[i])
			}
		}
	}
}
