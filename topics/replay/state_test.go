package replay

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/ledger"
)

// TestNoteRecord: what a replayer knows of the state after a record, and of the attempts to forget nodes, window after window.
func TestNoteRecord(t *testing.T) {
	names, err := topics.Under("g")
	if err != nil {
		t.Fatal(err)
	}
	p := New(nil, Config{Terms: &Terms{Names: names}}, nil)
	trial := &ledger.Trial{Model: "b"}
	for _, c := range []struct {
		what     string
		r        ledger.Record
		attempts int
		behind   int64
		trial    bool
		serves   string
	}{
		{"an attempt", ledger.Record{Window: 4, Model: "a", Attempt: 1, Trial: trial}, 1, 0, true, "a"},
		{"another one", ledger.Record{Window: 5, Model: "a", Attempt: 2, Trial: trial}, 2, 0, true, "a"},
		{"a window of nodes between", ledger.Record{Window: 6, Model: "a", Ranges: []ledger.Range{{Topic: names.Nodes, To: 1}}, Trial: trial}, 2, 0, true, "a"},
		{"one of commands", ledger.Record{Window: 7, Model: "a", Ranges: []ledger.Range{{Topic: names.Commands, To: 1}}, Trial: trial}, 0, 0, true, "a"},
		{"a promotion", ledger.Record{Window: 8, Model: "a", Promoted: "b", Trial: trial}, 0, 0, false, "b"},
		{"an epoch", ledger.Record{Window: 9, Model: "b", Epoch: 1, Terms: ledger.Terms{Begins: &ledger.Beginning{}}}, 0, 0, false, "b"},
		{"an epoch behind a gap", ledger.Record{Window: 10, Model: "b", Epoch: 2, Terms: ledger.Terms{Begins: &ledger.Beginning{Gap: ledger.Gap{Windows: 3}}}}, 0, 10, false, "b"},
		{"a window behind it", ledger.Record{Window: 11, Model: "b"}, 0, 10, false, "b"},
	} {
		p.NoteRecord(&c.r)
		if last := p.Last(); p.Last().Attempts != c.attempts || p.Last().behind != c.behind || (last.Trial != nil) != c.trial || last.Serves != c.serves {
			t.Errorf("%s: %d attempts, behind the gap of window %d, and then %+v, want %d, %d, a trial that goes on: %v, and model %s",
				c.what, p.Last().Attempts, p.Last().behind, last, c.attempts, c.behind, c.trial, c.serves)
		}
	}
}

// TestAgree: of a replayed window the chain of each model that is in the record is compared, and which model it promotes. A
// model that the ledger does not have proves nothing.
func TestAgree(t *testing.T) {
	names, err := topics.Under("g")
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := event.Hash{1}, event.Hash{2}
	r := &ledger.Record{Window: 3, Model: "a", Chain: ours.Hex(), Shadow: &ledger.Shadow{Model: "b", Chain: theirs.Hex()}, Promoted: "b"}
	for _, c := range []struct {
		what     string
		out      event.Outcome
		compared bool
		err      string
	}{
		{"both models", event.Outcome{Model: "a", Chain: ours, Shadow: &event.Outcome{Model: "b", Chain: theirs}, Promoted: "b"}, true, ""},
		{"the shadow alone", event.Outcome{Model: "b", Chain: theirs, Promoted: "b"}, true, ""},
		{"neither", event.Outcome{Model: "c", Chain: ours, Promoted: "b"}, false, ""},
		{"another chain", event.Outcome{Model: "a", Chain: theirs, Promoted: "b"}, true, "window 3: replay gives"},
		{"another chain of the shadow", event.Outcome{Model: "a", Chain: ours, Shadow: &event.Outcome{Model: "b", Chain: ours}, Promoted: "b"}, true, "window 3: replay gives"},
		{"another promotion", event.Outcome{Model: "a", Chain: ours}, true, `window 3: replay promotes model ""`},
	} {
		terms := Terms{Names: names, Model: "a"}
		compared, err := terms.agree(r, &c.out)
		if compared != c.compared || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: compared %v, error %v, want %v and %q", c.what, compared, err, c.compared, c.err)
		}
	}
}
