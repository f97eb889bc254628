package worker_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// The settings of an old program's tallies, and those of a new one's. New tallies have the
// salt "b", so that they give other hashes.
const (
	oldSettings   event.Settings = `{"engine":1,"tally":"none"}`
	otherSettings event.Settings = `{"engine":2,"tally":"b"}`
)

// rebase begins an epoch of a tally with the salt "b".
func (f *fixture) rebase(cfg worker.Config, why string) (worker.Rebased, error) {
	f.t.Helper()
	cfg.Terms.Settings, cfg.Terms.Program = otherSettings, "v2"
	return worker.Rebase(f.t.Context(), f.client, &tally{salt: "b"}, f.config(cfg), why)
}

// refused checks that a worker does not start, with an error of one line that has the text.
func (f *fixture) refused(want string, e replay.Engine, cfg worker.Config) {
	f.t.Helper()
	cfg.Session = session
	err := worker.Run(f.t.Context(), f.client, e, f.config(cfg))
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		f.t.Errorf("the worker ends with error %v, want one line with %q", err, want)
	}
}

// TestRebase: an operator begins an epoch of another program and other settings, and
// later goes back. Every node is predicted once, by the engine of its epoch, and nothing
// is published again for the windows before.
func TestRebase(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 50)
		old := worker.Config{Terms: replay.Terms{Settings: oldSettings, Program: "v1"}}
		if err := f.run(&tally{}, old); err != nil {
			t.Fatal(err)
		}
		before := f.records()
		newer := worker.Config{Terms: replay.Terms{Settings: otherSettings, Program: "v2"}}

		// The new program does not start without the operator's word, and says what to do.
		f.refused(`was written by gvbll "v1" (engine 1), and this is gvbll "v2" (engine 2): begin an epoch of this one with --rebase`, &tally{salt: "b"}, newer)
		dir := t.TempDir()
		kept := replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}
		done, err := f.rebase(worker.Config{Checkpoints: kept}, "")
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(len(before)); !done.Began || done.Epoch != 1 || done.Window != want || done.Why != "engine 1 to 2, tally none to b" {
			t.Errorf("rebased as %+v, want epoch 1 from window %d on", done, want)
		}
		f.checkOutputs(50, 1)
		begin := f.records()[len(before)]
		if begin.Begins == nil || begin.Begins.Program != "v2" || begin.Configuration != otherSettings || len(begin.Classes) != 2 || len(begin.Ranges) != 0 || begin.Epoch != 1 {
			t.Errorf("the epoch begins with %+v, want its settings, classes and program, and no records", begin)
		}

		// The same again changes nothing: a rolling restart may keep the flag.
		if done, err := f.rebase(worker.Config{}, ""); err != nil || done.Began || done.Epoch != 1 {
			t.Errorf("rebased again as %+v with error %v, want nothing to do", done, err)
		}

		// The new program goes on, from the checkpoint and from the ledger's beginning.
		f.send(50, 80)
		from := int64(-1)
		kept.Restore = readTallyOf("b")
		if err := f.run(&tally{salt: "b"}, worker.Config{Terms: replay.Terms{Settings: otherSettings}, Checkpoints: kept, Events: replay.On(func(r replay.Recovered) { from = r.Checkpoint })}); err != nil {
			t.Fatal(err)
		}
		if from != done.Window+1 {
			t.Errorf("the worker began at the checkpoint before window %d, want the one of the epoch's first window, %d", from, done.Window)
		}
		newer.Rebase = true
		f.send(80, 100)
		if err := f.run(&tally{salt: "b"}, newer); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(100, 3)

		// A worker of the terms that were left does not take the graph back, not even with
		// the flag. An operator can.
		f.refused(`was written by gvbll "v2" (engine 2)`, &tally{}, old)
		old.Rebase = true
		f.refused("epoch 1 left them", &tally{}, old)
		back, err := worker.Rebase(t.Context(), f.client, &tally{}, f.config(old), "the new one is slow")
		if err != nil || !back.Began || back.Epoch != 2 || back.Why != "the new one is slow" {
			t.Fatalf("rebased back as %+v with error %v, want epoch 2", back, err)
		}
		f.send(100, 120)
		if err := f.run(&tally{}, old); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(120, 4)
	})
}

// readTallyOf restores a tally with a salt.
func readTallyOf(salt string) func(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
	return func(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
		e, meta, err := readTally(r, size, folder)
		if err == nil {
			e.(*tally).salt = salt
		}
		return e, meta, err
	}
}

// TestRebaseWhileServing is a rolling upgrade. A worker of the new program follows the old
// owner, whose hashes are not its own, and writes no checkpoint of windows that nothing
// proves. When the owner leaves it takes over with an epoch, and a standby of the old
// program ends with one line.
func TestRebaseWhileServing(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		events := f.send(0, 40)
		old := f.startWorker(&tally{}, worker.Config{})
		<-old.took
		old.awaitEvents(t, events)
		newer := f.startWorker(&tally{salt: "b"}, worker.Config{
			Terms:       replay.Terms{Settings: otherSettings, Program: "v2"},
			Rebase:      true,
			Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Nanosecond, Restore: readTallyOf("b")},
			Events: replay.On(func(s replay.Saved) {
				if s.Err != nil {
					return
				}
				r := f.records()
				for int64(len(r)) < s.Window { // Apache Kafka answers a commit before it can be read
					time.Sleep(time.Millisecond)
					r = f.records()
				}
				if r[s.Window-1].Epoch == 0 {
					t.Errorf("a checkpoint after window %d, which is of the old program", s.Window-1)
				}
			}),
		})
		<-newer.recovered
		more := f.send(40, 60)
		if newer.awaitEvents(t, events+more) == 0 {
			t.Error("the standby replayed no windows")
		}
		if err := old.stop(); err != nil {
			t.Fatal(err)
		}
		<-newer.took
		late := f.startWorker(&tally{}, worker.Config{Rebase: true})
		more = f.send(60, 80)
		newer.awaitEvents(t, more)
		if err := <-late.ended; err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("a worker of the old program ends with error %v, want one line", err)
		}
		if err := newer.stop(); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(80, 3)
		if n := f.records(); n[len(n)-1].Epoch != 1 {
			t.Errorf("the ledger ends in epoch %d, want 1", n[len(n)-1].Epoch)
		}
	})
}

// TestStandbyMeetsEpoch: an operator begins an epoch while a standby of the old terms
// follows. The standby and the owner end with one line each.
func TestStandbyMeetsEpoch(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		events := f.send(0, 20)
		owner := f.startWorker(&tally{}, worker.Config{})
		<-owner.took
		owner.awaitEvents(t, events)
		standby := f.startWorker(&tally{}, worker.Config{})
		<-standby.recovered
		if done, err := f.rebase(worker.Config{}, ""); err != nil || !done.Began {
			t.Fatalf("rebased as %+v with error %v", done, err)
		}
		if err := <-standby.ended; err == nil || !strings.Contains(err.Error(), "epoch 1 began at window") || strings.Contains(err.Error(), "\n") {
			t.Errorf("the standby ends with error %v, want one line that names the epoch", err)
		}
		f.send(20, 30)
		if err := <-owner.ended; err == nil || !strings.Contains(err.Error(), "taken over") {
			t.Errorf("the owner ends with error %v, want that the graph was taken over", err)
		}
		if err := f.run(&tally{salt: "b"}, worker.Config{Terms: replay.Terms{Settings: otherSettings}}); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(30, 2)
	})
}

// TestSameEpochBegunMeanwhile: two workers of the new terms start at once, and the second is
// about to compare these with the ledger's end as the first begins their epoch. The second
// follows it and serves.
func TestSameEpochBegunMeanwhile(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.send(20, 40)
		begun := false
		second := worker.Config{
			Terms: replay.Terms{
				Settings: otherSettings,
				Program:  "v2",
				Effective: func(written event.Settings) event.Settings {
					if !begun { // it has read the ledger's last record
						begun = true
						if done, err := f.rebase(worker.Config{}, ""); err != nil || !done.Began {
							t.Errorf("rebased as %+v with error %v", done, err)
						}
					}
					return written
				},
			},
			Rebase: true,
		}
		if err := f.run(&tally{salt: "b"}, second); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(40, 2)
		if all := f.records(); all[len(all)-1].Epoch != 1 {
			t.Errorf("the ledger ends in epoch %d, want 1", all[len(all)-1].Epoch)
		}
	})
}

// TestOtherClasses: an epoch of a model with more classes, in another order, learns the
// labels of old windows by the names that their indices had when they came.
func TestOtherClasses(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		for i, l := range []event.Label{{Index: 0}, {Index: 1}, {Index: 2}, {Class: "c"}} {
			l.Node = event.ID{Num: int64(i)}
			f.produce(kafka.Record{Topic: f.names.Labels, Value: wire.AppendLabel(nil, &l)})
		}
		if err := f.run(&tally{}, worker.Config{Terms: replay.Terms{Classes: []string{"a", "b"}}}); err != nil {
			t.Fatal(err)
		}
		var learned []string
		note := recordLabels{tally{}, &learned}
		done, err := worker.Rebase(t.Context(), f.client, &note, f.config(worker.Config{Terms: replay.Terms{Model: "wide", Classes: []string{"c", "b", "a"}}}), "")
		if err != nil || !done.Began || done.Why != "model tally to wide" {
			t.Fatalf("rebased as %+v with error %v, want an epoch of the other model", done, err)
		}
		if got := strings.Join(learned, " "); got != "0a 1b 2#-2147483648 3c" {
			t.Errorf("the labels of old windows are %q, want them by name, and an index that was of no class as one of no class", got)
		}
		records := f.records()
		if got := records[len(records)-1]; got.Model != "wide" || strings.Join(got.Classes, "") != "cba" {
			t.Errorf("the epoch begins with model %s and classes %v, want the new ones", got.Model, got.Classes)
		}
	})
}

// recordLabels notes the labels that it steps.
type recordLabels struct {
	tally
	learned *[]string
}

func (e *recordLabels) Step(w *event.Window) *event.Outcome {
	for _, l := range w.Labels {
		text := l.Node.String() + l.Class
		if l.Class == "" {
			text = fmt.Sprintf("%v#%d", l.Node, l.Index)
		}
		*e.learned = append(*e.learned, text)
	}
	return e.tally.Step(w)
}

// TestForgottenInEarlierEpoch: nodes that were forgotten in an epoch are forgotten in every
// later one.
func TestForgottenInEarlierEpoch(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 30)
		f.runUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: freshRecorder}})
		f.forget(3, 4)
		f.runUntilConsumed(&recorder{}, worker.Config{Models: replay.Models{Fresh: freshRecorder}})
		e := &recorder{}
		done, err := worker.Rebase(t.Context(), f.client, e, f.config(worker.Config{Terms: replay.Terms{Settings: otherSettings}, Models: replay.Models{Fresh: freshRecorder}}), "")
		if err != nil || !done.Began {
			t.Fatalf("rebased as %+v with error %v", done, err)
		}
		for _, w := range e.windows {
			for _, n := range w.Nodes {
				if n.ID.Num == 3 || n.ID.Num == 4 {
					t.Errorf("the new epoch's engine saw node %v in window %d, which was forgotten", n.ID, w.Number)
				}
			}
		}
		f.send(30, 40)
		f.runUntilConsumed(&recorder{}, worker.Config{Terms: replay.Terms{Settings: otherSettings}, Models: replay.Models{Fresh: freshRecorder}})
		if last := f.lastRecord(); last.Epoch != 1 {
			t.Errorf("the ledger ends in epoch %d, want 1", last.Epoch)
		}
	})
}
