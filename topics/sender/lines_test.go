package sender_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestLines: every line becomes a record with the same event under its node's key, up to the
// first line that is not an event. The error names that line.
func TestLines(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		lines := `{"id":1,"features":[1,2],"neighbours":["a"]}

{"id":"a","indices":[3]}
{"id":1,"departed":true}
`
		if sent, err := sender.Lines(t.Context(), f.client, f.names, nil, strings.NewReader(lines), 0); err != nil || sent != (sender.Sent{Nodes: 3}) {
			t.Fatalf("sent %+v (error %v), want 3 node events", sent, err)
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
			`{"id":2,"features":[1]}` + "\n{}":                             "line 2: bad-id",
			`{"id":3,"features":[1]}` + "\n" + strings.Repeat("x", 50<<20): "line 2: bufio.Scanner: token too long",
		} {
			if sent, err := sender.Lines(t.Context(), f.client, f.names, nil, strings.NewReader(bad), 0); sent.All() != 1 || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("sent %+v with error %v, want 1 and an error with %q", sent, err, want)
			}
		}
		if read(); len(got) != 5 {
			t.Errorf("the topic has %d events, want 5", len(got))
		}
	})
}

// TestLinesOfAPipe: a line that a pipe gives is sent before the next one comes.
func TestLinesOfAPipe(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		out, in := io.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := sender.Lines(t.Context(), f.client, f.names, nil, out, 0)
			done <- err
		}()
		for n := range 3 {
			fmt.Fprintf(in, `{"id":%d,"features":[1]}`+"\n", n)
			synctest.Wait()
			got := 0
			if err := f.client.ReadAll(t.Context(), f.names.Nodes, func(*kafka.Record) { got++ }); err != nil || got != n+1 {
				t.Errorf("%d events are in the topic after line %d, error %v", got, n+1, err)
			}
		}
		in.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestLinesOfEveryKind: each line goes to the topic of its kind, under its node's key.
func TestLinesOfEveryKind(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		lines := []string{
			`{"id":"a","features":[1]}`,
			`{"node":"a","class":"red"}`,
			`{"command":"promote","model":"m"}`,
			`{"command":"forget","nodes":["a"]}`,
			`{"node":7,"class":2}`,
		}
		sent, err := sender.Lines(t.Context(), f.client, f.names, nil, strings.NewReader(strings.Join(lines, "\n")), 0)
		if want := (sender.Sent{Nodes: 1, Labels: 2, Commands: 2}); err != nil || sent != want {
			t.Fatalf("sent %+v (error %v), want %+v", sent, err, want)
		}
		for topic, want := range map[string][]string{
			f.names.Nodes:    {"a " + lines[0]},
			f.names.Labels:   {"7 " + lines[4], "a " + lines[1]},
			f.names.Commands: {" " + lines[3], " " + lines[2]},
		} {
			var got []string
			if err := f.client.ReadAll(t.Context(), topic, func(r *kafka.Record) { got = append(got, string(r.Key)+" "+string(r.Value)) }); err != nil {
				t.Fatal(err)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s has %q, want %q", topic, got, want)
			}
		}
		if _, err := sender.Lines(t.Context(), f.client, f.names, nil, strings.NewReader(`{"command":"dance"}`), 0); err == nil || !strings.Contains(err.Error(), `line 1: unknown-command: there is no command "dance"`) {
			t.Errorf("an unknown command: error %v", err)
		}
	})
}
