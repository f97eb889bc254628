package ledger_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestRestored is the story of a mirror. The producer of the inputs used transactions, so there are markers and aborted records
// between its records. Everything is lost but a copy that a plain consumer and producer has made, in which records follow
// each other. No worker goes on from that until an operator says that it is a copy; then one does, from the checkpoints of
// before and from the beginning, and an audit proves every byte. So it is once more with a copy of the copy.
func TestRestored(t *testing.T) {
	for name, policy := range map[string]intake.Policy{
		"by count": nil,
		"by time":  intake.EventTime{Width: 20 * time.Millisecond, Lateness: 100 * time.Millisecond, Idle: time.Hour}, // which leaves records between others
	} {
		t.Run(name, func(t *testing.T) {
			workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
				cfg := worker.Config{Policy: policy, Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: workertest.ReadTally}}
				letters, sent, open := 0, 0, 0
				if policy != nil {
					open = 40 // of windows that have not ended
				}
				run := func(n int) {
					t.Helper()
					inTransactions(f, sent, sent+n)
					sent, letters = sent+n, letters+1
					serve(f, cfg, 2*sent+letters-open)
				}
				run(60)
				older := f.Copied(cfg.Checkpoints.Dir)
				run(40)
				before := f.Records()

				for epoch := int64(1); epoch <= 2; epoch++ {
					mirror(f, nil)
					bare := cfg
					bare.Checkpoints.Dir = t.TempDir()
					if epoch == 1 {
						ended := bare
						ended.Session = workertest.Session
						if err := worker.Run(t.Context(), f.WithDialTimeout(time.Second).Client, &workertest.Tally{}, f.Config(ended)); err == nil {
							t.Fatal("a worker serves from a copy with other offsets")
						}
					}
					from := cfg
					from.Checkpoints.Dir = f.Copied(older)
					if epoch == 2 {
						from.Checkpoints.Dir = t.TempDir() // from the beginning
					}
					done, err := worker.Restored(t.Context(), f.Client, &workertest.Tally{}, f.Config(from), "")
					if err != nil || !done.Began || done.Epoch != epoch || (done.Checkpoint > 0) != (epoch == 1) {
						t.Fatalf("restored as %+v with error %v, want epoch %d, the first from a checkpoint of before", done, err, epoch)
					}
					if done, err := worker.Restored(t.Context(), f.Client, &workertest.Tally{}, f.Config(from), ""); err != nil || done.Began {
						t.Errorf("restored once more as %+v with error %v, want nothing to do", done, err)
					}
					if a, err := f.Audit(&workertest.Tally{}, worker.Config{}); err != nil || a.Windows != done.Window+1 {
						t.Fatalf("the audit gives %+v and %v, want %d windows", a, err, done.Window+1)
					}
					run(30)
					if a, err := f.Audit(&workertest.Tally{}, worker.Config{}); err != nil {
						t.Fatalf("the audit of what was served since gives %+v and %v", a, err)
					}
				}
				if now := f.Records(); now[len(before)-1].Chain != before[len(before)-1].Chain {
					t.Error("the ledger is not the one that was copied")
				}
				if policy == nil {
					f.CheckOutputs(sent, letters)
				}

				// A copy that has a record twice, or lacks one, is refused.
				var whole []kafka.Record
				mirror(f, func(records []kafka.Record) []kafka.Record {
					whole = slices.Clone(records)
					return slices.Insert(records, 5, records[4])
				})
				_, err := worker.Restored(t.Context(), f.Client, &workertest.Tally{}, f.Config(cfg), "")
				workertest.CheckLine(t, "a copy with a record twice", err, f.Names.Labels, "has some twice")
				mirror(f, func([]kafka.Record) []kafka.Record { return whole[:len(whole)/2] })
				_, err = worker.Restored(t.Context(), f.Client, &workertest.Tally{}, f.Config(cfg), "")
				workertest.CheckLine(t, "a copy that ends early", err, "does not have the records", "copy the topic whole")
			})
		})
	}
}

// inTransactions sends nodes and a label for each, whose times are out of order, and a record that cannot be decoded, in transactions
// of five records. Before every fourth there is one that is aborted.
func inTransactions(f *workertest.Fixture, first, last int) {
	f.T.Helper()
	var records []kafka.Record
	for i := first; i < last; i++ {
		id, at := event.ID{Num: int64(i)}, int64(1_700_000_000_000+10*(i^7))
		key, part := wire.AppendKey(nil, id), int32(i%3)
		node, label := event.Node{ID: id, Dense: []float32{1, 2}, Time: at}, event.Label{Node: id, Class: "a", Time: at}
		records = append(records,
			kafka.Record{Topic: f.Names.Nodes, Partition: part, Key: key, Value: wire.AppendNode(nil, &node), Time: time.UnixMilli(at)},
			kafka.Record{Topic: f.Names.Labels, Partition: part, Key: key, Value: wire.AppendLabel(nil, &label), Time: time.UnixMilli(at)})
	}
	records = append(records, kafka.Record{Topic: f.Names.Nodes, Value: []byte{0xc1}, Time: time.Now()})
	p, err := f.Client.NewProducer(f.T.Context(), kafka.ProducerConfig{TransactionalID: "inputs"})
	if err != nil {
		f.T.Fatal(err)
	}
	for i, part := range slices.Collect(slices.Chunk(records, 5)) {
		if i%4 == 3 {
			aborted := p.NewBatch()
			if err := errors.Join(aborted.Add(&part[0]), p.Produce(f.T.Context(), aborted), p.Restart(f.T.Context())); err != nil {
				f.T.Fatal(err)
			}
		}
		if err := p.Commit(f.T.Context(), part, "", nil); err != nil {
			f.T.Fatal(err)
		}
	}
}

// serve runs a worker until its windows have so many nodes, labels and refused records.
func serve(f *workertest.Fixture, cfg worker.Config, events int) {
	f.T.Helper()
	w := f.StartWorker(&workertest.Tally{}, cfg)
	kafkatest.Await(f.T, "the events are in windows", func() bool {
		select {
		case err := <-w.Ended:
			f.T.Fatalf("the worker ended: %v", err)
		default:
		}
		n := 0
		for _, r := range f.Records() {
			n += r.Predictions + r.Labels + r.Refused
		}
		return n >= events
	})
	if err := w.Stop(); err != nil {
		f.T.Fatal(err)
	}
	f.Fence()
}

// mirror replaces the topics of a graph by copies whose records follow each other. The function changes those of labels.
func mirror(f *workertest.Fixture, change func([]kafka.Record) []kafka.Record) {
	f.T.Helper()
	n := f.Names
	for _, topic := range []string{n.Nodes, n.Labels, n.Commands, n.Predictions, n.DeadLetters, n.Ledger} {
		counts, err := f.Client.Partitions(f.T.Context(), topic)
		if err != nil {
			f.T.Fatal(err)
		}
		records := f.Read(topic)
		if change != nil && topic == n.Labels {
			records = change(records)
		}
		f.DeleteTopic(topic)
		f.CreateTopic(topic, counts[topic])
		f.Produce(records...)
	}
}
