package worker_test

import (
	"slices"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// commandRecorder is a tally that records the commands it receives and their windows.
type commandRecorder struct {
	tally
	commands []string
	windows  []int64 // of each command
}

func (e *commandRecorder) Step(w *event.Window) *event.Outcome {
	for _, c := range w.Commands {
		e.commands = append(e.commands, c.Name+" "+c.Model)
		e.windows = append(e.windows, w.Number)
	}
	out := e.tally.Step(w)
	out.Refused = slices.Clone(out.Refused)
	for i := range w.Commands { // so that the outcomes account for every record; see fixture.run
		out.Refused = append(out.Refused, event.Refusal{Origin: w.Commands[i].Origin, Reason: event.ImpossibleCommand})
	}
	return out
}

// TestCommands: commands have windows without other events, the ledger records their ranges,
// and a replay gives the engine the same commands in the same windows.
func TestCommands(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		if err := f.Run(&commandRecorder{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		promote := func(model string) string {
			return string(wire.AppendCommand(nil, &event.Command{Name: event.Promote, Model: model}))
		}
		f.Command(promote("a"), "{", promote("b"))
		f.Send(20, 40)
		first := &commandRecorder{}
		if err := f.Run(first, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if want := []string{"promote a", "promote b"}; !slices.Equal(first.commands, want) {
			t.Fatalf("the engine received the commands %v, want %v", first.commands, want)
		}
		f.Fence()
		var ranges []ledger.Range
		for _, r := range f.Records() {
			for _, g := range r.Ranges {
				if g.Topic != f.Names.Commands {
					continue
				}
				if ranges = append(ranges, g); r.Cause != "command" || len(r.Ranges) != 1 || !slices.Contains(first.windows, r.Window) {
					t.Errorf("window %d, cut by %s, has commands in its ranges %v, want it cut by command, with one range, and among the engine's windows %v", r.Window, r.Cause, r.Ranges, first.windows)
				}
			}
		}
		if n := len(ranges); n == 0 || ranges[0].From != 0 || ranges[n-1].To != 3 {
			t.Errorf("the ledger has the command ranges %v, want them to cover offsets 0 to 3", ranges)
		}
		replayed := &commandRecorder{}
		if err := f.Run(replayed, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(replayed.commands, first.commands) || !slices.Equal(replayed.windows, first.windows) {
			t.Errorf("the replay has commands %v in windows %v, want %v in %v", replayed.commands, replayed.windows, first.commands, first.windows)
		}
		if audited, err := f.Audit(&commandRecorder{}, worker.Config{}); err != nil || audited.DeadLetters != 5 {
			t.Errorf("audit: %d dead letters and error %v, want 5", audited.DeadLetters, err)
		}
	})
}
