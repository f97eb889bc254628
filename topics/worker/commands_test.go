package worker_test

import (
	"slices"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// obedient is a tally that remembers what it was told, and in which windows.
type obedient struct {
	tally
	told    []string
	windows []int64
}

func (e *obedient) Step(w *event.Window) *event.Outcome {
	for _, c := range w.Commands {
		e.told = append(e.told, c.Name+" "+c.Model)
		e.windows = append(e.windows, w.Number)
	}
	out := e.tally.Step(w)
	out.Refused = slices.Clone(out.Refused)
	for i := range w.Commands { // so that the count of received records is reached
		out.Refused = append(out.Refused, event.Refusal{Origin: w.Commands[i].Origin, Reason: event.ImpossibleCommand})
	}
	return out
}

func (w *fixture) command(values ...string) {
	w.t.Helper()
	p, err := w.client.NewProducer(w.t.Context(), kafka.ProducerConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	var records []kafka.Record
	for _, v := range values {
		records = append(records, kafka.Record{Topic: w.names.Commands, Value: []byte(v)})
	}
	if err := p.Send(w.t.Context(), records); err != nil {
		w.t.Fatal(err)
	}
}

// TestCommands: a command is a window of its own, stands in the ledger, and is
// replayed where it stood.
func TestCommands(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 20)
		if err := w.run(&obedient{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		promote := func(model string) string {
			return string(wire.AppendCommand(nil, &event.Command{Name: event.Promote, Model: model}))
		}
		w.command(promote("a"), "{", promote("b"))
		w.send(20, 40)
		first := &obedient{}
		if err := w.run(first, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"promote a", "promote b"}; !slices.Equal(first.told, want) {
			t.Fatalf("told %v, want %v", first.told, want)
		}
		w.settle()
		l, err := ledger.Open(t.Context(), w.client, w.names.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		var took []ledger.Range
		for {
			r, err := l.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r == nil {
				break
			}
			for _, g := range r.Ranges {
				if g.Topic != w.names.Commands {
					continue
				}
				if took = append(took, g); r.Cause != "command" || len(r.Ranges) != 1 || !slices.Contains(first.windows, r.Window) {
					t.Errorf("window %d, cut by %s, has commands among %v; it was told in %v", r.Window, r.Cause, r.Ranges, first.windows)
				}
			}
		}
		if n := len(took); n == 0 || took[0].From != 0 || took[n-1].To != 3 {
			t.Errorf("the ledger has %v of three commands", took)
		}
		again := &obedient{}
		if err := w.run(again, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(again.told, first.told) || !slices.Equal(again.windows, first.windows) {
			t.Errorf("replayed %v in %v, want %v in %v", again.told, again.windows, first.told, first.windows)
		}
		if found, err := w.audit(&obedient{}); err != nil || found.DeadLetters != 5 {
			t.Errorf("audit: %d dead letters, %v", found.DeadLetters, err)
		}
	})
}
