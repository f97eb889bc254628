package worker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// tally is an engine without a model: a prediction's confidence is a function
// of everything stepped so far, so that a window lost, doubled or cut otherwise
// in a replay shows.
type tally struct {
	salt  string
	chain event.Hash
	seen  map[event.ID]bool
}

func (e *tally) Step(w *event.Window) *event.Outcome {
	if e.seen == nil {
		e.seen = make(map[event.ID]bool)
	}
	out := &event.Outcome{Window: w.Number, Refused: w.Refused, Heads: []event.Head{{Name: "tally"}}}
	b := append(e.chain[:], e.salt...)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Number))
	for _, n := range w.Nodes {
		b = append(b, n.ID.String()...)
		if e.seen[n.ID] {
			continue
		}
		e.seen[n.ID] = true
		h := sha256.Sum256(b)
		c := float32(h[0]) / 255
		out.Predictions = append(out.Predictions, event.Prediction{Node: n.ID, Class: "a", Confidence: c, Probabilities: []float32{c, 1 - c}, Window: w.Number})
	}
	for _, l := range w.Labels {
		b = append(b, l.Node.String()+l.Class...)
		out.Labelled = append(out.Labelled, event.Labelled{Node: l.Node})
	}
	e.chain = sha256.Sum256(b)
	out.Chain = e.chain
	return out
}

// settings are a tally's.
const settings ledger.Settings = `{"tally":"none"}`

// session is as short as test brokers allow.
const session = time.Second

// fixture has one graph's topics on one broker.
type fixture struct {
	t      *testing.T
	addr   string
	client *kafka.Client
	names  topics.Names
}

var worlds atomic.Int64

func newFixture(t *testing.T, addr string) *fixture {
	t.Helper()
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	names, err := topics.Under(fmt.Sprintf("worker-test-%d-%d", time.Now().UnixNano(), worlds.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c, names, 3, 1); err != nil {
		t.Fatal(err)
	}
	return &fixture{t, addr, c, names}
}

// impatient returns the same fixture with a client that waits only this long for missing
// topics and offsets.
func (w *fixture) impatient(d time.Duration) *fixture {
	w.t.Helper()
	c, err := kafka.Dial(w.t.Context(), kafka.Config{Brokers: []string{w.addr}, DialFor: d})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return &fixture{w.t, w.addr, c, w.names}
}

// onBrokers runs the test on kfake, and on the Kafka of GVBLL_KAFKA when there
// is one.
func onBrokers(t *testing.T, test func(t *testing.T, w *fixture)) {
	t.Run("kfake", func(t *testing.T) { test(t, newFixture(t, fake(t).ListenAddrs()[0])) })
	if addr := os.Getenv("GVBLL_KAFKA"); addr != "" {
		t.Run("kafka", func(t *testing.T) { test(t, newFixture(t, addr)) })
	}
}

func fake(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(session))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// send produces nodes first..last-1 and a label for each, and bytes that are
// no event.
func (w *fixture) send(first, last int) {
	w.t.Helper()
	p, err := w.client.NewProducer(w.t.Context(), kafka.ProducerConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	var records []kafka.Record
	put := func(topic string, key, value []byte) {
		records = append(records, kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, 3), Key: key, Value: value, Time: time.Now()})
	}
	for i := first; i < last; i++ {
		id := event.ID{Num: int64(i)}
		key := wire.AppendKey(nil, id)
		put(w.names.Nodes, key, wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}}))
		put(w.names.Labels, key, wire.AppendLabel(nil, &event.Label{Node: id, Class: "a"}))
	}
	put(w.names.Nodes, bytes.Repeat([]byte("bad"), 100_000), []byte{0xc1})
	if err := p.Send(w.t.Context(), records); err != nil {
		w.t.Fatal(err)
	}
}

// run works until all of the topics' records are in committed windows, then
// ends the worker.
func (w *fixture) run(e worker.Engine, cfg worker.Config) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if cfg.Policy == nil {
		cfg.Policy = intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}
	}
	cfg.Session = session
	cfg.Names, cfg.Model, cfg.Settings, cfg.Classes = w.names, "tally", settings, []string{"a", "b"}
	want, got := w.count(w.names.Nodes)+w.count(w.names.Labels)+w.count(w.names.Commands), 0
	done := func() {
		if got >= want {
			cancel()
		}
	}
	hooks := worker.Hooks{
		Recovered: func(r worker.Recovered) { got += w.events(r.Checkpoint) },
		TookOver:  func(worker.TookOver) { done() },
		Stepped: func(s worker.Stepped) {
			got += len(s.Outcome.Labelled) + len(s.Outcome.Predictions) + len(s.Outcome.Refused)
		},
		Committed: func(worker.Committed) { done() },
	}
	cfg.Hooks = worker.Join(hooks, cfg.Hooks)
	err := worker.Run(ctx, w.client, e, cfg)
	if err == nil && got < want {
		w.t.Fatalf("the worker ended after %d of %d events", got, want)
	}
	return err
}

// events counts what the ledger has in the windows before the given one.
func (w *fixture) events(before int64) (n int) {
	w.t.Helper()
	l, err := ledger.Open(w.t.Context(), w.client, w.names.Ledger)
	if err != nil {
		w.t.Fatal(err)
	}
	for range before {
		r, err := l.Next(w.t.Context())
		if err != nil || r == nil {
			w.t.Fatalf("the ledger ends before window %d (%v)", before, err)
		}
		n += r.Predictions + r.Labels + r.Refused
	}
	return n
}

// read returns all committed records of a topic.
func (w *fixture) read(topic string) (records []kafka.Record) {
	w.t.Helper()
	bounds, err := w.client.Offsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	start := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		start[at] = b.First
	}
	r := w.client.NewReader(start, kafka.ReaderConfig{})
	for at, b := range bounds {
		for r.Position(at) < b.End {
			got, err := r.Poll(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			records = append(records, got...)
		}
	}
	return records
}

func (w *fixture) count(topic string) int { return len(w.read(topic)) }

// settle waits until the last transaction can be read: Kafka answers the end of
// one before its markers are written, and a new session only after.
func (w *fixture) settle() {
	w.t.Helper()
	if _, err := w.client.NewProducer(w.t.Context(), kafka.ProducerConfig{TransactionalID: w.names.Ledger}); err != nil {
		w.t.Fatal(err)
	}
}

// check holds the outputs to the promise: a prediction for each of n nodes,
// once, and a ledger whose replay gives exactly what was published.
func (w *fixture) check(n, bad int) {
	w.t.Helper()
	w.settle()
	published := make(map[event.ID]event.Prediction)
	for _, r := range w.read(w.names.Predictions) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			w.t.Fatal(err)
		}
		if _, twice := published[p.Node]; twice {
			w.t.Errorf("node %v was predicted twice", p.Node)
		}
		published[p.Node] = p
	}
	if len(published) != n {
		w.t.Errorf("%d nodes predicted, %d came", len(published), n)
	}
	if got := w.count(w.names.DeadLetters); got != bad {
		w.t.Errorf("%d dead letters, want %d", got, bad)
	}
	l, err := ledger.Open(w.t.Context(), w.client, w.names.Ledger)
	if err != nil {
		w.t.Fatal(err)
	}
	total := 0
	for {
		r, err := l.Next(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if r == nil {
			break
		}
		total += r.Predictions
	}
	if total != n {
		w.t.Errorf("the ledger counts %d predictions of %d", total, n)
	}
}

func TestEveryNodeIsPredictedOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 100)
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		w.check(100, 1)
		// A worker that starts again replays and goes on.
		w.send(100, 150)
		recovered := int64(0)
		err := w.run(&tally{}, worker.Config{Hooks: worker.Hooks{Recovered: func(r worker.Recovered) { recovered = r.Windows }}})
		if err != nil {
			t.Fatal(err)
		}
		if recovered == 0 {
			t.Error("nothing was replayed")
		}
		w.check(150, 2)
	})
}

// TestSchedule: however the events come, windows have the sizes listed.
func TestSchedule(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 20)
		var sizes []intake.Size
		schedule := []intake.Size{{Nodes: 8}, {Labels: 3}, {Nodes: 13, Labels: 17}}
		err := w.run(&tally{}, worker.Config{
			Policy: intake.Schedule{Windows: schedule},
			Hooks: worker.Hooks{Stepped: func(s worker.Stepped) {
				sizes = append(sizes, intake.Size{Nodes: len(s.Outcome.Predictions) + len(s.Outcome.Refused), Labels: len(s.Outcome.Labelled)})
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(sizes) != fmt.Sprint(schedule) {
			t.Errorf("windows of %v, want %v", sizes, schedule)
		}
	})
}

func TestLedgerOfAnother(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 10)
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			cfg  worker.Config
			e    *tally
			want string
		}{
			{"model", worker.Config{Names: w.names, Model: "other", Settings: settings}, &tally{}, "belongs to model tally"},
			{"settings", worker.Config{Names: w.names, Model: "tally", Settings: `{"tally":"other","walk":1}`}, &tally{}, "with other settings: tally is none there and other here, walk is not set there and 1 here; start with the ledger's settings"},
			{"program", worker.Config{Names: w.names, Model: "tally", Settings: settings}, &tally{salt: "x"}, "window 0: replay gives"},
		} {
			c.cfg.Policy = intake.CountOrLinger{Count: 1}
			err := worker.Run(t.Context(), w.client, c.e, c.cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("another %s: error %v, want one line with %q", c.name, err, c.want)
			}
		}
	})
}

// TestLedgerHoldsSettings: the first record has them, the others their hash, and they
// are found again behind a checkpoint too.
func TestLedgerHoldsSettings(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 20)
		kept := worker.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: readTally}
		if err := w.run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
			t.Fatal(err)
		}
		w.send(20, 30)
		if err := w.run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
			t.Fatal(err)
		}
		records := w.records()
		if len(records) < 3 {
			t.Fatalf("%d records", len(records))
		}
		for i, r := range records {
			if want := map[bool]ledger.Settings{true: settings}[i == 0]; r.Settings != settings.Hash() || r.Configuration != want {
				t.Errorf("record %d has settings %s and configuration %s", i, r.Settings, r.Configuration)
			}
		}
		found, err := worker.LedgerSettings(t.Context(), w.client, worker.Config{Names: w.names}, nil)
		if err != nil || found != settings {
			t.Errorf("found %s (%v)", found, err)
		}
		err = worker.Run(t.Context(), w.client, &tally{}, worker.Config{
			Names: w.names, Model: "tally", Settings: `{"tally":3}`, Checkpoints: kept, Session: session, Policy: intake.CountOrLinger{Count: 1},
		})
		if err == nil || !strings.Contains(err.Error(), "tally is none there and 3 here") {
			t.Errorf("other settings behind a checkpoint: %v", err)
		}
	})
}

// TestEffectiveSettings: settings that make no difference to a worker's models need
// not be its own. The ledger keeps those that it was begun with.
func TestEffectiveSettings(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 20)
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		w.send(20, 30)
		cfg := worker.Config{
			Names: w.names, Model: "tally", Classes: []string{"a", "b"}, Session: session, Settings: `{"tally":"none","idle":0}`,
			Policy: intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond},
		}
		if err := worker.Run(t.Context(), w.client, &tally{}, cfg); err == nil || !strings.Contains(err.Error(), "idle is not set there and 0 here") {
			t.Errorf("one that makes a difference: %v", err)
		}
		cfg.Effective = func(s ledger.Settings) ledger.Settings { return `{"tally":"none","idle":0}` }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stepped := 0 // by the windows that are replayed, too
		cfg.Hooks.Stepped = func(s worker.Stepped) { stepped += len(s.Outcome.Predictions) }
		cfg.Hooks.Committed = func(worker.Committed) {
			if stepped >= 30 {
				cancel()
			}
		}
		if err := worker.Run(ctx, w.client, &tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		for i, r := range w.records() {
			if r.Settings != settings.Hash() || (r.Configuration != "") != (i == 0) {
				t.Errorf("record %d has settings %s and configuration %s", i, r.Settings, r.Configuration)
			}
		}
	})
}

// TestUnknownOutcome: the answer to EndTxn is lost, before or after the broker
// has acted on it. The worker asks the ledger, and publishes once.
func TestUnknownOutcome(t *testing.T) {
	for _, c := range []struct {
		name string
		code int16
	}{{"a time-out", 7}, {"not committed", 48}} {
		t.Run(c.name, func(t *testing.T) {
			cluster := fake(t)
			w := newFixture(t, cluster.ListenAddrs()[0])
			w.send(0, 50)
			var faults atomic.Int64
			cluster.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				n := faults.Add(1)
				if n%2 == 0 {
					return nil, nil, false
				}
				res := req.ResponseKind().(*kmsg.EndTxnResponse)
				res.ErrorCode = c.code
				return res, nil, true
			})
			if err := w.run(&tally{}, worker.Config{}); err != nil {
				t.Fatal(err)
			}
			if faults.Load() < 2 {
				t.Fatalf("%d faults", faults.Load())
			}
			w.check(50, 1)
		})
	}
}

// boaster serves a class that no record has room for.
type boaster struct{ tally }

func (e *boaster) Step(w *event.Window) *event.Outcome {
	out := e.tally.Step(w)
	for i := range out.Predictions {
		out.Predictions[i].Class = strings.Repeat("x", 1<<20)
	}
	return out
}

// TestTooLarge: what cannot be published ends the worker, and nothing of its
// window is.
func TestTooLarge(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		w.send(0, 20)
		if err := w.run(&boaster{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Fatalf("the worker ended with %v", err)
		}
		if err := w.client.ReadAll(t.Context(), w.names.Predictions, func(r *kafka.Record) {
			t.Errorf("%s was published", r.Key)
		}); err != nil {
			t.Fatal(err)
		}
	})
}
