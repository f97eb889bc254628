package replay_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

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

// TestForget: after nodes are forgotten, the state is that of an engine that was stepped
// through the same windows without them. A forgotten node that arrives again is a new node.
// A later start and an audit replay the ledger to the same state.
func TestForget(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		cfg := worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}}
		f.Send(0, 40)
		saw := &recorder{}
		f.RunUntilConsumed(saw, cfg)
		before := f.LastRecord().Chain

		gone := f.Forget(3, 17, 99)
		var calls []replay.Forgotten
		f.RunUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}, Events: replay.On(func(f replay.Forgotten) { calls = append(calls, f) })})
		// Node 99 never arrived, so that only two of the three make a difference.
		if len(calls) != 1 || calls[0].Nodes != 3 || calls[0].Mean != 2 || calls[0].Variance != 3 {
			t.Fatalf("the hook was called with %+v, want once with 3 nodes and the distances 2 and 3", calls)
		}
		forgets := f.ForgetRecords()
		if len(forgets) != 1 || forgets[0].Forgot.Windows != forgets[0].Window || len(forgets[0].Ranges) != 1 {
			t.Fatalf("the ledger records of forgetting are %+v, want one with one range and all windows before it replayed", forgets)
		}
		// The window before it notes the attempt.
		windows := append(saw.Windows, &event.Window{Number: forgets[0].Window - 1}, &event.Window{Number: forgets[0].Window})
		if want := replayWithout(windows, gone...).Chain; forgets[0].Chain != hex.EncodeToString(want[:]) || forgets[0].Chain == before {
			t.Fatalf("the chain after forgetting is %s, want %x, that of an engine that never saw the nodes", forgets[0].Chain, want)
		}

		f.Send(40, 60)
		f.Send(3, 4)
		f.RunUntilConsumed(&recorder{}, cfg)
		if got := predictionsOf(f, 3); got != 2 {
			t.Errorf("the node that arrived again was predicted %d times in all, want 2", got)
		}
		// Forget a node for the first time, and one for the second time.
		f.Forget(20)
		f.Forget(3)
		f.Send(60, 70)
		f.RunUntilConsumed(&recorder{}, cfg)
		if n := len(f.ForgetRecords()); n < 2 {
			t.Fatalf("the ledger has %d records of forgetting, want at least 2", n)
		}
		end := f.LastRecord().Chain

		// A start leaves the forgotten nodes out from the beginning, so that it needs no
		// second replay.
		var replays int
		start := &recorder{}
		f.RunUntilConsumed(start, worker.Config{Models: replay.Models{Fresh: func() (replay.Engine, error) { replays++; return &recorder{}, nil }}})
		if replays > 0 || hex.EncodeToString(start.Chain[:]) != end {
			t.Errorf("a start made %d fresh engines and reached chain %x, want none and %s", replays, start.Chain, end)
		}
		for _, id := range []int64{3, 17, 20, 99} {
			if start.Seen[event.ID{Num: id}] {
				t.Errorf("a start stepped the forgotten node %d", id)
			}
		}
		audited, err := f.Audit(&recorder{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}})
		if err != nil || audited.Chain != end {
			t.Errorf("audit: %+v and error %v, want chain %s", audited, err, end)
		}
		if _, err := f.Audit(&recorder{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "no fresh engine") {
			t.Errorf("an audit without Fresh: error %v, want one that says so", err)
		}
	})
}

// predictionsOf returns the number of published predictions of a node.
func predictionsOf(f *fixture, id int64) (n int) {
	f.T.Helper()
	for _, r := range f.Read(f.Names.Predictions) {
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
			return worker.Config{Models: replay.Models{Fresh: fresh}, Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
		}
		before, after := t.TempDir(), t.TempDir()
		f.Send(0, 40)
		f.RunUntilConsumed(&tally{}, in(before))
		f.Forget(5)
		f.RunUntilConsumed(&tally{}, in(after))
		f.Send(40, 50)
		replays = 0
		f.RunUntilConsumed(&tally{}, in(after))
		if replays != 0 {
			t.Errorf("a start after the forgetting made %d replays, want none", replays)
		}
		f.Send(50, 60)
		f.RunUntilConsumed(&tally{}, in(before))
		if replays != 1 {
			t.Errorf("a start before the forgetting made %d replays, want 1", replays)
		}
		f.Forget(6)
		f.RunUntilConsumed(&tally{}, in(after))
		if n := len(f.ForgetRecords()); n != 2 {
			t.Errorf("the ledger has %d records of forgetting, want 2", n)
		}
	})
}

// TestForgetImpossible: a worker without Fresh cannot replay, so a command to forget goes to
// the dead letters. A later worker that could replay and an audit follow that decision,
// because the ledger records it.
func TestForgetImpossible(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		f.RunUntilConsumed(&tally{}, worker.Config{})
		f.Forget(5)
		f.Send(20, 30)
		f.RunUntilConsumed(&tally{}, worker.Config{})
		if n, dead := len(f.ForgetRecords()), f.Count(f.Names.DeadLetters); n != 0 || dead != 3 {
			t.Errorf("%d records of forgetting and %d dead letters, want 0 and 3", n, dead)
		}
		f.RunUntilConsumed(&tally{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}})
		if audited, err := f.Audit(&tally{}, worker.Config{}); err != nil || audited.DeadLetters != 3 {
			t.Errorf("audit: %+v and error %v, want 3 dead letters", audited, err)
		}
	})
}

// TestForgottenInEarlierEpoch: nodes that were forgotten in an epoch are forgotten in every
// later one.
func TestForgottenInEarlierEpoch(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 30)
		f.RunUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}})
		f.Forget(3, 4)
		f.RunUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: workertest.FreshRecorder}})
		e := &recorder{}
		done, err := worker.Rebase(t.Context(), f.Client, e, f.Config(worker.Config{Terms: replay.Terms{Settings: otherSettings}, Models: replay.Models{Fresh: workertest.FreshRecorder}}), "")
		if err != nil || !done.Began {
			t.Fatalf("rebased as %+v with error %v", done, err)
		}
		for _, w := range e.Windows {
			for _, n := range w.Nodes {
				if n.ID.Num == 3 || n.ID.Num == 4 {
					t.Errorf("the new epoch's engine saw node %v in window %d, which was forgotten", n.ID, w.Number)
				}
			}
		}
		f.Send(30, 40)
		f.RunUntilConsumed(&recorder{}, worker.Config{Terms: replay.Terms{Settings: otherSettings}, Models: replay.Models{Fresh: workertest.FreshRecorder}})
		if last := f.LastRecord(); last.Epoch != 1 {
			t.Errorf("the ledger ends in epoch %d, want 1", last.Epoch)
		}
	})
}
