// Package workertest has workers of graphs without a model, for the tests of the rooms that a worker
// consists of: topics on a broker, engines whose state is a hash, and what is to be true afterwards.
package workertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// Settings are the settings that the ledgers of these tests begin with.
const Settings event.Settings = `{"tally":"none"}`

// The settings of an old program's tallies, and those of a new one's. New tallies have the
// salt "b", so that they give other hashes.
const (
	OldSettings   event.Settings = `{"engine":1,"tally":"none"}`
	OtherSettings event.Settings = `{"engine":2,"tally":"b"}`
)

// Session is the shortest session timeout that the test brokers accept.
const Session = time.Second

// Fixture is the topics of one graph on a broker.
type Fixture struct {
	T      *testing.T
	On     *kafkatest.Kafka
	Client *kafka.Client
	Names  topics.Names
}

// fixtures counts the fixtures of this process, to give each its own topics.
var fixtures atomic.Int64

// OneBroker is a kfake broker that accepts the session timeout of these tests.
var OneBroker = []kfake.Opt{kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(Session)}

// OnBrokers runs the test on kfake, or on Apache Kafka.
func OnBrokers(t *testing.T, test func(t *testing.T, f *Fixture)) {
	t.Helper()
	kafkatest.Run(t, func(t *testing.T, on *kafkatest.Kafka) { test(t, NewFixture(t, on)) }, OneBroker...)
}

// OnFake runs the test on kfake.
func OnFake(t *testing.T, test func(t *testing.T, f *Fixture)) {
	t.Helper()
	kafkatest.Fake(t, func(t *testing.T, on *kafkatest.Kafka) { test(t, NewFixture(t, on)) }, OneBroker...)
}

// NewFixture creates the topics of a new graph.
func NewFixture(t *testing.T, on *kafkatest.Kafka) *Fixture {
	t.Helper()
	c := Dial(t, on, kafka.Config{})
	names, err := topics.Under(fmt.Sprintf("worker-test-%d-%d", time.Now().UnixNano(), fixtures.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c, names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
		t.Fatal(err)
	}
	return &Fixture{t, on, c, names}
}

// Dial returns a client that is closed when the test ends.
func Dial(t *testing.T, on *kafkatest.Kafka, cfg kafka.Config) *kafka.Client {
	t.Helper()
	cfg.Brokers, cfg.Dialer = on.Addrs, on.Dial
	c, err := kafka.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// WithDialTimeout returns the same fixture with a client that waits at most d for missing
// topics and offsets.
func (f *Fixture) WithDialTimeout(d time.Duration) *Fixture {
	f.T.Helper()
	return &Fixture{f.T, f.On, Dial(f.T, f.On, kafka.Config{DialFor: d}), f.Names}
}

// Admin returns kafka-go's client of the brokers.
func (f *Fixture) Admin() *kafkago.Client {
	transport := &kafkago.Transport{Dial: f.On.Dial}
	f.T.Cleanup(transport.CloseIdleConnections)
	return &kafkago.Client{Addr: kafkago.TCP(f.On.Addrs...), Transport: transport}
}

// Send produces the nodes first to last-1, a label for each, and one record that cannot
// be decoded. It returns the number of records.
func (f *Fixture) Send(first, last int) (n int) {
	f.T.Helper()
	var records []kafka.Record
	now := time.Now()
	put := func(topic string, key, value []byte) { // a millisecond after the record before
		now = now.Add(time.Millisecond)
		records = append(records, kafka.Record{Topic: topic, Partition: kafka.PartitionFor(key, 3), Key: key, Value: value, Time: now})
	}
	for i := first; i < last; i++ {
		id := event.ID{Num: int64(i)}
		key := wire.AppendKey(nil, id)
		put(f.Names.Nodes, key, wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}}))
		put(f.Names.Labels, key, wire.AppendLabel(nil, &event.Label{Node: id, Class: "a"}))
	}
	put(f.Names.Nodes, bytes.Repeat([]byte("bad"), 100_000), []byte{0xc1})
	f.Produce(records...)
	return len(records)
}

// SendAt produces the nodes first to last-1 into the partitions in turn, and a label for
// each. Node i and its label have the event time at(i).
func (f *Fixture) SendAt(first, last, partitions int, at func(i int) int64) {
	f.T.Helper()
	var records []kafka.Record
	for i := first; i < last; i++ {
		id := event.ID{Num: int64(i)}
		key := wire.AppendKey(nil, id)
		records = append(records,
			kafka.Record{
				Topic: f.Names.Nodes, Partition: int32(i % partitions), Key: key,
				Value: wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}, Time: at(i)}),
			},
			kafka.Record{
				Topic: f.Names.Labels, Partition: int32(i % 3), Key: key,
				Value: wire.AppendLabel(nil, &event.Label{Node: id, Class: "a", Time: at(i)}),
			})
	}
	f.Produce(records...)
}

// Produce produces the records.
func (f *Fixture) Produce(records ...kafka.Record) {
	f.T.Helper()
	p, err := f.Client.NewProducer(f.T.Context(), kafka.ProducerConfig{})
	if err != nil {
		f.T.Fatal(err)
	}
	if err := p.Send(f.T.Context(), records); err != nil {
		f.T.Fatal(err)
	}
}

// Command sends records with these values to the commands topic.
func (f *Fixture) Command(values ...string) {
	f.T.Helper()
	var records []kafka.Record
	for _, v := range values {
		records = append(records, kafka.Record{Topic: f.Names.Commands, Value: []byte(v)})
	}
	f.Produce(records...)
}

// Forget sends a command to forget the nodes with these integer ids.
func (f *Fixture) Forget(ids ...int64) (nodes []event.ID) {
	f.T.Helper()
	for _, id := range ids {
		nodes = append(nodes, event.ID{Num: id})
	}
	f.Command(string(wire.AppendCommand(nil, &event.Command{Name: event.Forget, Nodes: nodes})))
	return nodes
}

// Config fills in the fields of cfg that are the same for every worker on this fixture,
// and the default policy, model, settings and classes if cfg has none.
func (f *Fixture) Config(cfg worker.Config) worker.Config {
	if cfg.Policy == nil {
		cfg.Policy = intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}
	}
	cfg.Terms.Names, cfg.Terms.Model, cfg.Terms.Settings = f.Names, cmp.Or(cfg.Terms.Model, "tally"), cmp.Or(cfg.Terms.Settings, Settings)
	if cfg.Terms.Classes == nil {
		cfg.Terms.Classes = []string{"a", "b"}
	}
	return cfg
}

// Run runs a worker until the outcomes of committed windows account for every record of
// the input topics, and returns its error. See RunUntilConsumed for engines whose
// outcomes do not account for every record.
//
// The ledger can then be read to the last window: a broker answers a commit before its
// markers are in the partitions (KIP-98), and a worker that starts in between sees less.
func (f *Fixture) Run(e replay.Engine, cfg worker.Config) error {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Minute)
	defer cancel()
	cfg = f.Config(cfg)
	cfg.Session = Session
	want, got, last := f.inputs(), 0, int64(-1)
	done := func() {
		if got >= want {
			cancel()
		}
	}
	hooks := replay.Join(
		replay.On(func(r replay.Recovered) { got += f.Events(r.Checkpoint) }),
		replay.On(func(replay.TookOver) { done() }),
		replay.On(func(s replay.Stepped) {
			got += len(s.Outcome.Labelled) + len(s.Outcome.Predictions) + len(s.Outcome.Refused)
		}),
		replay.On(func(c replay.Committed) { last = c.Last; done() }),
	)
	cfg.Events = replay.Join(hooks, cfg.Events)
	err := worker.Run(ctx, f.Client, e, cfg)
	for readable := int64(-1); readable < last; {
		r, err := ledger.Newest(f.T.Context(), f.Client, f.Names.LedgerAt())
		if err != nil {
			f.T.Fatal(err)
		}
		if r != nil {
			readable = r.Window
		}
	}
	if err == nil && got < want {
		f.T.Fatalf("the worker ended after %d events, want %d", got, want)
	}
	return err
}

// RunUntilConsumed runs a worker until the ranges in the ledger cover every record of the
// input topics. Unlike Run, it does not depend on the outcomes, which do not account for
// commands that were obeyed or for the events of forgotten nodes.
func (f *Fixture) RunUntilConsumed(e replay.Engine, cfg worker.Config) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Minute)
	defer cancel()
	want := f.inputs()
	l, err := ledger.Open(ctx, f.Client, f.Names.LedgerAt())
	if err != nil {
		f.T.Fatal(err)
	}
	owned, complete := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer cancel()
		<-owned
		consumed := 0
		for consumed < want {
			r, err := l.Wait(ctx)
			if err != nil {
				complete <- false
				return
			}
			if r == nil {
				continue
			}
			for _, g := range r.Ranges {
				consumed += int(g.To - g.From)
			}
		}
		complete <- true
	}()
	cfg = f.Config(cfg)
	cfg.Session = Session
	cfg.Events = replay.Join(cfg.Events, replay.On(func(replay.TookOver) { close(owned) }))
	if err := worker.Run(ctx, f.Client, e, cfg); err != nil || !<-complete {
		f.T.Fatalf("the worker ended with error %v before all %d input records were in the ledger", err, want)
	}
	f.Fence()
}

// Rebase begins an epoch of a tally with the salt "b".
func (f *Fixture) Rebase(cfg worker.Config, why string) (worker.Rebased, error) {
	f.T.Helper()
	cfg.Terms.Settings, cfg.Terms.Program = OtherSettings, "v2"
	return worker.Rebase(f.T.Context(), f.Client, &Tally{Salt: "b"}, f.Config(cfg), why)
}

// Refused checks that a worker does not start, with an error of one line that has the text.
func (f *Fixture) Refused(want string, e replay.Engine, cfg worker.Config) {
	f.T.Helper()
	cfg.Session = Session
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Minute) // one that starts would serve for ever
	defer cancel()
	err := worker.Run(ctx, f.Client, e, f.Config(cfg))
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		f.T.Errorf("the worker ends with error %v, want one line with %q", err, want)
	}
}

// Audit audits the ledger from its beginning.
func (f *Fixture) Audit(e replay.Engine, cfg worker.Config) (audit.Result, error) {
	on := f.Config(cfg)
	return audit.Run(f.T.Context(), f.Client, e, on.Replay(), audit.From{}, nil)
}

// inputs returns the number of records in the input topics.
func (f *Fixture) inputs() int {
	f.T.Helper()
	return f.Count(f.Names.Nodes) + f.Count(f.Names.Labels) + f.Count(f.Names.Commands)
}

// Events returns the number of events that the ledger counts in the windows before the
// given one.
func (f *Fixture) Events(before int64) (n int) {
	f.T.Helper()
	records := f.Records()
	if int64(len(records)) < before {
		f.T.Fatalf("the ledger has %d windows, want at least %d", len(records), before)
	}
	for _, r := range records[:before] {
		n += r.Predictions + r.Labels + r.Refused
	}
	return n
}

// Records returns all committed records of the ledger.
func (f *Fixture) Records() (records []*ledger.Record) {
	f.T.Helper()
	l, err := ledger.Open(f.T.Context(), f.Client, f.Names.LedgerAt())
	if err != nil {
		f.T.Fatal(err)
	}
	for {
		r, err := l.Next(f.T.Context())
		if err != nil {
			f.T.Fatal(err)
		}
		if r == nil {
			return records
		}
		records = append(records, r)
	}
}

// LastRecord returns the ledger's last record.
func (f *Fixture) LastRecord() *ledger.Record {
	f.T.Helper()
	all := f.Records()
	return all[len(all)-1]
}

// ForgetRecords returns the ledger records of the windows in which nodes were forgotten.
func (f *Fixture) ForgetRecords() (all []*ledger.Record) {
	f.T.Helper()
	for _, r := range f.Records() {
		if r.Forgot != nil {
			all = append(all, r)
		}
	}
	return all
}

// Consumed returns up to where the ledger's windows have taken each partition.
func (f *Fixture) Consumed() map[kafka.TopicPartition]int64 {
	to := make(map[kafka.TopicPartition]int64)
	for _, r := range f.Records() {
		for _, g := range r.Ranges {
			at := kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}
			to[at] = max(to[at], g.To)
		}
	}
	return to
}

// Read returns all committed records of a topic.
func (f *Fixture) Read(topic string) (records []kafka.Record) {
	f.T.Helper()
	if err := f.Client.ReadAll(f.T.Context(), topic, func(r *kafka.Record) { records = append(records, *r) }); err != nil {
		f.T.Fatal(err)
	}
	return records
}

// Count returns the number of committed records of a topic.
func (f *Fixture) Count(topic string) int { return len(f.Read(topic)) }

// HasDeadLetter reports whether a dead letter contains the text.
func (f *Fixture) HasDeadLetter(text string) bool {
	f.T.Helper()
	return slices.ContainsFunc(f.Read(f.Names.DeadLetters), func(r kafka.Record) bool { return strings.Contains(string(r.Value), text) })
}

// NewestCheckpoint returns the path of the newest checkpoint in the directory.
func (f *Fixture) NewestCheckpoint(dir string) checkpoint.Entry {
	f.T.Helper()
	list, err := checkpoint.Find(dir, f.Names.Ledger)
	if err != nil || len(list) == 0 {
		f.T.Fatalf("no checkpoint (error %v)", err)
	}
	return list[0]
}

// Copied returns a new directory with what is in another.
func (f *Fixture) Copied(dir string) string {
	f.T.Helper()
	to := filepath.Join(f.T.TempDir(), "state")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		f.T.Fatal(err)
	}
	return to
}

// Fence opens a producer session under the worker's transactional id, which fences a
// worker that is still running. It also waits until the last transaction can be read:
// Kafka acknowledges the end of a transaction before it writes the markers, but opens a
// new session only after that.
func (f *Fixture) Fence() {
	f.T.Helper()
	if _, err := f.Client.NewProducer(f.T.Context(), kafka.ProducerConfig{TransactionalID: f.Names.Own()}); err != nil {
		f.T.Fatal(err)
	}
}

// CheckOutputs checks that the given number of nodes were predicted, each exactly once, that
// the ledger counts as many predictions, and that there are that many dead letters.
func (f *Fixture) CheckOutputs(nodes, deadLetters int) {
	f.T.Helper()
	f.Fence()
	published := make(map[event.ID]bool)
	for _, r := range f.Read(f.Names.Predictions) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			f.T.Fatal(err)
		}
		if published[p.Node] {
			f.T.Errorf("node %v was predicted twice", p.Node)
		}
		published[p.Node] = true
	}
	if len(published) != nodes {
		f.T.Errorf("%d nodes were predicted, want %d", len(published), nodes)
	}
	if got := f.Count(f.Names.DeadLetters); got != deadLetters {
		f.T.Errorf("%d dead letters, want %d", got, deadLetters)
	}
	total := 0
	for _, r := range f.Records() {
		total += r.Predictions
	}
	if total != nodes {
		f.T.Errorf("the ledger counts %d predictions, want %d", total, nodes)
	}
}

// CheckLine checks that an error is one line with the texts.
func CheckLine(t *testing.T, doing string, err error, want ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: error %v, want one line with %q", doing, err, want)
		return
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v, want one with %q", doing, err, text)
		}
	}
}

// CheckGone checks that an error is one line that says what was found of an earlier ledger.
func CheckGone(t *testing.T, doing string, err error, found ...string) {
	t.Helper()
	var gone *topics.GoneError
	if !errors.As(err, &gone) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "--begin-again") {
		t.Errorf("%s: error %v, want a GoneError of one line with the remedy", doing, err)
		return
	}
	for _, what := range found {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v, want one that names %q", doing, err, what)
		}
	}
}

// AddPartitions raises a topic's number of partitions to n.
func (f *Fixture) AddPartitions(topic string, n int) {
	f.T.Helper()
	if err := f.Client.AddPartitions(f.T.Context(), map[string]int{topic: n}); err != nil {
		f.T.Fatal(err)
	}
}

// DeleteTopic deletes a topic and waits until it is gone.
func (f *Fixture) DeleteTopic(topic string) {
	f.T.Helper()
	c := f.Admin()
	res, err := c.DeleteTopics(f.T.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = res.Errors[topic]
	}
	for n := 1; err == nil && n > 0; time.Sleep(time.Millisecond) {
		var counts map[string]int
		counts, err = f.Client.Partitions(f.T.Context(), topic)
		n = counts[topic]
	}
	if err != nil {
		f.T.Fatal(err)
	}
}

// CreateTopic creates a topic alone, as somebody who restores topics without their
// records may.
func (f *Fixture) CreateTopic(name string, partitions int) {
	f.T.Helper()
	if _, err := f.Client.CreateTopics(f.T.Context(), kafka.TopicSpec{Name: name, Partitions: partitions, Replication: 1}); err != nil {
		f.T.Fatal(err)
	}
}

// AnswerEndTxn answers every EndTxn request with the error code that the function
// returns; 0 passes the request on to the broker.
func AnswerEndTxn(c *kfake.Cluster, code func() int16) {
	c.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n := code()
		if n == 0 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.EndTxnResponse)
		res.ErrorCode = n
		return res, nil, true
	})
}
