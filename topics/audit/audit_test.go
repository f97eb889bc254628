package audit_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestAudit: an audit confirms all records that several workers published one after the
// other, in one encoding or the other, and counts them, though partitions were added to the outputs
// in between. Every record names its encoding.
func TestAudit(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		for part, output := range []wire.Encoding{wire.MsgPack, wire.JSON, ""} {
			f.Send(50*part, 50*(part+1))
			if part > 0 {
				f.AddPartitions(f.Names.Predictions, 3+part)
				f.AddPartitions(f.Names.DeadLetters, 1+part)
				f.Client = workertest.Dial(t, f.On, kafka.Config{}) // which has not asked for them before
			}
			if err := f.Run(&tally{}, worker.Config{Publishing: publish.Config{Output: output}}); err != nil {
				t.Fatal(err)
			}
			f.Fence()
			got, err := f.Audit(&tally{}, worker.Config{})
			if err != nil {
				t.Fatal(err)
			}
			// An operator's note that a dead letter's record was sent again is not compared.
			f.Produce(kafka.Record{Topic: f.Names.DeadLetters, Value: wire.AppendDeadLetter(nil, &event.Refusal{Reason: wire.Resent, Origin: &event.Origin{Topic: f.Names.Nodes}})})
			if want := int64(50 * (part + 1)); got.Predictions != want || got.DeadLetters != int64(part+1) || got.Windows == 0 || got.Chain == "" {
				t.Errorf("part %d: audited %+v, want %d predictions and %d dead letters", part, got, want, part+1)
			}
		}
		count := make(map[wire.Encoding]int)
		for _, topic := range []string{f.Names.Predictions, f.Names.DeadLetters, f.Names.Ledger} {
			if err := f.Client.ReadAll(t.Context(), topic, func(r *kafka.Record) {
				encoding := wire.EncodingOf(r.Value)
				if len(r.Headers) == 1 && r.Headers[0].Key == wire.ContentType && string(r.Headers[0].Value) == string(encoding) {
					if topic != f.Names.Ledger {
						count[encoding]++
					}
				} else if topic != f.Names.DeadLetters || len(r.Headers) > 0 { // the notes of this test have none
					t.Errorf("%s offset %d, of %s, has the headers %q", topic, r.Offset, encoding, r.Headers)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		if count[wire.JSON] != 53 || count[wire.MsgPack] != 100 {
			t.Errorf("published %v records, want 50 predictions and 3 dead letters in JSON, and 100 predictions in msgpack", count)
		}
	})
}

// TestAuditFromCheckpoint: an audit that begins at a checkpoint compares the records after
// it, and only these, but compares them just as strictly.
func TestAuditFromCheckpoint(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		dir := t.TempDir()
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
		f.Send(0, 50)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		list, err := checkpoint.Find(dir, f.Names.Ledger)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d checkpoints (error %v), want 1", len(list), err)
		}
		f.Send(50, 120)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.Fence()
		cfg := f.Config(kept)
		got, err := audit.Run(t.Context(), f.Client, &tally{}, cfg.Replay(), audit.From{Checkpoint: list[0].Path}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.First != list[0].Window || got.Windows <= got.First || got.Predictions != 70 || got.DeadLetters != 1 {
			t.Errorf("audited %+v, want 70 predictions and 1 dead letter from window %d on", got, list[0].Window)
		}
		cfg.Checkpoints.Restore = func(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
			e, meta, err := workertest.ReadTally(r, size, folder)
			return restoredAltering{e.(*tally), &altering{e, 60}}, meta, err
		}
		if _, err := audit.Run(t.Context(), f.Client, &tally{}, cfg.Replay(), audit.From{Checkpoint: list[0].Path}, nil); err == nil || !strings.Contains(err.Error(), "not what window") {
			t.Errorf("one confidence differs: error %v, want one that names the record", err)
		}
	})
}

// restoredAltering is an altering engine in the form that Checkpoints.Restore returns.
type restoredAltering struct {
	*tally
	altering *altering
}

func (e restoredAltering) Step(w *event.Window) *event.Outcome { return e.altering.Step(w) }

// TestAuditNamesDifference: the error of an audit names the first difference, be it an
// engine with other hashes, one prediction with another confidence, or a published
// prediction that is of no window.
func TestAuditNamesDifference(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 40)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.Fence()
		if _, err := f.Audit(&otherChain{&tally{}}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "window 0: replay gives") {
			t.Errorf("an engine with other hashes: error %v, want one that names window 0", err)
		}
		if _, err := f.Audit(&altering{&tally{}, 20}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "not what window") {
			t.Errorf("one confidence differs: error %v, want one that names the record", err)
		}

		id := event.ID{Num: 7}
		key := wire.AppendKey(nil, id)
		forged := wire.MsgPack.AppendPrediction(nil, &event.Prediction{Node: id, Class: "a", Probabilities: []float32{1, 0}, Window: 2})
		f.Produce(kafka.Record{Topic: f.Names.Predictions, Partition: kafka.PartitionFor(key, 3), Key: key, Value: forged})
		if _, err := f.Audit(&tally{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "not of any window in the ledger") {
			t.Errorf("a forged prediction: error %v, want one that says that no window has it", err)
		}
	})
}

// otherChain is an engine with the same predictions and other hashes.
type otherChain struct{ replay.Engine }

func (e *otherChain) Step(w *event.Window) *event.Outcome {
	out := e.Engine.Step(w)
	out.Chain[0]++
	return out
}

// altering is an engine that alters the confidence of one prediction, but not the chain, so
// that only comparing the published bytes shows the difference.
type altering struct {
	replay.Engine
	left int // predictions before that one
}

func (e *altering) Step(w *event.Window) *event.Outcome {
	out := e.Engine.Step(w)
	if e.left >= 0 && e.left < len(out.Predictions) {
		out.Predictions[e.left].Confidence += 0.125
	}
	e.left -= len(out.Predictions)
	return out
}
