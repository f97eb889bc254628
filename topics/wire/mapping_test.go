package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

const paymentsMap = `
nodes:
  - id: {pointer: /after/payment_id, or: /before/payment_id, prefix: "payment:"}
    time: {pointer: /after/created_at, unit: s, optional: true}
    features: /after
    neighbours:
      - {pointer: /after/card_id, prefix: "card:", implicit: true}
      - {pointer: /after/merchant/id, prefix: "merchant:", implicit: true, optional: true}
    remove: {pointer: /op, equals: d}
labels:
  - node: {pointer: /payment_id, prefix: "payment:"}
    class: {pointer: /outcome, map: {chargeback: fraud, settled: good}}
    remove: {pointer: /void, equals: "true"}
`

func parsed(t testing.TB, text string) *Map {
	t.Helper()
	m, err := ParseMap(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func id(s string) event.ID { return event.ID{Str: s} }

// TestMap: records of other programs become the events that we would have sent.
func TestMap(t *testing.T) {
	numbers := parsed(t, "nodes: [{id: {pointer: /k}, numbers: [/a/0, /b], time: {pointer: /t}}]")
	debezium := parsed(t, "nodes: [{preset: debezium, id: {pointer: /after/id, or: /before/id}}]")
	cud := parsed(t, "nodes: [{preset: neo4j-cud, id: {pointer: /ids/*, prefix: 'n:'}}]")
	payments := parsed(t, paymentsMap)
	for _, c := range []struct {
		m     *Map
		value string
		want  event.Node
	}{
		{payments, `{"after": {"payment_id": 7, "created_at": 1700000000, "card_id": "c1", "merchant": {"id": 3}, "amount": 12.5, "country": null, "tags": ["a"]}, "op": "c"}`, event.Node{
			ID: id("payment:7"), Time: 1700000000000, Neighbours: []event.ID{id("card:c1"), id("merchant:3")}, Implicit: []event.ID{id("card:c1"), id("merchant:3")},
			Named: []event.Attribute{
				{Name: "payment_id", Kind: event.Number, Number: 7},
				{Name: "created_at", Kind: event.Number, Number: 1700000000},
				{Name: "card_id", Kind: event.Text, Text: "c1"},
				{Name: "merchant", Kind: event.Nested},
				{Name: "amount", Kind: event.Number, Number: 12.5},
				{Name: "country"},
				{Name: "tags", Kind: event.Nested},
			},
		}},
		{payments, `{"before": {"payment_id": 7}, "after": null, "op": "d"}`, event.Node{ID: id("payment:7"), Departed: true}},
		{debezium, `{"schema": {"type": "struct"}, "payload": {"after": {"id": 9, "x": [1, 2]}, "op": "u", "ts_ms": 5}}`, event.Node{
			ID: event.ID{Num: 9}, Time: 5, Named: []event.Attribute{{Name: "id", Kind: event.Number, Number: 9}, {Name: "x", Kind: event.Numbers, Numbers: []float32{1, 2}}},
		}},
		{cud, `{"op": "merge", "type": "node", "ids": {"uid": 1}, "labels": ["A"], "properties": {"age": 3}}`, event.Node{ID: id("n:1"), Named: []event.Attribute{{Name: "age", Kind: event.Number, Number: 3}}}},
		{cud, `{"op": "create", "type": "relationship", "rel_type": "KNOWS", "from": {"ids": {"uid": 1}}, "to": {"ids": {"uid": 2}}}`, event.Node{ID: id("n:1"), Edges: []event.Edge{{Source: id("n:1"), Target: id("n:2")}}}},
		{cud, `{"op": "delete", "type": "relationship", "from": {"ids": {"uid": 1}}, "to": {"ids": {"uid": 2}}}`, event.Node{ID: id("n:1"), Edges: []event.Edge{{Source: id("n:1"), Target: id("n:2"), Remove: true}}}},
		{cud, `{"op": "delete", "type": "node", "ids": {"uid": 1}}`, event.Node{ID: id("n:1"), Departed: true}},
		{numbers, `{"k": "a", "a": [1.5], "b": "2", "t": "2026-03-01T00:00:00Z"}`, event.Node{ID: id("a"), Dense: []float32{1.5, 2}, Time: 1772323200000}},
	} {
		var n event.Node
		d := Decoder{Map: c.m}
		if reason, detail := d.Node(&event.Origin{Value: []byte(c.value)}, &n); reason != "" {
			t.Errorf("%s: %s, %s", c.value, reason, detail)
		}
		if diff := cmp.Diff(c.want, n, cmpopts.IgnoreFields(event.Node{}, "Origin"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.value, diff)
		}
	}
	for key, want := range map[string]string{`{"payment_id": 7}`: "payment:7", "7": "payment:7"} {
		var n event.Node
		if reason, detail := (&Decoder{Map: payments}).Node(&event.Origin{Key: []byte(key)}, &n); reason != "" || n.ID.Str != want || !n.Departed {
			t.Errorf("a null value with the key %s: %s %s, %+v", key, reason, detail, n)
		}
	}
	for value, want := range map[string]event.Label{
		`{"payment_id": 7, "outcome": "chargeback"}`:              {Node: id("payment:7"), Class: "fraud"},
		`{"payment_id": 7, "outcome": "settled", "void": "true"}`: {Node: id("payment:7"), Withdrawn: true},
	} {
		var l event.Label
		if reason, detail := (&Decoder{Map: payments}).Label(&event.Origin{Value: []byte(value)}, &l); reason != "" {
			t.Errorf("%s: %s, %s", value, reason, detail)
		}
		if diff := cmp.Diff(want, l, cmpopts.IgnoreFields(event.Label{}, "Origin")); diff != "" {
			t.Errorf("%s: -want +got\n%s", value, diff)
		}
	}
}

// TestMapRefuses: what a map does not find is refused, and the pointer is named; a map that
// makes no sense is one line.
func TestMapRefuses(t *testing.T) {
	d := Decoder{Map: parsed(t, paymentsMap)}
	for value, want := range map[string]string{
		`{"op": "c"}`:                  "id: the pointer /after/payment_id finds nothing",
		`{"after": {"payment_id": 7}}`: "neighbours: the pointer /after/card_id finds nothing",
		`{"after": {"payment_id": 7, "card_id": 1, "created_at": 99999999999999999}}`: "time: 99999999999999999 is no time",
		`{"after": {"payment_id": 7, "card_id": 1, "created_at": "soon"}}`:            `time: "soon" is no time`,
		`[1]`: "[1] where an object is needed",
		`{`:   "unexpected end",
	} {
		var n event.Node
		if reason, detail := d.Node(&event.Origin{Value: []byte(value)}, &n); reason == "" || !strings.Contains(detail, want) {
			t.Errorf("%s: %q %s, want %s", value, reason, detail, want)
		}
	}
	var l event.Label
	if reason, detail := d.Label(&event.Origin{Value: []byte(`{"payment_id": 1, "outcome": "lost"}`)}, &l); reason != event.UnknownClass || !strings.Contains(detail, `"lost" is not in the map`) {
		t.Errorf("a class that is not in the map: %s, %s", reason, detail)
	}
	for text, want := range map[string]string{
		"": "no rule", "nodes: [{id: {pointer: after}}]": `pointer "after": begin it with /`, "nodes: [{}]": "give the id of a node",
		"nodes: [{id: {pointer: /a}, colour: red}]": `line 1: there is no field "colour": give class, context, each`, "nodes: [{preset: kafka}]": `preset "kafka"`,
		"nodes: [{preset: debezium}]": "give the id", "nodes: [{source: {pointer: /a}}]": "an edge needs source and target",
		"labels: [{node: {pointer: /a}}]": "labels, rule 1: give node and class", "labels: [{node: {pointer: /a}, class: {pointer: /b}, time: {pointer: /t, unit: h}}]": `labels, rule 1: unit "h"`,
		"nodes: [{id: {prefix: a}}]": "a pointer is missing", "nodes: [{id: {pointer: /a}, remove: {equals: d}}]": "a condition has no pointer",
		"nodes: [{id: {pointer: /a}}, {id: {pointer: /b}}]":                     "nodes: a rule without when holds always",
		"nodes: [{source: {pointer: /a}, target: {pointer: /b}, features: /c}]": "an edge has no features",
		"nodes: [{id: {pointer: /a}, time: {pointer: /t, unit: h}}]":            `unit "h"`,
		strings.Repeat("#", maxMap+1):                                           "the limit is",
	} {
		if _, err := ParseMap(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q: %v, want one line with %s", text, err, want)
		}
	}
}

// FuzzMap: whatever comes, a record is refused with a reason or becomes an event that keeps the
// invariants.
func FuzzMap(f *testing.F) {
	f.Add("nodes: [{id: {pointer: /a/0}, features: /b}]\nlabels: [{node: {pointer: /a}, class: {pointer: /b}}]", `{"a": [1], "b": {"x": 1, "y": {"z": 2}}}`, `{"a": 1}`)
	f.Add("nodes: [{preset: neo4j-cud}]", `{"type":"relationship","op":"create","from":{"ids":{"i":1}},"to":{"ids":{"i":2}}}`, "7")
	f.Fuzz(func(t *testing.T, text, value, key string) {
		m, err := ParseMap(text)
		if err != nil {
			return
		}
		d := Decoder{Map: m, Memory: &Memory{}}
		for _, o := range []*event.Origin{{Value: []byte(value), Key: []byte(key)}, {Key: []byte(key)}} {
			var n event.Node
			var l event.Label
			if reason, _ := d.Node(o, &n); reason == "" {
				checkNode(t, &n)
			}
			if reason, _ := d.Label(o, &l); reason == "" && (len(l.Class) > 1024 || l.Index == event.NoClass || (l.Withdrawn || l.Skip) && l.Class != "") {
				t.Fatalf("a label of no class, or of two meanings: %+v", l)
			}
		}
	})
}
