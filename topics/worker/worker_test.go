package worker_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// tally is an engine without a model. Its chain, and the confidence of each prediction,
// are hashes of everything stepped so far. So a replay that loses a window, repeats one
// or cuts one differently publishes other bytes and another chain.
type tally struct {
	salt  string // engines with different salts give different hashes
	chain event.Hash
	seen  map[event.ID]bool
}

func (e *tally) Err() error { return nil }

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

// settings are the settings that the ledgers of these tests begin with.
const settings event.Settings = `{"tally":"none"}`

// session is the shortest session timeout that the test brokers accept.
const session = time.Second

// fixture is the topics of one graph on a broker.
type fixture struct {
	t      *testing.T
	on     *kafkatest.Kafka
	client *kafka.Client
	names  topics.Names
}

// fixtures counts the fixtures of this process, to give each its own topics.
var fixtures atomic.Int64

// dial returns a client that is closed when the test ends.
func dial(t *testing.T, on *kafkatest.Kafka, cfg kafka.Config) *kafka.Client {
	t.Helper()
	cfg.Brokers, cfg.Dialer = on.Addrs, on.Dial
	c, err := kafka.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newFixture creates the topics of a new graph.
func newFixture(t *testing.T, on *kafkatest.Kafka) *fixture {
	t.Helper()
	c := dial(t, on, kafka.Config{})
	names, err := topics.Under(fmt.Sprintf("worker-test-%d-%d", time.Now().UnixNano(), fixtures.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c, names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
		t.Fatal(err)
	}
	return &fixture{t, on, c, names}
}

// withDialTimeout returns the same fixture with a client that waits at most d for missing
// topics and offsets.
func (f *fixture) withDialTimeout(d time.Duration) *fixture {
	f.t.Helper()
	return &fixture{f.t, f.on, dial(f.t, f.on, kafka.Config{DialFor: d}), f.names}
}

// admin returns kafka-go's client of the brokers.
func (f *fixture) admin() *kafkago.Client {
	transport := &kafkago.Transport{Dial: f.on.Dial}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(f.on.Addrs...), Transport: transport}
}

// oneBroker is a kfake broker that accepts the session timeout of these tests.
var oneBroker = []kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(session)}

// onBrokers runs the test on kfake, or on Apache Kafka.
func onBrokers(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	kafkatest.Run(t, func(t *testing.T, on *kafkatest.Kafka) { test(t, newFixture(t, on)) }, oneBroker...)
}

// onFake runs the test on kfake.
func onFake(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	kafkatest.Fake(t, func(t *testing.T, on *kafkatest.Kafka) { test(t, newFixture(t, on)) }, oneBroker...)
}

// send produces the nodes first to last-1, a label for each, and one record that cannot
// be decoded. It returns the number of records.
func (f *fixture) send(first, last int) (n int) {
	f.t.Helper()
	var records []kafka.Record
	now := time.Now()
	put := func(topic string, key, value []byte) { // a millisecond after the record before
		now = now.Add(time.Millisecond)
		records = append(records, kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, 3), Key: key, Value: value, Time: now})
	}
	for i := first; i < last; i++ {
		id := event.ID{Num: int64(i)}
		key := wire.AppendKey(nil, id)
		put(f.names.Nodes, key, wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}}))
		put(f.names.Labels, key, wire.AppendLabel(nil, &event.Label{Node: id, Class: "a"}))
	}
	put(f.names.Nodes, bytes.Repeat([]byte("bad"), 100_000), []byte{0xc1})
	f.produce(records...)
	return len(records)
}

// produce produces the records.
func (f *fixture) produce(records ...kafka.Record) {
	f.t.Helper()
	p, err := f.client.NewProducer(f.t.Context(), kafka.ProducerConfig{})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.Send(f.t.Context(), records); err != nil {
		f.t.Fatal(err)
	}
}

// config fills in the fields of cfg that are the same for every worker on this fixture,
// and the default policy, model, settings and classes if cfg has none.
func (f *fixture) config(cfg worker.Config) worker.Config {
	if cfg.Policy == nil {
		cfg.Policy = intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}
	}
	cfg.Terms.Names, cfg.Terms.Model, cfg.Terms.Settings = f.names, cmp.Or(cfg.Terms.Model, "tally"), cmp.Or(cfg.Terms.Settings, settings)
	if cfg.Terms.Classes == nil {
		cfg.Terms.Classes = []string{"a", "b"}
	}
	return cfg
}

// inputs returns the number of records in the input topics.
func (f *fixture) inputs() int {
	f.t.Helper()
	return f.count(f.names.Nodes) + f.count(f.names.Labels) + f.count(f.names.Commands)
}

// run runs a worker until the outcomes of committed windows account for every record of
// the input topics, and returns its error. See runUntilConsumed for engines whose
// outcomes do not account for every record.
//
// The ledger can then be read to the last window: a broker answers a commit before its
// markers are in the partitions (KIP-98), and a worker that starts in between sees less.
func (f *fixture) run(e replay.Engine, cfg worker.Config) error {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	cfg = f.config(cfg)
	cfg.Session = session
	want, got, last := f.inputs(), 0, int64(-1)
	done := func() {
		if got >= want {
			cancel()
		}
	}
	hooks := replay.Join(
		replay.On(func(r replay.Recovered) { got += f.events(r.Checkpoint) }),
		replay.On(func(replay.TookOver) { done() }),
		replay.On(func(s replay.Stepped) {
			got += len(s.Outcome.Labelled) + len(s.Outcome.Predictions) + len(s.Outcome.Refused)
		}),
		replay.On(func(c replay.Committed) { last = c.Last; done() }),
	)
	cfg.Events = replay.Join(hooks, cfg.Events)
	err := worker.Run(ctx, f.client, e, cfg)
	for readable := int64(-1); readable < last; {
		r, err := ledger.Newest(f.t.Context(), f.client, f.names.LedgerAt())
		if err != nil {
			f.t.Fatal(err)
		}
		if r != nil {
			readable = r.Window
		}
	}
	if err == nil && got < want {
		f.t.Fatalf("the worker ended after %d events, want %d", got, want)
	}
	return err
}

// events returns the number of events that the ledger counts in the windows before the
// given one.
func (f *fixture) events(before int64) (n int) {
	f.t.Helper()
	records := f.records()
	if int64(len(records)) < before {
		f.t.Fatalf("the ledger has %d windows, want at least %d", len(records), before)
	}
	for _, r := range records[:before] {
		n += r.Predictions + r.Labels + r.Refused
	}
	return n
}

// records returns all committed records of the ledger.
func (f *fixture) records() (records []*ledger.Record) {
	f.t.Helper()
	l, err := ledger.Open(f.t.Context(), f.client, f.names.LedgerAt())
	if err != nil {
		f.t.Fatal(err)
	}
	for {
		r, err := l.Next(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		if r == nil {
			return records
		}
		records = append(records, r)
	}
}

// read returns all committed records of a topic.
func (f *fixture) read(topic string) (records []kafka.Record) {
	f.t.Helper()
	if err := f.client.ReadAll(f.t.Context(), topic, func(r *kafka.Record) { records = append(records, *r) }); err != nil {
		f.t.Fatal(err)
	}
	return records
}

// count returns the number of committed records of a topic.
func (f *fixture) count(topic string) int { return len(f.read(topic)) }

// fence opens a producer session under the worker's transactional id, which fences a
// worker that is still running. It also waits until the last transaction can be read:
// Kafka acknowledges the end of a transaction before it writes the markers, but opens a
// new session only after that.
func (f *fixture) fence() {
	f.t.Helper()
	if _, err := f.client.NewProducer(f.t.Context(), kafka.ProducerConfig{TransactionalID: f.names.Ledger}); err != nil {
		f.t.Fatal(err)
	}
}

// checkOutputs checks that the given number of nodes were predicted, each exactly once, that
// the ledger counts as many predictions, and that there are that many dead letters.
func (f *fixture) checkOutputs(nodes, deadLetters int) {
	f.t.Helper()
	f.fence()
	published := make(map[event.ID]bool)
	for _, r := range f.read(f.names.Predictions) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			f.t.Fatal(err)
		}
		if published[p.Node] {
			f.t.Errorf("node %v was predicted twice", p.Node)
		}
		published[p.Node] = true
	}
	if len(published) != nodes {
		f.t.Errorf("%d nodes were predicted, want %d", len(published), nodes)
	}
	if got := f.count(f.names.DeadLetters); got != deadLetters {
		f.t.Errorf("%d dead letters, want %d", got, deadLetters)
	}
	total := 0
	for _, r := range f.records() {
		total += r.Predictions
	}
	if total != nodes {
		f.t.Errorf("the ledger counts %d predictions, want %d", total, nodes)
	}
}

// TestEveryNodeIsPredictedOnce: a worker predicts every node once and refuses every bad
// record once. A second worker replays the ledger and continues where it ends, so that
// nothing is published twice.
func TestEveryNodeIsPredictedOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 100)
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(100, 1)
		f.send(100, 150)
		recovered := int64(0)
		err := f.run(&tally{}, worker.Config{Events: replay.On(func(r replay.Recovered) { recovered = r.Windows })})
		if err != nil {
			t.Fatal(err)
		}
		if recovered == 0 {
			t.Error("the second worker replayed no windows")
		}
		f.checkOutputs(150, 2)
	})
}

// TestSchedule: under a schedule every window has exactly the listed numbers of nodes and
// labels, whatever the timing of the fetches.
func TestSchedule(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		var sizes []intake.Size
		schedule := []intake.Size{{Nodes: 8}, {Labels: 3}, {Nodes: 13, Labels: 17}}
		err := f.run(&tally{}, worker.Config{
			Policy: intake.Schedule{Windows: schedule},
			Events: replay.On(func(s replay.Stepped) {
				sizes = append(sizes, intake.Size{Nodes: len(s.Outcome.Predictions) + len(s.Outcome.Refused), Labels: len(s.Outcome.Labelled)})
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(sizes) != fmt.Sprint(schedule) {
			t.Errorf("windows of sizes %v, want %v", sizes, schedule)
		}
	})
}

// TestForeignLedger: a worker with another model, other settings or an engine that
// computes other results stops at a ledger with an error of one line that names the
// difference, instead of continuing it.
func TestForeignLedger(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 10)
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			cfg  worker.Config
			e    *tally
			want string
		}{
			{"model", worker.Config{Terms: replay.Terms{Names: f.names, Model: "other", Settings: settings}}, &tally{}, "belongs to model tally"},
			{"settings", worker.Config{Terms: replay.Terms{Names: f.names, Model: "tally", Settings: `{"tally":"other","walk":1}`}}, &tally{}, "with other settings: tally is none there and other here, walk is not set there and 1 here; start with the ledger's settings"},
			{"program", worker.Config{Terms: replay.Terms{Names: f.names, Model: "tally", Settings: settings}}, &tally{salt: "x"}, "window 0: replay gives"},
		} {
			c.cfg.Policy = intake.CountOrLinger{Count: 1}
			err := worker.Run(t.Context(), f.client, c.e, c.cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("another %s: error %v, want one line with %q", c.name, err, c.want)
			}
		}
	})
}

// TestLedgerHoldsSettings: the ledger's first record has the settings and every record
// has their hash. A worker that starts from a checkpoint still compares its settings with
// those of the ledger.
func TestLedgerHoldsSettings(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		kept := replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: readTally}
		if err := f.run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
			t.Fatal(err)
		}
		f.send(20, 30)
		if err := f.run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
			t.Fatal(err)
		}
		records := f.records()
		if len(records) < 3 {
			t.Fatalf("the ledger has %d records, want at least 3", len(records))
		}
		for i, r := range records {
			if want := map[bool]event.Settings{true: settings}[i == 0]; r.Settings != settings.Hash() || r.Configuration != want {
				t.Errorf("record %d: settings %s and configuration %q, want %s and %q", i, r.Settings, r.Configuration, settings.Hash(), want)
			}
		}
		err := worker.Run(t.Context(), f.client, &tally{}, worker.Config{
			Terms: replay.Terms{Names: f.names, Model: "tally", Settings: `{"tally":3}`}, Checkpoints: kept, Session: session, Policy: intake.CountOrLinger{Count: 1},
		})
		if err == nil || !strings.Contains(err.Error(), "tally is none there and 3 here") {
			t.Errorf("other settings after a checkpoint: error %v, want one that names the difference", err)
		}
	})
}

// TestEffectiveSettings: a worker accepts a ledger whose settings differ from its own
// only where Effective says that they have no effect on its models. The records that it
// adds have the hash of the ledger's settings, not of its own.
func TestEffectiveSettings(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.send(20, 30)
		cfg := f.config(worker.Config{Session: session})
		cfg.Terms.Settings = `{"tally":"none","idle":0}`
		if err := worker.Run(t.Context(), f.client, &tally{}, cfg); err == nil || !strings.Contains(err.Error(), "idle is not set there and 0 here") {
			t.Errorf("without Effective: error %v, want one that names the difference", err)
		}
		cfg.Terms.Effective = func(s event.Settings) event.Settings { return `{"tally":"none","idle":0}` }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stepped := 0 // nodes, those of replayed windows included
		cfg.Events = replay.Join(
			replay.On(func(s replay.Stepped) { stepped += len(s.Outcome.Predictions) }),
			replay.On(func(replay.Committed) {
				if stepped >= 30 {
					cancel()
				}
			}),
		)
		if err := worker.Run(ctx, f.client, &tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		for i, r := range f.records() {
			if r.Settings != settings.Hash() || (r.Configuration != "") != (i == 0) {
				t.Errorf("record %d: settings %s and configuration %q, want the hash %s, and the configuration in record 0 only", i, r.Settings, r.Configuration, settings.Hash())
			}
		}
	})
}

// TestUnknownOutcome: the broker answers every second EndTxn with an error that leaves
// the outcome of the transaction unknown. The worker reads the ledger to find it out, and
// publishes everything exactly once.
func TestUnknownOutcome(t *testing.T) {
	for _, c := range []struct {
		name string
		code int16
	}{{"the request timed out", requestTimedOut}, {"the transaction's state is invalid", invalidTxnState}} {
		t.Run(c.name, func(t *testing.T) {
			onFake(t, func(t *testing.T, f *fixture) {
				cluster := f.on.Fake
				f.send(0, 50)
				var requests atomic.Int64
				answerEndTxn(cluster, func() int16 {
					if requests.Add(1)%2 == 0 {
						return 0
					}
					return c.code
				})
				if err := f.run(&tally{}, worker.Config{}); err != nil {
					t.Fatal(err)
				}
				if n := requests.Load(); n < 2 {
					t.Fatalf("%d EndTxn requests, want at least 2", n)
				}
				f.checkOutputs(50, 1)
			})
		})
	}
}

// oversized is a tally whose predictions are too large for any record.
type oversized struct{ tally }

func (e *oversized) Step(w *event.Window) *event.Outcome {
	out := e.tally.Step(w)
	for i := range out.Predictions {
		out.Predictions[i].Class = strings.Repeat("x", 1<<20)
	}
	return out
}

// TestTooLarge: a prediction that is too large for a record ends the worker with an
// error, and nothing of its window is published.
func TestTooLarge(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		if err := f.run(&oversized{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Fatalf("the worker ended with error %v, want one that names the limit", err)
		}
		if err := f.client.ReadAll(t.Context(), f.names.Predictions, func(r *kafka.Record) {
			t.Errorf("the prediction of node %s was published", r.Key)
		}); err != nil {
			t.Fatal(err)
		}
	})
}
