package worker_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// scribe is a tally that writes down what it was stepped through, and says how far
// apart two of them are: by how many nodes.
type scribe struct {
	tally
	windows []*event.Window
}

func (e *scribe) Step(w *event.Window) *event.Outcome {
	kept := &event.Window{Number: w.Number}
	for _, n := range w.Nodes {
		n.Neighbours = slices.Clone(n.Neighbours)
		n.ID = n.ID.Clone()
		kept.Nodes = append(kept.Nodes, n)
	}
	for _, l := range w.Labels {
		kept.Labels = append(kept.Labels, event.Label{Node: l.Node.Clone(), Class: strings.Clone(l.Class)})
	}
	e.windows = append(e.windows, kept)
	return e.tally.Step(w)
}

func (e *scribe) Apart(exact worker.Engine) (d ledger.Distance) {
	d.Mean = float64(len(e.seen) - len(exact.(*scribe).seen))
	d.Variance = 3
	return d
}

func freshScribe() (worker.Engine, error) { return &scribe{}, nil }

// neverSaw steps a tally through windows, without what is of some nodes.
func neverSaw(windows []*event.Window, nodes ...event.ID) *tally {
	e := &tally{}
	for _, w := range windows {
		left := &event.Window{Number: w.Number}
		for _, n := range w.Nodes {
			if !slices.Contains(nodes, n.ID) {
				n.Neighbours = slices.DeleteFunc(slices.Clone(n.Neighbours), func(id event.ID) bool { return slices.Contains(nodes, id) })
				left.Nodes = append(left.Nodes, n)
			}
		}
		for _, l := range w.Labels {
			if !slices.Contains(nodes, l.Node) {
				left.Labels = append(left.Labels, l)
			}
		}
		e.Step(left)
	}
	return e
}

// forget commands that nodes be forgotten.
func (w *fixture) forget(ids ...int64) (nodes []event.ID) {
	w.t.Helper()
	for _, id := range ids {
		nodes = append(nodes, event.ID{Num: id})
	}
	w.command(string(wire.AppendCommand(nil, &event.Command{Name: event.Forget, Nodes: nodes})))
	return nodes
}

// records reads the ledger as it stands.
func (w *fixture) records() (records []*ledger.Record) {
	w.t.Helper()
	l, err := ledger.Open(w.t.Context(), w.client, w.names.Ledger)
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		r, err := l.Next(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if r == nil {
			return records
		}
		records = append(records, r)
	}
}

// work runs a worker until the ledger has all that the topics hold.
func (w *fixture) work(e worker.Engine, cfg worker.Config) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	want := w.count(w.names.Nodes) + w.count(w.names.Labels) + w.count(w.names.Commands)
	l, err := ledger.Open(ctx, w.client, w.names.Ledger)
	if err != nil {
		w.t.Fatal(err)
	}
	owned, whole := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer cancel()
		<-owned
		taken := 0
		for taken < want {
			r, err := l.Wait(ctx)
			if err != nil {
				whole <- false
				return
			}
			if r == nil {
				continue
			}
			for _, g := range r.Ranges {
				taken += int(g.To - g.From)
			}
		}
		whole <- true
	}()
	cfg.Names, cfg.Model, cfg.Settings, cfg.Classes = w.names, "tally", settings, []string{"a", "b"}
	cfg.Policy, cfg.Session = intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}, session
	cfg.Hooks = worker.Join(cfg.Hooks, worker.Hooks{TookOver: func(worker.TookOver) { close(owned) }})
	if err := worker.Run(ctx, w.client, e, cfg); err != nil || !<-whole {
		w.t.Fatalf("the worker ended with %v, and had not taken all", err)
	}
	w.settle()
}

// forgets returns the chains of the windows in which nodes were forgotten.
func (w *fixture) forgets() (all []*ledger.Record) {
	w.t.Helper()
	for _, r := range w.records() {
		if r.Forgot != nil {
			all = append(all, r)
		}
	}
	return all
}

// last is the ledger's last record.
func (w *fixture) last() *ledger.Record {
	w.t.Helper()
	all := w.records()
	return all[len(all)-1]
}

// TestForget: a worker that forgets nodes is where one is that never saw them, with
// the same cuts; a node that comes again is one like any other; and whoever
// replays it agrees: a start, a standby, an audit.
func TestForget(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		cfg := worker.Config{Fresh: freshScribe}
		w.send(0, 40)
		saw := &scribe{}
		w.work(saw, cfg)
		before := w.last().Chain

		gone := w.forget(3, 17, 99)
		var told []worker.Forgotten
		w.work(&scribe{}, worker.Config{Fresh: freshScribe, Hooks: worker.Hooks{Forgot: func(f worker.Forgotten) { told = append(told, f) }}})
		if len(told) != 1 || told[0].Nodes != 3 || told[0].Mean != 2 || told[0].Variance != 3 {
			t.Fatalf("told %+v", told)
		}
		forgets := w.forgets()
		if len(forgets) != 1 || forgets[0].Forgot.Windows != forgets[0].Window || len(forgets[0].Ranges) != 1 {
			t.Fatalf("the ledger has %+v", forgets)
		}
		windows := append(saw.windows, &event.Window{Number: forgets[0].Window})
		if want := neverSaw(windows, gone...).chain; forgets[0].Chain != hex.EncodeToString(want[:]) || forgets[0].Chain == before {
			t.Fatal("another state than that of a worker that never saw the nodes")
		}

		w.send(40, 60)
		w.send(3, 4)
		w.work(&scribe{}, cfg)
		if got := w.seen(3); got != 2 {
			t.Errorf("a node that came again was predicted %d times in all", got)
		}
		// One that was there from the start, and one that was forgotten and is back.
		w.forget(20)
		w.forget(3)
		w.send(60, 70)
		once := &scribe{}
		w.work(once, cfg)
		if len(w.forgets()) < 2 {
			t.Fatalf("the ledger has %d", len(w.forgets()))
		}
		end := w.last().Chain

		// A start replays once, without all of them.
		var replays int
		start := &scribe{}
		w.work(start, worker.Config{Fresh: func() (worker.Engine, error) { replays++; return &scribe{}, nil }})
		if replays > 0 || hex.EncodeToString(start.chain[:]) != end {
			t.Errorf("a start replayed %d times, to another state: %v", 1+replays, hex.EncodeToString(start.chain[:]) != end)
		}
		for i, id := range []int64{3, 17, 20, 99} {
			if start.seen[event.ID{Num: id}] {
				t.Errorf("%d: node %d was seen", i, id)
			}
		}
		audited, err := worker.Audit(t.Context(), w.client, &scribe{}, worker.Config{
			Names: w.names, Model: "tally", Settings: settings, Classes: []string{"a", "b"}, Fresh: freshScribe,
		}, "", nil)
		if err != nil || audited.Chain != end {
			t.Errorf("audit: %+v, %v", audited, err)
		}
		if _, err := w.audit(&scribe{}); err == nil || !strings.Contains(err.Error(), "no fresh engine") {
			t.Errorf("an audit that cannot replay: %v", err)
		}
	})
}

// seen counts the predictions of a node.
func (w *fixture) seen(id int64) (n int) {
	for _, r := range w.read(w.names.Predictions) {
		if string(r.Key) == fmt.Sprint(id) {
			n++
		}
	}
	return n
}

// TestForgetWithCheckpoints: one from before is as good as a standby, one from
// after needs nothing more.
func TestForgetWithCheckpoints(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		kept := func(dir string, fresh func() (worker.Engine, error)) worker.Config {
			return worker.Config{Fresh: fresh, Checkpoints: worker.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
		}
		fresh := func() (worker.Engine, error) { return &tally{}, nil }
		before, after := t.TempDir(), t.TempDir()
		w.send(0, 40)
		w.work(&tally{}, kept(before, fresh))
		w.forget(5)
		w.work(&tally{}, kept(after, fresh))
		w.send(40, 50)
		again := 0
		w.work(&tally{}, kept(after, func() (worker.Engine, error) { again++; return &tally{}, nil }))
		if again > 0 {
			t.Errorf("a start behind the forgetting replayed again")
		}
		w.send(50, 60)
		w.work(&tally{}, kept(before, func() (worker.Engine, error) { again++; return &tally{}, nil }))
		if again != 1 {
			t.Errorf("a start before the forgetting replayed %d times", again)
		}
		w.forget(6)
		w.work(&tally{}, kept(after, fresh))
		if n := len(w.forgets()); n != 2 {
			t.Errorf("forgot %d times", n)
		}
	})
}

// TestForgetImpossible: where the beginning is gone, or there is no engine to
// replay into, the command goes to the dead letters, and in a replay too.
func TestForgetImpossible(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 20)
		w.work(&tally{}, worker.Config{})
		w.forget(5)
		w.send(20, 30)
		w.work(&tally{}, worker.Config{})
		if n, dead := len(w.forgets()), w.count(w.names.DeadLetters); n != 0 || dead != 3 {
			t.Errorf("forgot %d times, %d dead letters", n, dead)
		}
		w.work(&tally{}, worker.Config{Fresh: freshScribe})
		if found, err := w.audit(&tally{}); err != nil || found.DeadLetters != 3 {
			t.Errorf("audit: %+v, %v", found, err)
		}
	})
}
