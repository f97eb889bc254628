package worker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestRebase: an operator begins an epoch of another program and other settings, and
// later goes back. Every node is predicted once, by the engine of its epoch, and nothing
// is published again for the windows before.
func TestRebase(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 50)
		old := worker.Config{Terms: replay.Terms{Settings: oldSettings, Program: "v1"}}
		if err := f.Run(&tally{}, old); err != nil {
			t.Fatal(err)
		}
		before := f.Records()
		newer := worker.Config{Terms: replay.Terms{Settings: otherSettings, Program: "v2"}}

		// The new program does not start without the operator's word, and says what to do.
		f.Refused(`was written by gvbll "v1" (engine 1), and this is gvbll "v2" (engine 2): begin an epoch of this one with --rebase`, &tally{Salt: "b"}, newer)
		dir := t.TempDir()
		kept := replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}
		done, err := f.Rebase(worker.Config{Checkpoints: kept}, "")
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(len(before)); !done.Began || done.Epoch != 1 || done.Window != want || done.Why != "engine 1 to 2, tally none to b" {
			t.Errorf("rebased as %+v, want epoch 1 from window %d on", done, want)
		}
		f.CheckOutputs(50, 1)
		begin := f.Records()[len(before)]
		if begin.Begins == nil || begin.Begins.Program != "v2" || begin.Configuration != otherSettings || len(begin.Classes) != 2 || len(begin.Ranges) != 0 || begin.Epoch != 1 {
			t.Errorf("the epoch begins with %+v, want its settings, classes and program, and no records", begin)
		}

		// The same again changes nothing: a rolling restart may keep the flag.
		if done, err := f.Rebase(worker.Config{}, ""); err != nil || done.Began || done.Epoch != 1 {
			t.Errorf("rebased again as %+v with error %v, want nothing to do", done, err)
		}

		// The new program goes on, from the checkpoint and from the ledger's beginning.
		f.Send(50, 80)
		from := int64(-1)
		kept.Restore = workertest.ReadTallyOf("b")
		if err := f.Run(&tally{Salt: "b"}, worker.Config{Terms: replay.Terms{Settings: otherSettings}, Checkpoints: kept, Events: replay.On(func(r replay.Recovered) { from = r.Checkpoint })}); err != nil {
			t.Fatal(err)
		}
		if from != done.Window+1 {
			t.Errorf("the worker began at the checkpoint before window %d, want the one of the epoch's first window, %d", from, done.Window)
		}
		newer.Rebase = true
		f.Send(80, 100)
		if err := f.Run(&tally{Salt: "b"}, newer); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(100, 3)

		// A worker of the terms that were left does not take the graph back, not even with
		// the flag. An operator can.
		f.Refused(`was written by gvbll "v2" (engine 2)`, &tally{}, old)
		old.Rebase = true
		f.Refused("epoch 1 left them", &tally{}, old)
		back, err := worker.Rebase(t.Context(), f.Client, &tally{}, f.Config(old), "the new one is slow")
		if err != nil || !back.Began || back.Epoch != 2 || back.Why != "the new one is slow" {
			t.Fatalf("rebased back as %+v with error %v, want epoch 2", back, err)
		}
		f.Send(100, 120)
		if err := f.Run(&tally{}, old); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(120, 4)
	})
}

// TestRebaseWhileServing is a rolling upgrade. A worker of the new program follows the old
// owner, whose hashes are not its own, and writes no checkpoint of windows that nothing
// proves. When the owner leaves it takes over with an epoch, and a standby of the old
// program ends with one line.
func TestRebaseWhileServing(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		events := f.Send(0, 40)
		old := f.StartWorker(&tally{}, worker.Config{})
		<-old.Took
		old.AwaitEvents(t, events)
		newer := f.StartWorker(&tally{Salt: "b"}, worker.Config{
			Terms:       replay.Terms{Settings: otherSettings, Program: "v2"},
			Rebase:      true,
			Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Nanosecond, Restore: workertest.ReadTallyOf("b")},
			Events: replay.On(func(s replay.Saved) {
				if s.Err != nil {
					return
				}
				r := f.Records()
				for int64(len(r)) < s.Window { // Apache Kafka answers a commit before it can be read
					time.Sleep(time.Millisecond)
					r = f.Records()
				}
				if r[s.Window-1].Epoch == 0 {
					t.Errorf("a checkpoint after window %d, which is of the old program", s.Window-1)
				}
			}),
		})
		<-newer.Recovered
		more := f.Send(40, 60)
		if newer.AwaitEvents(t, events+more) == 0 {
			t.Error("the standby replayed no windows")
		}
		if err := old.Stop(); err != nil {
			t.Fatal(err)
		}
		<-newer.Took
		late := f.StartWorker(&tally{}, worker.Config{Rebase: true})
		more = f.Send(60, 80)
		newer.AwaitEvents(t, more)
		if err := <-late.Ended; err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("a worker of the old program ends with error %v, want one line", err)
		}
		if err := newer.Stop(); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(80, 3)
		if n := f.Records(); n[len(n)-1].Epoch != 1 {
			t.Errorf("the ledger ends in epoch %d, want 1", n[len(n)-1].Epoch)
		}
	})
}

// TestStandbyMeetsEpoch: an operator begins an epoch while a standby of the old terms
// follows. The standby and the owner end with one line each.
func TestStandbyMeetsEpoch(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		events := f.Send(0, 20)
		owner := f.StartWorker(&tally{}, worker.Config{})
		<-owner.Took
		owner.AwaitEvents(t, events)
		standby := f.StartWorker(&tally{}, worker.Config{})
		<-standby.Recovered
		if done, err := f.Rebase(worker.Config{}, ""); err != nil || !done.Began {
			t.Fatalf("rebased as %+v with error %v", done, err)
		}
		if err := <-standby.Ended; err == nil || !strings.Contains(err.Error(), "epoch 1 began at window") || strings.Contains(err.Error(), "\n") {
			t.Errorf("the standby ends with error %v, want one line that names the epoch", err)
		}
		f.Send(20, 30)
		if err := <-owner.Ended; err == nil || !strings.Contains(err.Error(), "taken over") {
			t.Errorf("the owner ends with error %v, want that the graph was taken over", err)
		}
		if err := f.Run(&tally{Salt: "b"}, worker.Config{Terms: replay.Terms{Settings: otherSettings}}); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(30, 2)
	})
}

// TestSameEpochBegunMeanwhile: two workers of the new terms start at once, and the second is
// about to compare these with the ledger's end as the first begins their epoch. The second
// follows it and serves.
func TestSameEpochBegunMeanwhile(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.Send(20, 40)
		begun := false
		second := worker.Config{
			Terms: replay.Terms{
				Settings: otherSettings,
				Program:  "v2",
				Effective: func(written event.Settings) event.Settings {
					if !begun { // it has read the ledger's last record
						begun = true
						if done, err := f.Rebase(worker.Config{}, ""); err != nil || !done.Began {
							t.Errorf("rebased as %+v with error %v", done, err)
						}
					}
					return written
				},
			},
			Rebase: true,
		}
		if err := f.Run(&tally{Salt: "b"}, second); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(40, 2)
		if all := f.Records(); all[len(all)-1].Epoch != 1 {
			t.Errorf("the ledger ends in epoch %d, want 1", all[len(all)-1].Epoch)
		}
	})
}
