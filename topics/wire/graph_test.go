package wire

import (
	"reflect"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestGraph: a graph with nodes of its own is read in every form that docs/wire-format.md has, and as
// msgpack what was read is written and read again.
func TestGraph(t *testing.T) {
	want := event.Node{ID: event.ID{Str: "m-7"}, Time: 5, Graph: &event.Graph{Nodes: [][]float32{{1, 0}, {0, 1}, {0.5, 0}}, Ends: []uint32{0, 1, 1, 2}}}
	for name, value := range map[string][]byte{
		"JSON":          []byte(`{"id":"m-7","nodes":[[1,0], [0,1],[0.5,0]],"edges":[[0,1],[ 1, 2 ]],"time":5}`),
		"base64":        []byte(`{"edges":[[0,1],[1,2]],"time":5,"nodes":["AACAPwAAAAA=","AAAAAAAAgD8=","AAAAPwAAAAA="],"id":"m-7"}`),
		"msgpack":       pack(t, fields{"id": "m-7", "time": 5, "nodes": [][]float32{{1, 0}, {0, 1}, {0.5, 0}}, "edges": [][]int{{0, 1}, {1, 2}}}),
		"as it is sent": AppendNode(nil, &want),
	} {
		var d Decoder
		var got event.Node
		reason, detail := d.Node(&event.Origin{Value: value}, &got)
		if got.Origin = nil; reason != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s %s\n%+v, want\n%+v", name, reason, detail, got, want)
		}
	}
	for value, want := range map[string]event.Reason{
		`{"id":1,"nodes":[[1],[2,3]],"edges":[]}`:                   event.BadFeatures,
		`{"id":1,"nodes":[[1],[2]],"edges":[[0,2]]}`:                event.BadFeatures,
		`{"id":1,"nodes":[[1],[2]],"edges":[[0,-1]]}`:               event.BadFeatures,
		`{"id":1,"nodes":[[1],[2]],"edges":[[0,1,1]]}`:              event.BadFeatures,
		`{"id":1,"nodes":[[1],null],"edges":[]}`:                    event.PartialFeatures,
		`{"id":1,"nodes":[[1],[1e39]]}`:                             event.NonFinite,
		`{"id":1,"nodes":[[1],[2e6]]}`:                              event.HugeNumber,
		`{"id":1,"nodes":[],"edges":[]}`:                            event.BadFeatures,
		`{"id":1,"edges":[[0,0]]}`:                                  event.BadFeatures,
		`{"id":1,"nodes":[[1]],"features":[1]}`:                     event.BadFeatures,
		`{"id":1,"nodes":[[1]],"neighbours":[2]}`:                   event.BadFeatures,
		`{"id":1,"nodes":7}`:                                        event.Undecodable,
		`{"nodes":[[1]],"edges":[]}`:                                event.BadID,
		`{"id":1,"nodes":[[1],[1]],"edges":[[0,1],[0,1],[0,1]]}`:    event.TooLarge,
		`{"id":1,"nodes":[[1],[1],[1],[1]]}`:                        event.TooLarge,
		`{"source":1,"target":2,"nodes":[[1]]}`:                     event.Undecodable,
		`{"id":1,"nodes":[{"x":1}]}`:                                event.BadFeatures,
		`{"id":1,"nodes":[[1],[1]],"edges":[{"source":0}]}`:         event.BadFeatures,
		`{"id":1,"nodes":[[1]],"edges":[[0]],"departed":"for good"`: event.Undecodable,
	} {
		d := Decoder{Limits: Limits{MaxNeighbours: 2}}
		if want != event.TooLarge {
			d.Limits = Limits{}
		}
		if reason, detail := d.Node(&event.Origin{Value: []byte(value)}, &event.Node{}); reason != want {
			t.Errorf("%s: %q (%s), want %s", value, reason, detail, want)
		}
	}
}
