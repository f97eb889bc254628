package worker_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

func (w *fixture) audit(e worker.Engine) (worker.Audited, error) {
	cfg := worker.Config{Names: w.names, Model: "tally", Settings: settings, Classes: []string{"a", "b"}}
	return worker.Audit(w.t.Context(), w.client, e, cfg, "", nil)
}

// TestAudit: what was published agrees, over restarts, and again beside a worker
// that goes on.
func TestAudit(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		for part := range 3 {
			w.send(50*part, 50*(part+1))
			if err := w.run(&tally{}, worker.Config{}); err != nil {
				t.Fatal(err)
			}
			w.settle()
			got, err := w.audit(&tally{})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(50 * (part + 1)); got.Predictions != want || got.DeadLetters != int64(part+1) || got.Windows == 0 || got.Chain == "" {
				t.Errorf("part %d: %+v", part, got)
			}
		}
	})
}

// TestAuditFromCheckpoint: only what came after it is replayed and compared, and
// that all the same.
func TestAuditFromCheckpoint(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		dir := t.TempDir()
		kept := worker.Config{Checkpoints: worker.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
		w.send(0, 50)
		if err := w.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		list, err := checkpoint.List(dir)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		w.send(50, 120)
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		cfg := worker.Config{Names: w.names, Model: "tally", Settings: settings, Classes: []string{"a", "b"}, Checkpoints: kept.Checkpoints}
		got, err := worker.Audit(t.Context(), w.client, &tally{}, cfg, list[0].Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.First != list[0].Window || got.Windows <= got.First || got.Predictions != 70 || got.DeadLetters != 1 {
			t.Errorf("%+v, want 70 predictions and a dead letter from window %d on", got, list[0].Window)
		}
		cfg.Checkpoints.Restore = func(r io.ReaderAt, size int64) (worker.Keeper, map[string]string, error) {
			e, meta, err := readTally(r, size)
			return altered{e.(*tally), &changed{e, 60}}, meta, err
		}
		if _, err := worker.Audit(t.Context(), w.client, &tally{}, cfg, list[0].Path, nil); err == nil || !strings.Contains(err.Error(), "not what window") {
			t.Errorf("another confidence: %v", err)
		}
	})
}

// altered is a changed tally that can be written down.
type altered struct {
	*tally
	changed *changed
}

func (e altered) Step(w *event.Window) *event.Outcome { return e.changed.Step(w) }

// TestAuditNamesWhatDiffers: a prediction that is of no window, one that is not
// what the replay says, one that is missing, and another engine.
func TestAuditNamesWhatDiffers(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 40)
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if _, err := w.audit(&shifted{&tally{}}); err == nil || !strings.Contains(err.Error(), "window 0: replay gives") {
			t.Errorf("another engine: %v", err)
		}
		if _, err := w.audit(&changed{&tally{}, 20}); err == nil || !strings.Contains(err.Error(), "not what window") {
			t.Errorf("another confidence: %v", err)
		}

		id := event.ID{Num: 7}
		p, err := w.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		key := wire.AppendKey(nil, id)
		forged := wire.AppendPrediction(nil, &event.Prediction{Node: id, Class: "a", Probabilities: []float32{1, 0}, Window: 2})
		if err := p.Send(t.Context(), []kafka.Record{{Topic: w.names.Predictions, Partition: kafka.PartitionFor(key, 3), Key: key, Value: forged}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.audit(&tally{}); err == nil || !strings.Contains(err.Error(), "not of any window in the ledger") {
			t.Errorf("a forged prediction: %v", err)
		}
	})
}

// shifted is an engine with other hashes.
type shifted struct{ worker.Engine }

func (e *shifted) Step(w *event.Window) *event.Outcome {
	out := e.Engine.Step(w)
	out.Chain[0]++
	return out
}

// changed says something else of one arrival, and hides it from the chain.
type changed struct {
	worker.Engine
	left int // arrivals before it
}

func (e *changed) Step(w *event.Window) *event.Outcome {
	out := e.Engine.Step(w)
	if e.left >= 0 && e.left < len(out.Predictions) {
		out.Predictions[e.left].Confidence += 0.125
	}
	e.left -= len(out.Predictions)
	return out
}
