package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestMarks: kinds and weights are read in every form that docs/wire-format.md has, and as
// msgpack what was read is written and read again.
func TestMarks(t *testing.T) {
	a, b, c := event.ID{Str: "a"}, event.ID{Str: "b"}, event.ID{Num: 3}
	paid := event.Mark{Kind: "paid", Weight: 12.5}
	for value, want := range map[string]event.Node{
		`{"source":"a","target":"b","kind":"paid","weight":12.5}`:                               {ID: a, Edges: []event.Edge{{Source: a, Target: b, Mark: paid}}},
		`[{"source":"a","target":"b","weight":2},{"kind":"x","target":3,"source":"a"}]`:         {ID: a, Edges: []event.Edge{{Source: a, Target: b, Mark: event.Mark{Weight: 2}}, {Source: a, Target: c, Mark: event.Mark{Kind: "x"}}}},
		`{"id":"a","features":[1],"neighbours":["b",{"kind":"paid","id":3,"weight":12.5}]}`:     {ID: a, Dense: []float32{1}, Neighbours: []event.ID{b, c}, Marks: []event.Mark{{}, paid}},
		`{"id":"a","neighbors":[{"id":"b","in":true,"note":"?"},{"id":3,"weight":null}]}`:       {ID: a, Featureless: true, Neighbours: []event.ID{b, c}, Marks: []event.Mark{{In: true}, {}}},
		`{"id":"a","features":[1],"neighbours":["b",3],"kind":"a node's own","weight":"heavy"}`: {ID: a, Dense: []float32{1}, Neighbours: []event.ID{b, c}},
	} {
		var d Decoder
		var got event.Node
		origin := &event.Origin{Value: []byte(value)}
		if reason, detail := d.Node(origin, &got); reason != "" {
			t.Errorf("%s: refused as %s (%s)", value, reason, detail)
			continue
		}
		want.Origin = origin
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", value, got, want)
		}
		packed := &event.Origin{Value: AppendNode(nil, &got)}
		want.Origin = packed
		if len(want.Marks) > 1 && want.Marks[0] == (event.Mark{In: true}) {
			want.Marks[1] = event.Mark{} // an object of an id alone is written as the id
		}
		if reason, detail := d.Node(packed, &got); reason != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("%s as msgpack: %s %s\n%+v, want\n%+v", value, reason, detail, got, want)
		}
	}
	names := strings.Builder{}
	for i := range 50 * maxNamed {
		fmt.Fprintf(&names, `,"a%d":1`, i)
	}
	for value, want := range map[string]event.Reason{
		`{"id":1,"features":{` + names.String()[1:] + `}}`:                           event.TooLarge,
		"\x82\xa2id\x01\xa8features\xdf\xff\xff\xff\xff":                             event.Undecodable,
		`{"source":1,"target":2,"kind":"` + strings.Repeat("k", 1000*maxKind) + `"}`: event.Undecodable,
		`{"source":1,"target":2,"weight":0}`:                                         event.Undecodable,
		`{"source":1,"target":2,"weight":-1}`:                                        event.Undecodable,
		`{"source":1,"target":2,"weight":1e39}`:                                      event.Undecodable,
		`{"source":1,"target":2,"weight":"2"}`:                                       event.Undecodable,
		`{"source":1,"target":2,"kind":7}`:                                           event.Undecodable,
		`{"id":1,"neighbours":[{"kind":"paid"}]}`:                                    event.BadID,
		`{"id":1,"neighbours":[{"id":{"id":2}}]}`:                                    event.BadID,
		`{"id":1,"neighbours":[{"id":2,"in":1}]}`:                                    event.Undecodable,
		`{"id":1,"neighbours":[[2]]}`:                                                event.BadID,
		`{"id":1,"features":[1],"neighbours":[{"id":2,"id":3,"kind":1}]}`:            event.Undecodable,
	} {
		var d Decoder
		if reason, detail := d.Node(&event.Origin{Value: []byte(value)}, &event.Node{}); reason != want {
			t.Errorf("%.100s: %q (%.200s), want %s", value, reason, detail, want)
		}
	}
}
