package replay_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// shorten leaves of a topic the records that keep says. No broker of the tests can cut a log, so
// the topic is created anew with what is left.
func shorten(f *fixture, topic string, keep func(*kafka.Record) bool) {
	f.T.Helper()
	var left []kafka.Record
	for _, r := range f.Read(topic) {
		if keep(&r) {
			left = append(left, r)
		}
	}
	counts, err := f.Client.Partitions(f.T.Context(), topic)
	if err != nil {
		f.T.Fatal(err)
	}
	f.DeleteTopic(topic)
	f.CreateTopic(topic, counts[topic])
	if len(left) > 0 {
		f.Produce(left...)
	}
}

// ledgerWindow and predictionWindow return the window of a record.
func ledgerWindow(f *fixture, r *kafka.Record) int64 {
	d, err := ledger.Decode(r.Value)
	if err != nil {
		f.T.Fatal(err)
	}
	return d.Window
}

func predictionWindow(f *fixture, r *kafka.Record) int64 {
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil {
		f.T.Fatal(err)
	}
	return p.Window
}

// adopt gives the checkpoints in a directory to the ledger as it is now, as if it had kept its id.
func adopt(f *fixture, dir string) {
	f.T.Helper()
	ids, err := f.Client.TopicIDs(f.T.Context(), f.Names.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	if err := os.Rename(filepath.Dir(f.NewestCheckpoint(dir).Path), checkpoint.Folder(dir, f.Names.Ledger, ids[f.Names.Ledger])); err != nil {
		f.T.Fatal(err)
	}
}

// serve runs a worker until each of the nodes below n is predicted, and checks that each is once.
func serve(f *fixture, cfg worker.Config, n int) {
	f.T.Helper()
	w := f.StartWorker(&tally{}, cfg)
	for f.Count(f.Names.Predictions) < n {
		select {
		case err := <-w.Ended:
			f.T.Fatalf("the worker ended with error %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := w.Stop(); err != nil {
		f.T.Fatal(err)
	}
	checkOnce(f, n)
}

// checkOnce checks that each of the nodes below n is predicted once.
func checkOnce(f *fixture, n int) {
	f.T.Helper()
	f.Fence()
	seen := make(map[event.ID]int)
	for _, r := range f.Read(f.Names.Predictions) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			f.T.Fatal(err)
		}
		seen[p.Node]++
	}
	for i := range n {
		if id := (event.ID{Num: int64(i)}); seen[id] != 1 {
			f.T.Errorf("node %v was predicted %d times", id, seen[id])
		}
	}
	if len(seen) != n {
		f.T.Errorf("%d nodes are predicted, want %d", len(seen), n)
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
	} {
		t.Run(c.name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, f *fixture) {
				dir := t.TempDir()
				kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
				f.Send(0, 60)
				if err := f.Run(&tally{}, kept); err != nil {
					t.Fatal(err)
				}
				first := len(f.Records())
				f.Send(60, 120)
				second := kept
				if !c.late {
					second = worker.Config{}
				}
				if err := f.Run(&tally{}, second); err != nil {
					t.Fatal(err)
				}
				had := int64(len(f.Records()))
				end := (int64(first) + had) / 2 // windows that are left
				shorten(f, f.Names.Ledger, func(r *kafka.Record) bool { return ledgerWindow(f, r) < end })
				lost := 0
				for _, r := range f.Read(f.Names.Predictions) {
					if predictionWindow(f, &r) >= end {
						lost++
					}
				}
				if c.forgetful {
					shorten(f, f.Names.Predictions, func(r *kafka.Record) bool { return predictionWindow(f, r) < end })
				}
				adopt(f, dir)
				if !c.checkpoint {
					kept.Checkpoints.Dir = t.TempDir()
				}
				before, letters := f.Count(f.Names.Predictions), f.Count(f.Names.DeadLetters)

				workertest.CheckLine(t, "a worker", f.Run(&tally{}, kept), append(c.want, f.Names.Ledger, "lost", "restore it", "gvbll rebase --accept-gap")...)
				other := kept
				other.Terms.Settings = otherSettings
				_, err := worker.Rebase(t.Context(), f.Client, &tally{Salt: "b"}, f.Config(other), "")
				workertest.CheckLine(t, "a rebase without a word of the gap", err, "gvbll rebase --accept-gap")
				if n := f.Count(f.Names.Predictions); n != before {
					t.Fatalf("%d predictions after what was refused, want %d", n, before)
				}

				done, err := worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(kept), "")
				if err != nil || !done.Began || done.Epoch != 1 {
					t.Fatalf("accepted as %+v with error %v, want epoch 1", done, err)
				}
				if c.late && (done.Checkpoint != had || done.Window != had || done.Windows != had-end) {
					t.Errorf("accepted as %+v, want the state of window %d, and windows %d to %d lost", done, had, end, had-1)
				}
				if !c.late && (done.Window != had || done.Windows != had-end) {
					t.Errorf("accepted as %+v, want windows %d to %d lost", done, end, had-1)
				}
				if n := f.Count(f.Names.Predictions); n != before {
					t.Errorf("%d predictions after the gap was accepted, want the %d of before", n, before)
				}
				if c.forgetful {
					// The state has them: they are in no topic, and are not published again.
					w := f.StartWorker(&tally{}, kept)
					w.AwaitEvents(t, f.Send(120, 150))
					if err := w.Stop(); err != nil {
						t.Fatal(err)
					}
					f.Fence()
					if n := f.Count(f.Names.Predictions); n != 150-lost {
						t.Errorf("%d predictions, want those of the %d nodes that are there or came", n, 150-lost)
					}
					return
				}
				f.Send(120, 150)
				serve(f, kept, 150)
				if n := f.Count(f.Names.Predictions); n != before+30 {
					t.Errorf("%d predictions, want %d", n, before+30)
				}
				if n := f.Count(f.Names.DeadLetters); n != letters+1 {
					t.Errorf("%d dead letters, want %d", n, letters+1)
				}
				if done.Windows > 0 {
					workertest.CheckLine(t, "a start without a checkpoint", f.Run(&tally{}, worker.Config{}), "epoch 1 begins at window", "behind a gap", "windows ", "of the ledger")
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
		f = f.WithDialTimeout(3 * time.Second)
		dir := t.TempDir()
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
		owner := f.StartWorker(&tally{}, worker.Config{})
		<-owner.Took
		standby := f.StartWorker(&tally{}, kept)
		<-standby.Recovered
		n := f.Send(0, 60)
		owner.AwaitEvents(t, n)
		standby.AwaitEvents(t, n)
		had := int64(len(f.Records()))
		shorten(f, f.Names.Ledger, func(r *kafka.Record) bool { return ledgerWindow(f, r) < had-3 })
		f.Send(60, 70)
		workertest.CheckLine(t, "the owner", <-owner.Ended, "lost windows", "gvbll rebase --accept-gap")
		workertest.CheckLine(t, "the standby", <-standby.Ended, "lost windows", "gvbll rebase --accept-gap")
		if n := int64(len(f.Records())); n != had-3 {
			t.Errorf("the ledger has %d windows, want the %d that were left", n, had-3)
		}
		if n := f.NewestCheckpoint(dir).Window; n != had {
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
				kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
				f.Send(0, 40)
				if err := f.Run(&tally{}, kept); err != nil {
					t.Fatal(err)
				}
				second := kept
				if !c.checkpoint {
					second = worker.Config{}
				}
				f.Send(40, 80)
				if err := f.Run(&tally{}, second); err != nil {
					t.Fatal(err)
				}
				had := f.Consumed()
				nodes0, labels1 := kafka.TopicPartition{Topic: f.Names.Nodes}, kafka.TopicPartition{Topic: f.Names.Labels, Partition: 1}
				for _, at := range []kafka.TopicPartition{nodes0, labels1} {
					shorten(f, at.Topic, func(r *kafka.Record) bool { return r.Partition != at.Partition || r.Offset < had[at]-3 })
				}
				if c.more > 0 {
					f.Send(80, 80+c.more)
				}
				// Where the log is as long as it was, a reader finds out that it has other records.
				impatient := f.WithDialTimeout(3 * time.Second)
				w := impatient.StartWorker(&tally{}, kept)
				workertest.CheckLine(t, "a worker", <-w.Ended, " partition ", "restore the topic", "gvbll rebase --accept-gap")
				done, err := worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(kept), "")
				if err != nil || !done.Began || len(done.Tail) != 2 || len(done.Front) != 0 || done.Windows != 0 {
					t.Fatalf("accepted as %+v with error %v, want an epoch behind two ends of logs", done, err)
				}
				for i, at := range []kafka.TopicPartition{nodes0, labels1} {
					if g := done.Tail[i]; g.Topic != at.Topic || g.Partition != at.Partition || g.To != had[at] || g.From > had[at]-3 {
						t.Errorf("accepted the end %v, want what begins at or before %d and ends at %d", g, had[at]-3, had[at])
					}
				}
				behind := f.NewestCheckpoint(dir).Path
				f.Send(80+c.more, 100+c.more)
				serve(f, kept, 100+c.more)
				restore := f.Config(worker.Config{Checkpoints: replay.Checkpoints{Restore: workertest.ReadTally}})
				if _, err := audit.Run(t.Context(), f.Client, nil, restore.Replay(), audit.From{Checkpoint: behind}, nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestOlderVolume: ledger, predictions and group offsets all came back older, and a checkpoint is not. Neither a worker nor accept-gap
// goes on from that, whose nodes would never be predicted; without it, the next start predicts all that is there once.
func TestOlderVolume(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		dir, group := t.TempDir(), f.Names.Ledger
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
		f.Send(0, 60)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		end, late := int64(len(f.Records())), f.NewestCheckpoint(dir).Path
		offsets, err := f.Client.Committed(t.Context(), group, f.Names.Nodes, f.Names.Labels, f.Names.Commands)
		if err != nil {
			t.Fatal(err)
		}
		f.Send(60, 120)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		f.Fence()
		shorten(f, f.Names.Ledger, func(r *kafka.Record) bool { return ledgerWindow(f, r) < end })
		shorten(f, f.Names.Predictions, func(r *kafka.Record) bool { return predictionWindow(f, r) < end })
		commit(f, group, offsets)
		adopt(f, dir)
		want := []string{"nodes of the checkpoint have no prediction", "move checkpoints beyond window"}
		workertest.CheckLine(t, "a worker", f.Run(&tally{}, kept), want...)
		_, err = worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(kept), "")
		workertest.CheckLine(t, "accept-gap", err, want...)

		if f.NewestCheckpoint(dir).Path == late {
			t.Fatal("there is no checkpoint beyond the end")
		}
		serve(f, worker.Config{}, 120) // the topic that is left has other offsets than the older checkpoint
	})
}

// TestGroupOffsetsThatWereReset: an operator sets the group's offsets to the inputs' ends, and back to their beginning. The ledger is
// believed: every node is predicted once, and the offsets are right again.
func TestGroupOffsetsThatWereReset(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 60)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		for round, offset := range []func(kafka.Bounds) int64{
			func(b kafka.Bounds) int64 { return b.End }, func(b kafka.Bounds) int64 { return b.First },
		} {
			f.Send(60+30*round, 90+30*round)
			bounds, err := f.Client.Offsets(t.Context(), f.Names.Nodes, f.Names.Labels, f.Names.Commands)
			if err != nil {
				t.Fatal(err)
			}
			set := make(map[kafka.TopicPartition]int64)
			for at, b := range bounds {
				set[at] = offset(b)
			}
			f.Fence()
			commit(f, f.Names.Ledger, set)
			if err := f.Run(&tally{}, worker.Config{}); err != nil {
				t.Fatal(err)
			}
			committed, err := f.Client.Committed(t.Context(), f.Names.Ledger, f.Names.Nodes)
			if err != nil {
				t.Fatal(err)
			}
			for at, offset := range f.Consumed() {
				if at.Topic == f.Names.Nodes && committed[at] != offset {
					t.Errorf("the offset of %v is %d, want %d", at, committed[at], offset)
				}
			}
		}
		checkOnce(f, 120)
	})
}

// commit sets the offsets of a group, as an operator does.
func commit(f *fixture, group string, offsets map[kafka.TopicPartition]int64) {
	f.T.Helper()
	all := make(map[string][]kafkago.OffsetCommit)
	for at, offset := range offsets {
		all[at.Topic] = append(all[at.Topic], kafkago.OffsetCommit{Partition: int(at.Partition), Offset: offset})
	}
	res, err := f.Admin().OffsetCommit(f.T.Context(), &kafkago.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: all})
	if err != nil {
		f.T.Fatal(err)
	}
	for _, topic := range res.Topics {
		for _, p := range topic {
			if p.Error != nil {
				f.T.Fatal(p.Error)
			}
		}
	}
}
