package cuts

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
)

// TestSharded runs the suite on a kfake of two brokers, or on Apache Kafka.
func TestSharded(t *testing.T) {
	suite := map[string]func(*testing.T, *sharded){
		"of two cuts of a window the first counts":            testTwoLeads,
		"every reader takes the same cuts":                    testSameCuts,
		"a lead that was halted and is woken changes nothing": testZombie,
		"a cut of no use is not written":                      testNoCut,
		"a partition that is not there":                       testNoPartition,
		"how far all shards are done":                         testDone,
		"a shard's ledger that is not continuous":             testNotContinuous,
	}
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			kafkatest.Run(t, func(t *testing.T, k *kafkatest.Kafka) { test(t, newSharded(t, k, 3)) }, kfake.NumBrokers(2))
		})
	}
}

// sharded is the ledger of a sharded graph.
type sharded struct {
	*testing.T
	client *kafka.Client
	cuts   kafka.TopicPartition
	shards int
}

var ledgers atomic.Int64

func newSharded(t *testing.T, k *kafkatest.Kafka, shards int) *sharded {
	t.Helper()
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Addrs, Dialer: k.Dial, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := &sharded{t, c, kafka.TopicPartition{Topic: fmt.Sprintf("ledger-%x-%d", time.Now().UnixNano(), ledgers.Add(1))}, shards}
	if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: s.cuts.Topic, Partitions: shards + 1, Replication: -1}); err != nil {
		t.Fatal(err)
	}
	return s
}

// read returns a reader of the cuts from a place.
func (s *sharded) read(from Place) *Cuts {
	s.Helper()
	c, err := OpenCuts(s.Context(), s.client, s.cuts, from)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// all returns the causes of all cuts from a place on, which a test gives cuts to tell them
// apart, and the reader behind them.
func (s *sharded) all(from Place) (causes []string, c *Cuts) {
	s.Helper()
	c = s.read(from)
	for {
		cut, err := c.Next(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if cut == nil {
			return causes, c
		}
		causes = append(causes, cut.Cause)
	}
}

// lead returns a lead that has read all cuts.
func (s *sharded) lead() *Cutter {
	s.Helper()
	_, cuts := s.all(Place{})
	l, err := NewCutter(s.Context(), cuts)
	if err != nil {
		s.Fatal(err)
	}
	return l
}

// cut has the lead cut a window, and returns the cause of the cut that was taken.
func (s *sharded) cut(l *Cutter, cause string) string {
	s.Helper()
	c := &Cut{Cause: cause}
	if l.cuts.place.Window == 0 {
		c.Begins, c.Configuration = &ledger.Beginning{Why: "test"}, `{}`
		c.Settings = c.Configuration.Hash()
	}
	taken, err := l.Cut(s.Context(), c)
	if err != nil {
		s.Fatal(err)
	}
	if (taken.Hash == c.Hash) != (taken.Cause == cause) {
		s.Errorf("the cut that was taken is %q, and the lead's is %q: their hashes are %q and %q", taken.Cause, cause, taken.Hash, c.Hash)
	}
	return taken.Cause
}

func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, -want +got\n%s", what, diff)
	}
}

// testTwoLeads: two leads cut, each as if it were alone. Both know after each cut whose was
// taken, and go on behind it.
func testTwoLeads(t *testing.T, s *sharded) {
	a, b := s.lead(), s.lead()
	same(t, "window 0 of the first", "a0", s.cut(a, "a0"))
	same(t, "window 0 of the second", "a0", s.cut(b, "b0"))
	same(t, "window 1 of the second", "b1", s.cut(b, "b1"))
	same(t, "window 2 of the second", "b2", s.cut(b, "b2"))
	same(t, "window 1 of the first", "b1", s.cut(a, "a1"))
	same(t, "window 2 of the first", "b2", s.cut(a, "a2"))
	same(t, "window 3 of the first", "a3", s.cut(a, "a3"))
	causes, _ := s.all(Place{})
	same(t, "all cuts", []string{"a0", "b1", "b2", "a3"}, causes)
	if bounds, err := s.client.Offsets(t.Context(), s.cuts.Topic); err != nil || bounds[s.cuts].End != 7 {
		t.Errorf("the log has %v and error %v, want 7 records", bounds[s.cuts], err)
	}
}

// testSameCuts: between two leads' cuts are records that are none, duplicates and cuts of a
// forger. From whatever place a reader begins, it takes the same.
func testSameCuts(t *testing.T, s *sharded) {
	a, b := s.lead(), s.lead()
	p, err := s.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(value []byte) {
		t.Helper()
		if err := p.Send(t.Context(), []kafka.Record{{Topic: s.cuts.Topic, Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	for w := range int64(12) {
		if w%3 == 0 {
			write([]byte("no cut"))
			write((&ledger.Record{Version: ledger.Version, Window: w}).Append(nil))
			write((&Cut{Version: CutFormat, Window: w, Prev: hashA}).Append(nil))
		}
		lead := a
		if w%4 > 1 {
			lead = b
		}
		for lead.cuts.place.Window < w { // catches up
			s.cut(lead, "late")
		}
		s.cut(lead, fmt.Sprint("window ", w))
		again := &Cut{Version: CutFormat, Window: w, Prev: lead.cuts.place.Hash, Cause: "behind itself"}
		write(again.Append(nil))
	}
	want, _ := s.all(Place{})
	same(t, "the number of cuts", 12, len(want))
	reader := s.read(Place{})
	for i := range want {
		causes, end := s.all(reader.Place())
		same(t, fmt.Sprintf("cuts from window %d on", i), want[i:], causes)
		if i > 0 && end.Place().Began != reader.Place().Began {
			t.Errorf("from window %d on the epoch began with %q, want %q", i, end.Place().Began, reader.Place().Began)
		}
		if _, err := reader.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// testZombie: a lead is halted before its cut of window 3 is appended. Another one is elected
// and cuts windows 3 to 5; or it has cut nothing yet. Then the first one is woken.
func testZombie(t *testing.T, s *sharded) {
	zombie := s.lead()
	for w := range 3 {
		s.cut(zombie, fmt.Sprint("first ", w))
	}
	next := s.lead()
	for w := 3; w < 6; w++ {
		same(t, "the next lead's cut", fmt.Sprint("next ", w), s.cut(next, fmt.Sprint("next ", w)))
	}
	// It has read meanwhile that all shards are done with window 5.
	taken, err := zombie.Cut(t.Context(), &Cut{Cause: "woken 3", Done: &Complete{5, hashA}})
	if err != nil || taken.Cause != "next 3" {
		t.Fatalf("the woken lead learns of window 3 %+v with error %v, want the next lead's cut", taken, err)
	}
	for w := 4; w < 6; w++ {
		same(t, "what it reads on", fmt.Sprint("next ", w), s.cut(zombie, "woken again"))
	}
	// Halted once more, and woken when the next lead has cut nothing behind it.
	same(t, "a window that nobody has cut", "woken 6", s.cut(zombie, "woken 6"))
	same(t, "what the next lead learns of it", "woken 6", s.cut(next, "next 6"))
	same(t, "and goes on", "next 7", s.cut(next, "next 7"))
	causes, _ := s.all(Place{})
	same(t, "all cuts", []string{"first 0", "first 1", "first 2", "next 3", "next 4", "next 5", "woken 6", "next 7"}, causes)
}

// testNoCut: a cut that readers would ignore is refused instead of being written, for its
// writer would wait for it for ever.
func testNoCut(t *testing.T, s *sharded) {
	l := s.lead()
	if _, err := l.Cut(t.Context(), &Cut{Ranges: []ledger.Range{{Topic: "nodes", From: 3, To: 3}}}); err == nil || !strings.Contains(err.Error(), "cannot be cut") {
		t.Errorf("error %v, want one that says so", err)
	}
}

// testNoPartition: a shard whose partition the ledger does not have says so.
func testNoPartition(t *testing.T, s *sharded) {
	_, err := ledger.Open(t.Context(), s.client, kafka.TopicPartition{Topic: s.cuts.Topic, Partition: 4})
	if err == nil || !strings.Contains(err.Error(), "has 4 partitions, and partition 4 is needed") {
		t.Errorf("error %v, want one with the number of partitions", err)
	}
	if _, err := OpenDone(t.Context(), s.client, s.cuts.Topic, 2, nil); err == nil || !strings.Contains(err.Error(), "2 shards need 3") {
		t.Errorf("error %v, want one with the number of shards", err)
	}
}

// chainOf is the chain of a shard after a window.
func chainOf(shard int, window int64) event.Hash { return event.Hash{byte(shard), byte(window)} }

// commit writes a shard's records of windows in transactions.
func (s *sharded) commit(p *kafka.Producer, shard int, windows ...int64) {
	s.Helper()
	for _, w := range windows {
		chain := chainOf(shard, w)
		r := ledger.Record{Version: ledger.Version, Window: w, Chain: hex.EncodeToString(chain[:])}
		if err := p.Commit(s.Context(), []kafka.Record{{Topic: s.cuts.Topic, Partition: int32(shard + 1), Value: r.Append(nil)}}, "", nil); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *sharded) committer(shard int) *kafka.Producer {
	s.Helper()
	p, err := s.client.NewProducer(s.Context(), kafka.ProducerConfig{TransactionalID: fmt.Sprintf("%s/%d", s.cuts.Topic, shard+1)})
	if err != nil {
		s.Fatal(err)
	}
	return p
}

// await reads until the shards are done with these windows.
func (s *sharded) await(d *Done, want ...int64) {
	s.Helper()
	for !slices.Equal(d.Last(), want) {
		if err := d.Wait(s.Context()); err != nil {
			s.Fatal(err)
		}
	}
}

// graphChain is the chain of the graph after a window, computed from the beginning.
func (s *sharded) graphChain(window int64) *Complete {
	var g event.Hash
	for w := range window + 1 {
		var chains []event.Hash
		for shard := range s.shards {
			chains = append(chains, chainOf(shard, w))
		}
		g = g.Join(chains)
	}
	return &Complete{window, hex.EncodeToString(g[:])}
}

// testDone: the shards are done with windows in any order, and one of them far ahead. The
// newest complete window has the chain that a reader of everything computes, whether the
// reader begins at the beginning or behind a complete window.
func testDone(t *testing.T, s *sharded) {
	d, err := OpenDone(t.Context(), s.client, s.cuts.Topic, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "before any shard is done", (*Complete)(nil), d.Complete())
	same(t, "its windows", []int64{-1, -1, -1}, d.Last())
	var p [3]*kafka.Producer
	for shard := range p {
		p[shard] = s.committer(shard)
	}
	s.commit(p[0], 0, 0, 1, 2)
	s.commit(p[2], 2, 0)
	s.await(d, 2, -1, 0)
	same(t, "while a shard is not done with any", (*Complete)(nil), d.Complete())
	s.commit(p[1], 1, 0, 1)
	s.await(d, 2, 1, 0)
	same(t, "after window 0", s.graphChain(0), d.Complete())
	for w := int64(1); w < 100; w++ {
		s.commit(p[2], 2, w)
	}
	for w := int64(3); w < 90; w++ {
		s.commit(p[0], 0, w)
		s.commit(p[1], 1, w-1)
	}
	s.await(d, 89, 88, 99)
	same(t, "after window 88", s.graphChain(88), d.Complete())
	for _, from := range []int64{0, 3, 87, 88} {
		later, err := OpenDone(t.Context(), s.client, s.cuts.Topic, 3, s.graphChain(from))
		if err != nil {
			t.Fatal(err)
		}
		s.await(later, 89, 88, 99)
		same(t, fmt.Sprintf("from behind window %d", from), s.graphChain(88), later.Complete())
	}
}

// testNotContinuous: a shard's ledger that lacks a window is an error that names it.
func testNotContinuous(t *testing.T, s *sharded) {
	d, err := OpenDone(t.Context(), s.client, s.cuts.Topic, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.commit(s.committer(1), 1, 0, 1, 3)
	for err == nil {
		err = d.Wait(t.Context())
	}
	if want := "partition 2 offset"; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "window 3 follows window 1") {
		t.Errorf("error %v, want one with %q and the windows", err, want)
	}
}

// TestLostCut: the broker appends a cut and its answer is lost, and the request is repeated
// until the session is given up: the cut is in the log twice, and taken once.
func TestLostCut(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		s := newSharded(t, k, 1)
		l := s.lead()
		s.cut(l, "a")
		k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: s.cuts.Topic, Err: kerr.RequestTimedOut, Count: 1})
		k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: s.cuts.Topic, Err: kerr.UnknownProducerID, Count: 1})
		same(t, "the cut", "b", s.cut(l, "b"))
		same(t, "the next", "c", s.cut(l, "c"))
		if bounds, err := s.client.Offsets(t.Context(), s.cuts.Topic); err != nil || bounds[s.cuts].End != 4 {
			t.Errorf("the log has %v and error %v, want 4 records", bounds[s.cuts], err)
		}
		causes, _ := s.all(Place{})
		same(t, "all cuts", []string{"a", "b", "c"}, causes)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Cut(ctx, &Cut{}); err == nil {
			t.Error("a cut succeeds though its context has ended")
		}
	}, kfake.NumBrokers(2))
}
