package worker_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// shorten leaves of a topic the records that keep says. No broker of the tests can cut a log, so
// the topic is created anew with what is left.
func (f *fixture) shorten(topic string, keep func(*kafka.Record) bool) {
	f.t.Helper()
	var left []kafka.Record
	for _, r := range f.read(topic) {
		if keep(&r) {
			left = append(left, r)
		}
	}
	counts, err := f.client.Partitions(f.t.Context(), topic)
	if err != nil {
		f.t.Fatal(err)
	}
	f.deleteTopic(topic)
	f.createTopic(topic, counts[topic])
	if len(left) > 0 {
		f.produce(left...)
	}
}

// ledgerWindow and predictionWindow return the window of a record.
func (f *fixture) ledgerWindow(r *kafka.Record) int64 {
	d, err := ledger.Decode(r.Value)
	if err != nil {
		f.t.Fatal(err)
	}
	return d.Window
}

func (f *fixture) predictionWindow(r *kafka.Record) int64 {
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil {
		f.t.Fatal(err)
	}
	return p.Window
}

// adopt gives the checkpoints in a directory to the ledger as it is now, as if it had kept its id.
func (f *fixture) adopt(dir string) {
	f.t.Helper()
	ids, err := f.client.TopicIDs(f.t.Context(), f.names.Ledger)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(filepath.Dir(f.newestCheckpoint(dir).Path), checkpoint.Folder(dir, f.names.Ledger, ids[f.names.Ledger])); err != nil {
		f.t.Fatal(err)
	}
}

// serve runs a worker until each of the nodes below n is predicted, and checks that each is once.
func (f *fixture) serve(cfg worker.Config, n int) {
	f.t.Helper()
	w := f.startWorker(&tally{}, cfg)
	for f.count(f.names.Predictions) < n {
		select {
		case err := <-w.ended:
			f.t.Fatalf("the worker ended with error %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := w.stop(); err != nil {
		f.t.Fatal(err)
	}
	f.checkOnce(n)
}

// checkOnce checks that each of the nodes below n is predicted once.
func (f *fixture) checkOnce(n int) {
	f.t.Helper()
	f.fence()
	seen := make(map[event.ID]int)
	for _, r := range f.read(f.names.Predictions) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			f.t.Fatal(err)
		}
		seen[p.Node]++
	}
	for i := range n {
		if id := (event.ID{Num: int64(i)}); seen[id] != 1 {
			f.t.Errorf("node %v was predicted %d times", id, seen[id])
		}
	}
	if len(seen) != n {
		f.t.Errorf("%d nodes are predicted, want %d", len(seen), n)
	}
}

// TestShortLedger is the story of a ledger that lost its newest windows. No worker goes on from what
// is left, which would predict nodes twice. An operator accepts the gap, and the graph goes on from
// the checkpoint that has most windows, or from the ledger's end, with what the lost windows
// published. Whatever shows the loss, each node is predicted once.
func TestShortLedger(t *testing.T) {
	for _, c := range []struct {
		name       string
		late       bool // there is a checkpoint past the ledger's end
		forgetful  bool // the predictions lost their newest records too
		checkpoint bool // there is one, before the loss
		want       []string
	}{
		{"a checkpoint past the end", true, false, true, []string{"a checkpoint of its first"}},
		{"a checkpoint past the end, and no later predictions", true, true, true, []string{"a checkpoint of its first"}},
		{"later predictions", false, false, true, []string{"predictions of window", "offsets up to which group"}},
		{"later predictions, and no checkpoint", false, false, false, []string{"predictions of window"}},
		{"offsets of the group alone", false, true, true, []string{"offsets up to which group"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, f *fixture) {
				dir := t.TempDir()
				kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
				f.send(0, 60)
				if err := f.run(&tally{}, kept); err != nil {
					t.Fatal(err)
				}
				first := len(f.records())
				f.send(60, 120)
				second := kept
				if !c.late {
					second = worker.Config{}
				}
				if err := f.run(&tally{}, second); err != nil {
					t.Fatal(err)
				}
				had := int64(len(f.records()))
				end := (int64(first) + had) / 2 // windows that are left
				f.shorten(f.names.Ledger, func(r *kafka.Record) bool { return f.ledgerWindow(r) < end })
				lost := 0
				for _, r := range f.read(f.names.Predictions) {
					if f.predictionWindow(&r) >= end {
						lost++
					}
				}
				if c.forgetful {
					f.shorten(f.names.Predictions, func(r *kafka.Record) bool { return f.predictionWindow(r) < end })
				}
				f.adopt(dir)
				if !c.checkpoint {
					kept.Checkpoints.Dir = t.TempDir()
				}
				before, letters := f.count(f.names.Predictions), f.count(f.names.DeadLetters)

				checkLine(t, "a worker", f.run(&tally{}, kept), append(c.want, f.names.Ledger, "lost", "restore it", "gvbll rebase --accept-gap")...)
				other := kept
				other.Terms.Settings = otherSettings
				_, err := worker.Rebase(t.Context(), f.client, &tally{salt: "b"}, f.config(other), "")
				checkLine(t, "a rebase without a word of the gap", err, "gvbll rebase --accept-gap")
				if n := f.count(f.names.Predictions); n != before {
					t.Fatalf("%d predictions after what was refused, want %d", n, before)
				}

				done, err := worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(kept), "")
				if err != nil || !done.Began || done.Epoch != 1 {
					t.Fatalf("accepted as %+v with error %v, want epoch 1", done, err)
				}
				if c.late && (done.Checkpoint != had || done.Window != had || done.Windows != had-end) {
					t.Errorf("accepted as %+v, want the state of window %d, and windows %d to %d lost", done, had, end, had-1)
				}
				if !c.late && !c.forgetful && (done.Window != had || done.Windows != had-end) {
					t.Errorf("accepted as %+v, want windows %d to %d lost", done, end, had-1)
				}
				if n := f.count(f.names.Predictions); n != before {
					t.Errorf("%d predictions after the gap was accepted, want the %d of before", n, before)
				}
				again := 0 // nodes of which no prediction is left and no state has them
				if c.forgetful && !c.late {
					again = lost
				}
				if c.forgetful && c.late {
					// The state has them: they are in no topic, and are not published again.
					w := f.startWorker(&tally{}, kept)
					w.awaitEvents(t, f.send(120, 150))
					if err := w.stop(); err != nil {
						t.Fatal(err)
					}
					f.fence()
					if n := f.count(f.names.Predictions); n != 150-lost {
						t.Errorf("%d predictions, want those of the %d nodes that are there or came", n, 150-lost)
					}
					return
				}
				f.send(120, 150)
				f.serve(kept, 150)
				if n := f.count(f.names.Predictions); n != before+30+again {
					t.Errorf("%d predictions, want %d", n, before+30+again)
				}
				if n := f.count(f.names.DeadLetters); n != letters+1 {
					t.Errorf("%d dead letters, want %d", n, letters+1)
				}
				if done.Windows > 0 {
					checkLine(t, "a start without a checkpoint", f.run(&tally{}, worker.Config{}), "epoch 1 begins at window", "behind a gap", "windows ", "of the ledger")
				}
			})
		})
	}
}

// TestShortLedgerBesideOwner: the ledger loses its newest windows while a worker owns the graph, and
// another stands by. The owner writes nothing behind the hole: it ends, and names the windows.
// The standby, whose state has them, writes a checkpoint at its end.
func TestShortLedgerBesideOwner(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f = f.withDialTimeout(3 * time.Second)
		dir := t.TempDir()
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
		owner := f.startWorker(&tally{}, worker.Config{})
		<-owner.took
		standby := f.startWorker(&tally{}, kept)
		<-standby.recovered
		n := f.send(0, 60)
		owner.awaitEvents(t, n)
		standby.awaitEvents(t, n)
		had := int64(len(f.records()))
		f.shorten(f.names.Ledger, func(r *kafka.Record) bool { return f.ledgerWindow(r) < had-3 })
		f.send(60, 70)
		checkLine(t, "the owner", <-owner.ended, "lost windows", "gvbll rebase --accept-gap")
		checkLine(t, "the standby", <-standby.ended, "lost windows", "gvbll rebase --accept-gap")
		if n := int64(len(f.records())); n != had-3 {
			t.Errorf("the ledger has %d windows, want the %d that were left", n, had-3)
		}
		if n := f.newestCheckpoint(dir).Window; n != had {
			t.Errorf("the newest checkpoint is before window %d, want %d", n, had)
		}
	})
}

// TestInputsLostTheirEnds: inputs lose their newest records, which a checkpoint has, and producers
// have written others in their place, or not yet. The worker stops. With the gap accepted, what is
// new is predicted, and what was predicted is not once more, though the topic has lost it.
func TestInputsLostTheirEnds(t *testing.T) {
	for _, c := range []struct {
		name       string
		more       int  // nodes that come before the gap is accepted
		checkpoint bool // one has all of what is gone; else the ledger has windows behind it
	}{
		{"and got no others", 0, true},
		{"and got some others", 10, true},
		{"and got more than they had", 90, true},
		{"behind a checkpoint", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, f *fixture) {
				dir := t.TempDir()
				kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
				f.send(0, 40)
				if err := f.run(&tally{}, kept); err != nil {
					t.Fatal(err)
				}
				second := kept
				if !c.checkpoint {
					second = worker.Config{}
				}
				f.send(40, 80)
				if err := f.run(&tally{}, second); err != nil {
					t.Fatal(err)
				}
				had := f.consumed()
				nodes0, labels1 := kafka.TopicPartition{Topic: f.names.Nodes}, kafka.TopicPartition{Topic: f.names.Labels, Partition: 1}
				for _, at := range []kafka.TopicPartition{nodes0, labels1} {
					f.shorten(at.Topic, func(r *kafka.Record) bool { return r.Partition != at.Partition || r.Offset < had[at]-3 })
				}
				if c.more > 0 {
					f.send(80, 80+c.more)
				}
				// Where the log is as long as it was, a reader finds out that it has other records.
				impatient := f.withDialTimeout(3 * time.Second)
				w := impatient.startWorker(&tally{}, kept)
				checkLine(t, "a worker", <-w.ended, " partition ", "restore the topic", "gvbll rebase --accept-gap")
				done, err := worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(kept), "")
				if err != nil || !done.Began || len(done.Tail) != 2 || len(done.Front) != 0 || done.Windows != 0 {
					t.Fatalf("accepted as %+v with error %v, want an epoch behind two ends of logs", done, err)
				}
				for i, at := range []kafka.TopicPartition{nodes0, labels1} {
					if g := done.Tail[i]; g.Topic != at.Topic || g.Partition != at.Partition || g.To != had[at] || g.From > had[at]-3 {
						t.Errorf("accepted the end %v, want what begins at or before %d and ends at %d", g, had[at]-3, had[at])
					}
				}
				behind := f.newestCheckpoint(dir).Path
				f.send(80+c.more, 100+c.more)
				f.serve(kept, 100+c.more)
				restore := f.config(worker.Config{Checkpoints: replay.Checkpoints{Restore: readTally}})
				if _, err := audit.Run(t.Context(), f.client, nil, restore.Replay(), audit.From{Checkpoint: behind}, nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
