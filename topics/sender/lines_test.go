package sender_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestLines: every line becomes a record with the same event under its node's key, up to the
// first line that is not an event. The error names that line.
func TestLines(t *testing.T) {
	f := newFixture(t)
	lines := `{"id":1,"features":[1,2],"neighbours":["a"]}

{"id":"a","indices":[3]}
{"id":1,"departed":true}
`
	if sent, err := sender.Lines(t.Context(), f.client, f.names, strings.NewReader(lines)); err != nil || sent != 3 {
		t.Fatalf("sent %d events (error %v), want 3", sent, err)
	}
	var got []event.Node
	read := func() {
		got = nil
		if err := f.client.ReadAll(t.Context(), f.names.Nodes, func(r *kafka.Record) {
			var n event.Node
			o := &event.Origin{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
			for _, h := range r.Headers {
				o.Headers = append(o.Headers, event.Header(h))
			}
			if reason, detail := (&wire.Decoder{}).Node(o, &n); reason != "" {
				t.Fatalf("refused: %s: %s", reason, detail)
			}
			if string(r.Key) != n.ID.String() {
				t.Errorf("the record of node %v has key %q", n.ID, r.Key)
			}
			n.Origin = nil
			got = append(got, n)
		}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	want := []event.Node{
		{ID: event.ID{Num: 1}, Dense: []float32{1, 2}, Neighbours: []event.ID{{Str: "a"}}},
		{ID: event.ID{Str: "a"}, Index: []uint32{3}, Value: []float32{1}},
		{ID: event.ID{Num: 1}, Departed: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events in the topic, -want +got\n%s", d)
	}
	for bad, want := range map[string]string{
		`{"id":2,"features":[1]}` + "\n{}":                            "line 2: bad-id",
		`{"id":3,"features":[1]}` + "\n" + strings.Repeat("x", 5<<20): "line 2: bufio.Scanner: token too long",
	} {
		if sent, err := sender.Lines(t.Context(), f.client, f.names, strings.NewReader(bad)); sent != 1 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sent %d events with error %v, want 1 and an error with %q", sent, err, want)
		}
	}
	if read(); len(got) != 5 {
		t.Errorf("the topic has %d events, want 5", len(got))
	}
}
