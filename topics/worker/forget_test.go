package worker_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// recorder is a tally that keeps copies of the windows it was stepped through. The distance
// of two recorders is the difference of their numbers of nodes.
type recorder struct {
	tally
	windows []*event.Window
}

func (e *recorder) Step(w *event.Window) *event.Outcome {
	c := &event.Window{Number: w.Number}
	for _, n := range w.Nodes {
		n.Neighbours = slices.Clone(n.Neighbours)
		n.ID = n.ID.Clone()
		c.Nodes = append(c.Nodes, n)
	}
	for _, l := range w.Labels {
		c.Labels = append(c.Labels, event.Label{Node: l.Node.Clone(), Class: strings.Clone(l.Class)})
	}
	e.windows = append(e.windows, c)
	return e.tally.Step(w)
}

func (e *recorder) Apart(exact replay.Engine) (d ledger.Distance) {
	d.Mean = float64(len(e.seen) - len(exact.(*recorder).seen))
	d.Variance = 3
	return d
}

func freshRecorder() (replay.Engine, error) { return &recorder{}, nil }

// replayWithout steps a fresh tally through the windows, leaving out the nodes with their
// labels and edges. It is the oracle of what forgetting them must give.
func replayWithout(windows []*event.Window, nodes ...event.ID) *tally {
	e := &tally{}
	for _, w := range windows {
		remaining := &event.Window{Number: w.Number}
		for _, n := range w.Nodes {
			if !slices.Contains(nodes, n.ID) {
				n.Neighbours = slices.DeleteFunc(slices.Clone(n.Neighbours), func(id event.ID) bool { return slices.Contains(nodes, id) })
				remaining.Nodes = append(remaining.Nodes, n)
			}
		}
		for _, l := range w.Labels {
			if !slices.Contains(nodes, l.Node) {
				remaining.Labels = append(remaining.Labels, l)
			}
		}
		e.Step(remaining)
	}
	return e
}

// forget sends a command to forget the nodes with these integer ids.
func (f *fixture) forget(ids ...int64) (nodes []event.ID) {
	f.t.Helper()
	for _, id := range ids {
		nodes = append(nodes, event.ID{Num: id})
	}
	f.command(string(wire.AppendCommand(nil, &event.Command{Name: event.Forget, Nodes: nodes})))
	return nodes
}

// runUntilConsumed runs a worker until the ranges in the ledger cover every record of the
// input topics. Unlike run, it does not depend on the outcomes, which do not account for
// commands that were obeyed or for the events of forgotten nodes.
func (f *fixture) runUntilConsumed(e replay.Engine, cfg worker.Config) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	want := f.inputs()
	l, err := ledger.Open(ctx, f.client, f.names.LedgerAt())
	if err != nil {
		f.t.Fatal(err)
	}
	owned, complete := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer cancel()
		<-owned
		consumed := 0
		for consumed < want {
			r, err := l.Wait(ctx)
			if err != nil {
				complete <- false
				return
			}
			if r == nil {
				continue
			}
			for _, g := range r.Ranges {
				consumed += int(g.To - g.From)
			}
		}
		complete <- true
	}()
	cfg = f.config(cfg)
	cfg.Session = session
	cfg.Events = replay.Join(cfg.Events, replay.On(func(replay.TookOver) { close(owned) }))
	if err := worker.Run(ctx, f.client, e, cfg); err != nil || !<-complete {
		f.t.Fatalf("the worker ended with error %v before all %d input records were in the ledger", err, want)
	}
	f.fence()
}

// forgetRecords returns the ledger records of the windows in which nodes were forgotten.
func (f *fixture) forgetRecords() (all []*ledger.Record) {
	f.t.Helper()
	for _, r := range f.records() {
		if r.Forgot != nil {
			all = append(all, r)
		}
	}
	return all
}

// lastRecord returns the ledger's last record.
func (f *fixture) lastRecord() *ledger.Record {
	f.t.Helper()
	all := f.records()
	return all[len(all)-1]
}

// TestForget: after nodes are forgotten, the state is that of an engine that was stepped
// through the same windows without them. A forgotten node that arrives again is a new node.
// A later start and an audit replay the ledger to the same state.
func TestForget(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		cfg := worker.Config{Models: replay.Models{Fresh: freshRecorder}}
		f.send(0, 40)
		saw := &recorder{}
		f.runUntilConsumed(saw, cfg)
		before := f.lastRecord().Chain

		gone := f.forget(3, 17, 99)
		var calls []replay.Forgotten
		f.runUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: freshRecorder}, Events: replay.On(func(f replay.Forgotten) { calls = append(calls, f) })})
		// Node 99 never arrived, so that only two of the three make a difference.
		if len(calls) != 1 || calls[0].Nodes != 3 || calls[0].Mean != 2 || calls[0].Variance != 3 {
			t.Fatalf("the hook was called with %+v, want once with 3 nodes and the distances 2 and 3", calls)
		}
		forgets := f.forgetRecords()
		if len(forgets) != 1 || forgets[0].Forgot.Windows != forgets[0].Window || len(forgets[0].Ranges) != 1 {
			t.Fatalf("the ledger records of forgetting are %+v, want one with one range and all windows before it replayed", forgets)
		}
		// The window before it notes the attempt.
		windows := append(saw.windows, &event.Window{Number: forgets[0].Window - 1}, &event.Window{Number: forgets[0].Window})
		if want := replayWithout(windows, gone...).chain; forgets[0].Chain != hex.EncodeToString(want[:]) || forgets[0].Chain == before {
			t.Fatalf("the chain after forgetting is %s, want %x, that of an engine that never saw the nodes", forgets[0].Chain, want)
		}

		f.send(40, 60)
		f.send(3, 4)
		f.runUntilConsumed(&recorder{}, cfg)
		if got := f.predictionsOf(3); got != 2 {
			t.Errorf("the node that arrived again was predicted %d times in all, want 2", got)
		}
		// Forget a node for the first time, and one for the second time.
		f.forget(20)
		f.forget(3)
		f.send(60, 70)
		f.runUntilConsumed(&recorder{}, cfg)
		if n := len(f.forgetRecords()); n < 2 {
			t.Fatalf("the ledger has %d records of forgetting, want at least 2", n)
		}
		end := f.lastRecord().Chain

		// A start leaves the forgotten nodes out from the beginning, so that it needs no
		// second replay.
		var replays int
		start := &recorder{}
		f.runUntilConsumed(start, worker.Config{Models: replay.Models{Fresh: func() (replay.Engine, error) { replays++; return &recorder{}, nil }}})
		if replays > 0 || hex.EncodeToString(start.chain[:]) != end {
			t.Errorf("a start made %d fresh engines and reached chain %x, want none and %s", replays, start.chain, end)
		}
		for _, id := range []int64{3, 17, 20, 99} {
			if start.seen[event.ID{Num: id}] {
				t.Errorf("a start stepped the forgotten node %d", id)
			}
		}
		audited, err := f.audit(&recorder{}, worker.Config{Models: replay.Models{Fresh: freshRecorder}})
		if err != nil || audited.Chain != end {
			t.Errorf("audit: %+v and error %v, want chain %s", audited, err, end)
		}
		if _, err := f.audit(&recorder{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "no fresh engine") {
			t.Errorf("an audit without Fresh: error %v, want one that says so", err)
		}
	})
}

// predictionsOf returns the number of published predictions of a node.
func (f *fixture) predictionsOf(id int64) (n int) {
	f.t.Helper()
	for _, r := range f.read(f.names.Predictions) {
		if string(r.Key) == fmt.Sprint(id) {
			n++
		}
	}
	return n
}

// TestForgetWithCheckpoints: a worker that starts at a checkpoint from before nodes were
// forgotten replays into a fresh engine when it reaches that window. One that starts at a
// checkpoint from after it need not.
func TestForgetWithCheckpoints(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		replays := 0
		in := func(dir string) worker.Config {
			fresh := func() (replay.Engine, error) { replays++; return &tally{}, nil }
			return worker.Config{Models: replay.Models{Fresh: fresh}, Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
		}
		before, after := t.TempDir(), t.TempDir()
		f.send(0, 40)
		f.runUntilConsumed(&tally{}, in(before))
		f.forget(5)
		f.runUntilConsumed(&tally{}, in(after))
		f.send(40, 50)
		replays = 0
		f.runUntilConsumed(&tally{}, in(after))
		if replays != 0 {
			t.Errorf("a start after the forgetting made %d replays, want none", replays)
		}
		f.send(50, 60)
		f.runUntilConsumed(&tally{}, in(before))
		if replays != 1 {
			t.Errorf("a start before the forgetting made %d replays, want 1", replays)
		}
		f.forget(6)
		f.runUntilConsumed(&tally{}, in(after))
		if n := len(f.forgetRecords()); n != 2 {
			t.Errorf("the ledger has %d records of forgetting, want 2", n)
		}
	})
}

// TestForgetImpossible: a worker without Fresh cannot replay, so a command to forget goes to
// the dead letters. A later worker that could replay and an audit follow that decision,
// because the ledger records it.
func TestForgetImpossible(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		f.runUntilConsumed(&tally{}, worker.Config{})
		f.forget(5)
		f.send(20, 30)
		f.runUntilConsumed(&tally{}, worker.Config{})
		if n, dead := len(f.forgetRecords()), f.count(f.names.DeadLetters); n != 0 || dead != 3 {
			t.Errorf("%d records of forgetting and %d dead letters, want 0 and 3", n, dead)
		}
		f.runUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: freshRecorder}})
		if audited, err := f.audit(&tally{}, worker.Config{}); err != nil || audited.DeadLetters != 3 {
			t.Errorf("audit: %+v and error %v, want 3 dead letters", audited, err)
		}
	})
}

// TestForgetBeyondMemory: where a second engine does not fit into the memory, a command to
// forget becomes a dead letter that says so. Replays by workers with more memory, and audits,
// write and find the same.
func TestForgetBeyondMemory(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		f.runUntilConsumed(&tally{}, worker.Config{})
		f.forget(5)
		f.send(20, 30)
		full := errors.New("it takes 3 MiB, and 2 of 4 MiB are in use")
		f.runUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: freshTally, Room: func() error { return full }}})
		if n := len(f.forgetRecords()); n != 0 {
			t.Errorf("%d records of forgetting, want none", n)
		}
		if !f.hasDeadLetter("does not fit into the memory") {
			t.Error("no dead letter says that memory is missing")
		}
		roomy := worker.Config{Models: replay.Models{Fresh: freshTally, Room: func() error { return nil }}}
		f.runUntilConsumed(&tally{}, roomy)
		if _, err := f.audit(&tally{}, roomy); err != nil {
			t.Error(err)
		}
		f.forget(5)
		f.runUntilConsumed(&tally{}, roomy)
		if n := len(f.forgetRecords()); n != 1 {
			t.Errorf("%d records of forgetting after the command was sent again, want 1", n)
		}
	})
}

// TestForgetKilled: a worker that is killed while it forgets, as for its memory, leaves the
// command to the next. After three of them the fourth declines it and serves. A command that
// is sent later is tried again.
func TestForgetKilled(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		f.runUntilConsumed(&tally{}, worker.Config{})
		f.forget(5)
		f.send(20, 30)
		killed := errors.New("killed")
		deadly := f.config(worker.Config{Models: replay.Models{Fresh: func() (replay.Engine, error) { return nil, killed }}})
		deadly.Session = session
		for i := range 3 {
			if err := worker.Run(t.Context(), f.client, &tally{}, deadly); !errors.Is(err, killed) {
				t.Fatalf("attempt %d: error %v, want %v", i+1, err, killed)
			}
		}
		f.runUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: freshTally}})
		if n := len(f.forgetRecords()); n != 0 || !f.hasDeadLetter("workers have ended 3 times") {
			t.Errorf("%d records of forgetting, want none, and a dead letter that tells of three attempts", n)
		}
		attempts := 0
		for _, r := range f.records() {
			if r.Attempt > 0 {
				if attempts++; r.Attempt != attempts || len(r.Ranges) > 0 {
					t.Errorf("window %d is attempt %d with the ranges %v, want attempt %d without records", r.Window, r.Attempt, r.Ranges, attempts)
				}
			}
		}
		if attempts != 3 {
			t.Errorf("the ledger notes %d attempts, want 3", attempts)
		}
		f.forget(6)
		f.runUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: freshTally}})
		if all := f.forgetRecords(); len(all) != 1 || all[0].Forgot.Nodes != 1 {
			t.Errorf("%d records of forgetting after another command, want 1", len(all))
		}
		if _, err := f.audit(&tally{}, worker.Config{Models: replay.Models{Fresh: freshTally}}); err != nil {
			t.Error(err)
		}
	})
}

func freshTally() (replay.Engine, error) { return &tally{}, nil }

// hasDeadLetter reports whether a dead letter contains the text.
func (f *fixture) hasDeadLetter(text string) bool {
	f.t.Helper()
	return slices.ContainsFunc(f.read(f.names.DeadLetters), func(r kafka.Record) bool { return strings.Contains(string(r.Value), text) })
}

// TestForgetBehindCommands: while the stream wants windows and commands are held, windows of
// the two alternate. Only before one of commands a forgetting is prepared, so that a window of
// the stream is no attempt.
func TestForgetBehindCommands(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		values := slices.Repeat([]string{"{"}, 1024) // a whole window of them
		values = append(values, string(wire.AppendCommand(nil, &event.Command{Name: event.Forget, Nodes: []event.ID{{Num: 5}}})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		forgot := false
		cfg := f.config(worker.Config{
			Models: replay.Models{Fresh: freshTally},
			Policy: &heldBack{CountOrLinger: intake.CountOrLinger{Count: 7}, held: func() { f.command(values...) }},
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
		if err := worker.Run(ctx, f.client, &tally{}, cfg); err != nil || !forgot {
			t.Fatalf("the worker ended with error %v, and has forgotten: %v", err, forgot)
		}
		f.fence()
		var causes []string
		for _, r := range f.records() {
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
