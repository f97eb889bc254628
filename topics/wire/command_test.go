package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestCommand: commands are decoded from JSON, and unknown keys are ignored.
func TestCommand(t *testing.T) {
	for _, c := range []struct {
		value string
		want  event.Command
	}{
		{`{"command":"promote","model":"8acbae9f5e4f7891"}`, event.Command{Name: event.Promote, Model: "8acbae9f5e4f7891"}},
		{`{"command":"forget","nodes":["a\"b",7]}`, event.Command{Name: event.Forget, Nodes: []event.ID{{Str: `a"b`}, {Num: 7}}}},
		{"\x00\x00\x00\x00\x01" + `{"command":"promote","model":"m"}`, event.Command{Name: event.Promote, Model: "m"}},
		{`{"Command":"promote","model":"m","nodes":null,"by":"me"}`, event.Command{Name: event.Promote, Model: "m"}},
	} {
		var got event.Command
		o := &event.Origin{Value: []byte(c.value)}
		if reason, detail := (&Decoder{}).Command(o, &got); reason != "" {
			t.Errorf("%s: %s, %s", c.value, reason, detail)
		}
		if got.Origin != o {
			t.Errorf("%s: Origin is not set", c.value)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(event.Command{}, "Origin"), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.value, diff)
		}
	}
}

// TestCommandRefused: a bad command is refused with the reason that docs/wire-format.md
// gives, and a detail.
func TestCommandRefused(t *testing.T) {
	for value, want := range map[string]event.Reason{
		``:                                  event.Empty,
		`{`:                                 event.Undecodable,
		`[]`:                                event.Undecodable,
		"{\"command\":\"\xff\"}":            event.Undecodable,
		`{}`:                                event.UnknownCommand,
		`{"command":7}`:                     event.UnknownCommand,
		`{"command":"dance"}`:               event.UnknownCommand,
		`{"command":"Promote","model":""}`:  event.UnknownCommand,
		`{"command":"promote"}`:             event.UnknownCommand,
		`{"command":"promote","model":7}`:   event.UnknownCommand,
		`{"command":"forget"}`:              event.UnknownCommand,
		`{"command":"forget","nodes":[]}`:   event.UnknownCommand,
		`{"command":"forget","nodes":[""]}`: event.BadID,
		`{"command":"forget","nodes":[{}]}`: event.BadID,
		`{"command":"forget","nodes":[{"id":7}]}`:                              event.BadID,
		`{"command":"forget","command":"forget","nodes":[1]}`:                  event.Undecodable,
		`{"command":"promote","model":"` + strings.Repeat("m", 1025) + `"}`:    event.UnknownCommand,
		`{"command":"promote","model":"` + strings.Repeat("m", 9000) + `"}`:    event.UnknownCommand,
		`{"command":"forget","nodes":[` + strings.Repeat("1,", 70_000) + `1]}`: event.TooManyNeighbours,
		strings.Repeat(" ", 5<<20):                                             event.TooLarge,
	} {
		var c event.Command
		reason, detail := (&Decoder{}).Command(&event.Origin{Value: []byte(value)}, &c)
		if reason != want || detail == "" {
			t.Errorf("%.60q: reason %q and detail %q, want %q and a detail", value, reason, detail, want)
		}
	}
}

// FuzzCommand: a command is refused, or it is within the limits and stays the same when it is
// encoded and decoded again.
func FuzzCommand(f *testing.F) {
	f.Add([]byte(`{"command":"promote","model":"8acbae9f5e4f7891"}`))
	f.Add(AppendCommand(nil, &event.Command{Name: event.Forget, Nodes: []event.ID{{Str: "a"}, {Num: -3}}}))
	f.Add([]byte(`{"command":"forget","nodes":["a\\","\",\"",7]}`))
	f.Add([]byte(`{"command":null,"nodes":[[1],2]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		var c, again event.Command
		var reason event.Reason
		checkAllocated(t, len(b), func() { reason, _ = d.Command(&event.Origin{Value: b}, &c) })
		if reason != "" {
			return
		}
		for _, id := range c.Nodes {
			checkID(t, id)
		}
		if c.Name == "" || len(c.Name)+len(c.Model) > 2048 || len(c.Nodes) > 1<<16 {
			t.Fatalf("%d bytes of name and model and %d nodes: beyond the limits, or no name", len(c.Name)+len(c.Model), len(c.Nodes))
		}
		if reason, detail := d.Command(&event.Origin{Value: AppendCommand(nil, &c)}, &again); reason != "" {
			t.Fatalf("accepted, but refused after encoding it again: %s, %s", reason, detail)
		}
		if diff := cmp.Diff(c, again, cmpopts.IgnoreFields(event.Command{}, "Origin"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("encoded and decoded again, -before +after\n%s", diff)
		}
	})
}
