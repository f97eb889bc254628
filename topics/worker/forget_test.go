package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestForgetBeyondMemory: where a second engine does not fit into the memory, a command to
// forget becomes a dead letter that says so. Replays by workers with more memory, and audits,
// write and find the same.
func TestForgetBeyondMemory(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		f.RunUntilConsumed(&tally{}, worker.Config{})
		f.Forget(5)
		f.Send(20, 30)
		full := errors.New("it takes 3 MiB, and 2 of 4 MiB are in use")
		f.RunUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshTally, Room: func() error { return full }}})
		if n := len(f.ForgetRecords()); n != 0 {
			t.Errorf("%d records of forgetting, want none", n)
		}
		if !f.HasDeadLetter("does not fit into the memory") {
			t.Error("no dead letter says that memory is missing")
		}
		roomy := worker.Config{Models: replay.Models{Fresh: workertest.FreshTally, Room: func() error { return nil }}}
		f.RunUntilConsumed(&tally{}, roomy)
		if _, err := f.Audit(&tally{}, roomy); err != nil {
			t.Error(err)
		}
		f.Forget(5)
		f.RunUntilConsumed(&tally{}, roomy)
		if n := len(f.ForgetRecords()); n != 1 {
			t.Errorf("%d records of forgetting after the command was sent again, want 1", n)
		}
	})
}

// TestForgetWhilePurged: while an owner replays without nodes, the ledger's beginning is deleted. The command becomes a dead letter that
// says so, and the owner serves on.
func TestForgetWhilePurged(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		f.RunUntilConsumed(&tally{}, worker.Config{})
		kept := replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: workertest.ReadTally}
		f.RunUntilConsumed(&tally{}, worker.Config{Checkpoints: kept})
		f.Forget(5)
		f.Send(20, 30)
		purged := func() (replay.Engine, error) {
			if err := f.On.Fake.DeleteRecords(f.Names.Ledger, 0, 1); err != nil {
				t.Error(err)
			}
			return workertest.FreshTally()
		}
		w := f.StartWorker(&tally{}, worker.Config{Checkpoints: kept, Models: replay.Models{Fresh: purged}})
		kafkatest.Await(t, "the nodes behind the command are predicted", func() bool { return f.Count(f.Names.Predictions) == 30 })
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
		if !f.HasDeadLetter("the beginning of the inputs or of the ledger is gone") {
			t.Error("no dead letter says what is gone")
		}
	})
}

// TestForgetKilled: a worker that is killed while it forgets, as for its memory, leaves the
// command to the next. After three of them the fourth declines it and serves. A command that
// is sent later is tried again.
func TestForgetKilled(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		f.RunUntilConsumed(&tally{}, worker.Config{})
		f.Forget(5)
		f.Send(20, 30)
		killed := errors.New("killed")
		deadly := f.Config(worker.Config{Models: replay.Models{Fresh: func() (replay.Engine, error) { return nil, killed }}})
		deadly.Session = session
		for i := range 3 {
			if err := worker.Run(t.Context(), f.Client, &tally{}, deadly); !errors.Is(err, killed) {
				t.Fatalf("attempt %d: error %v, want %v", i+1, err, killed)
			}
		}
		f.RunUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshTally}})
		if n := len(f.ForgetRecords()); n != 0 || !f.HasDeadLetter("workers have ended 3 times") {
			t.Errorf("%d records of forgetting, want none, and a dead letter that tells of three attempts", n)
		}
		attempts := 0
		for _, r := range f.Records() {
			if r.Attempt > 0 {
				if attempts++; r.Attempt != attempts || len(r.Ranges) > 0 {
					t.Errorf("window %d is attempt %d with the ranges %v, want attempt %d without records", r.Window, r.Attempt, r.Ranges, attempts)
				}
			}
		}
		if attempts != 3 {
			t.Errorf("the ledger notes %d attempts, want 3", attempts)
		}
		f.Forget(6)
		f.RunUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshTally}})
		if all := f.ForgetRecords(); len(all) != 1 || all[0].Forgot.Nodes != 1 {
			t.Errorf("%d records of forgetting after another command, want 1", len(all))
		}
		if _, err := f.Audit(&tally{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshTally}}); err != nil {
			t.Error(err)
		}
	})
}

// TestForgetBehindCommands: while the stream wants windows and commands are held, windows of
// the two alternate. Only before one of commands a forgetting is prepared, so that a window of
// the stream is no attempt.
func TestForgetBehindCommands(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		values := slices.Repeat([]string{"{"}, 1024) // a whole window of them
		values = append(values, string(wire.AppendCommand(nil, &event.Command{Name: event.Forget, Nodes: []event.ID{{Num: 5}}})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		forgot := false
		cfg := f.Config(worker.Config{
			Models: replay.Models{Fresh: workertest.FreshTally},
			Policy: &heldBack{CountOrLinger: intake.CountOrLinger{Count: 7}, held: func() { f.Command(values...) }},
			Events: replay.Join(
				replay.On(func(replay.Forgotten) { forgot = true }),
				replay.On(func(replay.Stepped) {
					if forgot {
						cancel()
					}
				}),
			),
		})
		cfg.Session = session
		if err := worker.Run(ctx, f.Client, &tally{}, cfg); err != nil || !forgot {
			t.Fatalf("the worker ended with error %v, and has forgotten: %v", err, forgot)
		}
		f.Fence()
		var causes []string
		for _, r := range f.Records() {
			causes = append(causes, fmt.Sprint(r.Cause, " ", r.Attempt))
		}
		// The first window of commands would be one to forget, if it did not end before that.
		want := []string{"forget 1", "command 0", "count 0", "forget 1", "command 0"}
		if causes = causes[:min(len(causes), len(want))]; !slices.Equal(causes, want) {
			t.Errorf("the windows' causes and attempts are %q, want %q", causes, want)
		}
	})
}

// heldBack is a policy that cuts nothing before the first window of commands, and then what is
// held, whatever else brokers have. It calls held once it could cut.
type heldBack struct {
	intake.CountOrLinger
	held func()
}

func (p *heldBack) Cut(b intake.Buffered) intake.Cut {
	if b.Window > 0 {
		c := p.CountOrLinger.Cut(b)
		c.Nodes, c.Labels, c.InOrder = min(b.Nodes, c.Nodes), min(b.Labels, c.Labels), false
		return c
	}
	if p.held != nil && b.Nodes >= p.Count {
		p.held()
		p.held = nil
	}
	return intake.Cut{Within: time.Millisecond}
}
