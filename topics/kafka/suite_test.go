package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestKafka runs the suite on a kfake of three brokers, or on Apache Kafka: what holds for the
// fake must hold for real brokers.
func TestKafka(t *testing.T) {
	suite := map[string]func(*testing.T, *Client){
		"existing topics are not changed":               testCreate,
		"aborted records are skipped from every offset": testAborted,
		"a producer fences the former one of its id":    testFencing,
		"group offsets are committed with the records":  testGroupOffsets,
		"group offsets come beside the records":         testOffsetsOfEnded,
		"offsets are found by time":                     testOffsetsAt,
		"the members of an election are known":          testMembers,
		"large commits are split into batches":          testSplit,
		"a record that is too large is refused":         testTooLarge,
		"a topic that takes smaller batches gets them":  testSmallTopic,
		"small answers lose no records":                 testSmallAnswers,
		"offsets out of range are errors":               testOutOfRange,
		"partitions are added to a reader":              testAdd,
		"quiet partitions and expected offsets":         testQuiet,
		"a commit whose answers are lost":               testLostAnswers,
		"a commit that does not arrive":                 testLostRequests,
		"a request whose answer is lost once":           testOneLostAnswer,
		"the end of a transaction that arrives late":    testLateEnd,
		"sends while a transaction is open":             testSend,
		"an empty commit":                               testEmptyCommit,
		"batches that cannot be read are refused":       testUnreadable,
		"a topic that is created anew has another id":   testTopicIDs,
	}
	for _, codec := range []string{"", "none", "gzip", "snappy", "lz4", "zstd"} {
		suite["records are read as they were produced/codec "+codec] = func(t *testing.T, c *Client) { testRoundTrip(t, c, codec) }
	}
	for _, r := range replacements {
		suite["a topic that was created anew is an error/"+r.name] = r.test
	}
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			run := kafkatest.Run
			if strings.HasSuffix(name, "codec zstd") { // franz-go's finalizer closes a channel outside of the bubble
				run = kafkatest.Real
			}
			run(t, func(t *testing.T, k *kafkatest.Kafka) { test(t, dial(t, k, Config{})) }, kfake.NumBrokers(3))
		})
	}
}

func dial(t *testing.T, k *kafkatest.Kafka, cfg Config) *Client {
	t.Helper()
	cfg.Brokers, cfg.Dialer = k.Addrs, k.Dial
	return connect(t, cfg)
}

// impatient returns a client of the same brokers that waits only briefly for what should be there.
func (c *Client) impatient(t *testing.T) *Client {
	t.Helper()
	cfg := c.cfg
	cfg.DialFor = 3 * time.Second
	return connect(t, cfg)
}

func connect(t *testing.T, cfg Config) *Client {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var names atomic.Int64

// unique returns a name that no other test or run of the tests uses, because they share
// a real cluster.
func unique(prefix string) string {
	return fmt.Sprintf("%s-%x-%d", prefix, time.Now().UnixNano(), names.Add(1))
}

// topic creates a topic with a unique name, which it returns.
func topic(t *testing.T, c *Client, partitions int) string {
	t.Helper()
	name := unique("t")
	if _, err := c.CreateTopics(t.Context(), TopicSpec{Name: name, Partitions: partitions, Replication: -1}); err != nil {
		t.Fatal(err)
	}
	return name
}

func producer(t *testing.T, c *Client, cfg ProducerConfig) *Producer {
	t.Helper()
	p, err := c.NewProducer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func commit(t *testing.T, p *Producer, records ...Record) {
	t.Helper()
	if err := p.Commit(t.Context(), records, "", nil); err != nil {
		t.Fatal(err)
	}
}

// begin produces records in a transaction that stays open.
func begin(t *testing.T, p *Producer, records ...Record) {
	t.Helper()
	b, err := p.batchOf(records)
	if err == nil {
		err = p.Produce(t.Context(), b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// committed returns the committed records of a topic by partition and offset, from
// start or, if that is nil, from the beginning. It first restarts the producers whose
// transaction markers may not be written yet: Restart waits for them.
//
// It checks that the reader returns the offsets of each partition in ascending order and
// knows its last stable offset.
func committed(t *testing.T, c *Client, cfg ReaderConfig, topic string, start map[TopicPartition]int64, restart ...*Producer) []Record {
	t.Helper()
	for _, p := range restart {
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bounds, err := c.Offsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if start == nil {
		start = make(map[TopicPartition]int64)
		for at, b := range bounds {
			start[at] = b.First
		}
	}
	r := c.NewReader(start, cfg)
	var records []Record
	for at := range start {
		pollUntil(t, r, fmt.Sprintf("%v is read to offset %d", at, bounds[at].End), func(got []Record) bool {
			records = append(records, got...)
			return r.Position(at) >= bounds[at].End
		})
		if end := r.End(at); start[at] < bounds[at].End && end < bounds[at].End {
			t.Errorf("End(%v) = %d, want at least the last stable offset %d", at, end, bounds[at].End)
		}
	}
	last := make(map[int32]int64)
	for _, rec := range records {
		if l, ok := last[rec.Partition]; ok && rec.Offset <= l {
			t.Errorf("partition %d: offset %d is read after %d", rec.Partition, rec.Offset, l)
		}
		last[rec.Partition] = rec.Offset
	}
	sortRecords(records)
	return records
}

// sortRecords sorts records by partition and offset.
func sortRecords(records []Record) {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
}

// pollUntil polls until done says yes: at first of no records, then of those of each answer. It ends
// the test if that takes too long, and says what was waited for.
func pollUntil(t *testing.T, r *Reader, what string, done func([]Record) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kafkatest.Patience)
	defer cancel()
	for records := []Record(nil); !done(records); {
		var err error
		if records, err = r.Poll(ctx); err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// pollError polls until an error and returns it, with the number of records read before.
func pollError(t *testing.T, r *Reader) (read int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kafkatest.Patience)
	defer cancel()
	for err == nil {
		var records []Record
		records, err = r.Poll(ctx)
		read += len(records)
	}
	if ctx.Err() != nil {
		t.Fatalf("waiting for an error of the reader: %v", err)
	}
	return read, err
}

func values(records []Record) (v []string) {
	for _, r := range records {
		v = append(v, string(r.Value))
	}
	return v
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// testCreate: CreateTopics returns the topics it has created and leaves existing ones as
// they are, so that workers can call it at every start.
func testCreate(t *testing.T, c *Client) {
	a, b, absent := unique("a"), unique("b"), unique("absent")
	got, err := c.CreateTopics(t.Context(), TopicSpec{Name: a, Partitions: 2, Replication: -1, Config: map[string]string{"retention.ms": "-1"}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, []string{a}, got)
	for _, want := range [][]string{{b}, {}} {
		got, err = c.CreateTopics(t.Context(), TopicSpec{Name: a, Partitions: 7, Replication: -1}, TopicSpec{Name: b, Partitions: 1, Replication: -1})
		if err != nil {
			t.Fatal(err)
		}
		same(t, want, got)
	}
	counts, err := c.Partitions(t.Context(), a, b, absent)
	if err != nil {
		t.Fatal(err)
	}
	same(t, map[string]int{a: 2, b: 1}, counts)
	bounds, err := c.Offsets(t.Context(), a, absent)
	if err != nil {
		t.Fatal(err)
	}
	same(t, map[TopicPartition]Bounds{{a, 0}: {}, {a, 1}: {}}, bounds)
	if _, err := c.CreateTopics(t.Context(), TopicSpec{Name: absent, Partitions: 0, Replication: -1}); err == nil || !strings.Contains(err.Error(), absent) {
		t.Errorf("a topic without partitions: error %v, want one that names %s", err, absent)
	}
}

// testRoundTrip: keys, values, headers and times are read as they were produced, with
// every compression, by this package and by franz-go. A null and an empty value differ.
func testRoundTrip(t *testing.T, c *Client, codec string) {
	now := time.UnixMilli(time.Now().UnixMilli())
	name := topic(t, c, 3)
	p := producer(t, c, ProducerConfig{TransactionalID: name, Compression: codec})
	sent := []Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("k"), Value: []byte(strings.Repeat("long ", 50_000))},
		{Partition: 1, Key: []byte("headers"), Value: []byte("v"), Headers: []Header{{Key: "a"}, {Key: "b", Value: []byte{}}, {Key: "a", Value: []byte("again")}}},
		{Partition: 2, Value: []byte("later"), Time: now.Add(time.Minute)},
		{Partition: 2, Value: []byte("earlier"), Time: now.Add(-time.Hour)},
	}
	var want []Record
	for i := range sent {
		r := &sent[i]
		r.Topic = name
		if r.Time.IsZero() {
			r.Time = now
		}
		w := *r
		w.Offset = int64([]int{0, 1, 2, 0, 0, 1}[i])
		want = append(want, w)
	}
	commit(t, p, sent...)
	same(t, want, committed(t, c, ReaderConfig{}, name, nil, p))
	same(t, want, readWithFranz(t, c, name, len(want)))
}

// readWithFranz reads n committed records of the topic with franz-go.
func readWithFranz(t *testing.T, c *Client, topic string, n int) []Record {
	t.Helper()
	k := franzClient(t, c, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(t.Context(), kafkatest.Patience)
	defer cancel()
	var records []Record
	for len(records) < n {
		f := k.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("waiting until franz-go reads %d records of %d: %v", n, len(records), err)
		}
		f.EachRecord(func(r *kgo.Record) {
			out := Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp, Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				out.Headers = append(out.Headers, Header{Key: h.Key, Value: h.Value})
			}
			records = append(records, out)
		})
	}
	sortRecords(records)
	return records
}

// franzClient returns a franz-go client of the cluster.
func franzClient(t *testing.T, c *Client, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	k, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.cfg.Brokers...), kgo.Dialer(c.cfg.Dialer), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// testAborted: whatever offset a reader starts at, it returns the committed records from
// there on and no aborted one. Three producers of franz-go commit and abort transactions
// at random that overlap in one partition. The start is in turn every offset, of committed
// and aborted records and of markers.
func testAborted(t *testing.T, c *Client) {
	name := topic(t, c, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	var producers []*kgo.Client
	for i := range 3 {
		producers = append(producers, franzClient(t, c, kgo.TransactionalID(fmt.Sprint(name, i))))
	}
	open := make([][]Record, len(producers))
	var want []Record
	end := func(i int, commit kgo.TransactionEndTry) {
		if err := producers[i].EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
		if commit == kgo.TryCommit {
			want = append(want, open[i]...)
		}
		open[i] = nil
	}
	for n := range 120 {
		i := rng.IntN(len(producers))
		if open[i] != nil && rng.IntN(3) == 0 {
			end(i, rng.IntN(2) == 0)
			continue
		}
		if open[i] == nil {
			if err := producers[i].BeginTransaction(); err != nil {
				t.Fatal(err)
			}
		}
		r := &kgo.Record{Topic: name, Value: fmt.Append(nil, n)}
		if err := producers[i].ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		open[i] = append(open[i], Record{Offset: r.Offset, Value: r.Value})
	}
	for i := range producers {
		if open[i] != nil {
			end(i, kgo.TryCommit)
		}
	}
	slices.SortFunc(want, func(a, b Record) int { return cmp.Compare(a.Offset, b.Offset) })
	at := TopicPartition{name, 0}
	// franz-go returns before the last markers are written. Opening a session with
	// the same transactional ids waits for them.
	for i := range producers {
		producer(t, c, ProducerConfig{TransactionalID: fmt.Sprint(name, i)})
	}
	bounds, err := c.Offsets(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for start := range bounds[at].End {
		for _, cfg := range []ReaderConfig{{}, {MaxBytes: 1}} {
			if cfg.MaxBytes > 0 && start%40 > 0 { // slow: one batch for each request
				continue
			}
			var got []Record
			for _, r := range committed(t, c, cfg, name, map[TopicPartition]int64{at: start}) {
				got = append(got, Record{Offset: r.Offset, Value: r.Value})
			}
			from, _ := slices.BinarySearchFunc(want, start, func(r Record, o int64) int { return cmp.Compare(r.Offset, o) })
			if d := gocmp.Diff(slices.Clone(want[from:]), got); d != "" && len(want[from:])+len(got) > 0 {
				t.Fatalf("from offset %d, -want +got\n%s", start, d)
			}
		}
	}
}

// testFencing: once another producer has opened a session with the same transactional
// id, the former one can commit nothing, neither a new transaction nor one that was open
// at the time. That is what keeps two workers from both owning a graph.
func testFencing(t *testing.T, c *Client) {
	name := topic(t, c, 1)
	first := producer(t, c, ProducerConfig{TransactionalID: name})
	commit(t, first, Record{Topic: name, Value: []byte("before")})
	second := producer(t, c, ProducerConfig{TransactionalID: name})
	err := first.Commit(t.Context(), []Record{{Topic: name, Value: []byte("zombie")}}, "", nil)
	if !errors.Is(err, ErrFenced) || errors.Is(err, ErrUnknown) {
		t.Errorf("a commit of the fenced producer: error %v, want ErrFenced", err)
	}
	if err := first.Commit(t.Context(), []Record{{Topic: name, Value: []byte("zombie")}}, "", nil); !errors.Is(err, ErrFenced) {
		t.Errorf("another commit of the fenced producer: error %v, want ErrFenced", err)
	}
	commit(t, second, Record{Topic: name, Value: []byte("after")})
	same(t, []string{"before", "after"}, values(committed(t, c, ReaderConfig{}, name, nil, second)))

	// The third producer fences the second in the middle of a transaction.
	begin(t, second, Record{Topic: name, Value: []byte("half")})
	third := producer(t, c, ProducerConfig{TransactionalID: name})
	if err := second.end(t.Context(), second.cfg.RetryFor, true); !fenced(err) {
		t.Errorf("the end of a transaction that was open when it was fenced: error %v, want a fencing code", err)
	}
	commit(t, third, Record{Topic: name, Value: []byte("third")})
	same(t, []string{"before", "after", "third"}, values(committed(t, c, ReaderConfig{}, name, nil, third)))
}

// testGroupOffsets: the group's offsets are committed by the transaction. Lag tools read them.
func testGroupOffsets(t *testing.T, c *Client) {
	in, out, group := topic(t, c, 2), topic(t, c, 1), unique("g")
	if got, err := c.Committed(t.Context(), group, in, out); len(got) > 0 || err != nil {
		t.Fatalf("the offsets of a group that committed none: %v, %v", got, err)
	}
	p := producer(t, c, ProducerConfig{TransactionalID: out})
	a, b := TopicPartition{in, 0}, TopicPartition{in, 1}
	for i := range int64(3) {
		if err := p.Commit(t.Context(), []Record{{Topic: out, Value: []byte("x")}}, group, map[TopicPartition]int64{a: i, b: 10 * i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Commit(t.Context(), []Record{{Topic: out, Value: []byte("x")}}, group, map[TopicPartition]int64{a: 7}); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, c, ReaderConfig{}, out, nil, p); len(got) != 4 {
		t.Errorf("%d records are committed, want 4", len(got))
	}
	got, err := c.Committed(t.Context(), group, in, out)
	if err != nil {
		t.Fatal(err)
	}
	same(t, map[TopicPartition]int64{a: 7, b: 20}, got)
}

// testOffsetsOfEnded: a transaction of several batches commits the offsets that it ends with. One that a Restart ends
// commits none.
func testOffsetsOfEnded(t *testing.T, c *Client) {
	in, out, group := topic(t, c, 2), topic(t, c, 1), unique("g")
	p := producer(t, c, ProducerConfig{TransactionalID: out})
	a, b := TopicPartition{in, 0}, TopicPartition{in, 1}
	check := func() {
		t.Helper()
		got := committed(t, c, ReaderConfig{}, out, nil, p)
		offsets, err := c.Committed(t.Context(), group, in)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 {
			t.Errorf("%d records are committed, want 2", len(got))
		}
		same(t, map[TopicPartition]int64{a: 3, b: 1}, offsets)
	}
	begin(t, p, Record{Topic: out, Value: []byte("x")})
	begin(t, p, Record{Topic: out, Value: []byte("x")})
	if err := p.End(t.Context(), group, map[TopicPartition]int64{a: 3, b: 1}); err != nil {
		t.Fatal(err)
	}
	check()
	begin(t, p, Record{Topic: out, Value: []byte("x")})
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.End(t.Context(), group, map[TopicPartition]int64{a: 4, b: 4}); err != nil {
		t.Fatal(err)
	}
	check()
}

// testOffsetsAt: the first record that is not older than a time is found in each
// partition by its timestamp. Where there is none, the offset is the end.
func testOffsetsAt(t *testing.T, c *Client) {
	name := topic(t, c, 3)
	p := producer(t, c, ProducerConfig{})
	noon := time.Now().Truncate(time.Minute).Add(-time.Hour) // within a broker's retention
	for i := range 4 {
		for part := range int32(2) {
			at := noon.Add(time.Duration(i-int(part)) * time.Minute)
			if err := p.Send(t.Context(), []Record{{Topic: name, Partition: part, Time: at, Value: []byte("x")}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, q := range []struct {
		since time.Time
		want  []int64
	}{
		{noon.Add(-time.Hour), []int64{0, 0, 0}},
		{noon.Add(time.Minute), []int64{1, 2, 0}},
		{noon.Add(time.Minute + time.Millisecond), []int64{2, 3, 0}},
		{noon.Add(3 * time.Minute), []int64{3, 4, 0}},
		{noon.Add(time.Hour), []int64{4, 4, 0}},
	} {
		got, err := c.OffsetsAt(t.Context(), name, q.since)
		if err != nil {
			t.Fatal(err)
		}
		same(t, map[TopicPartition]int64{{name, 0}: q.want[0], {name, 1}: q.want[1], {name, 2}: q.want[2]}, got)
	}
}

// testMembers: whoever asks sees who takes part in an election, who owns, and what each
// says of itself, which has no part in the election.
func testMembers(t *testing.T, c *Client) {
	name, group := topic(t, c, 1), unique("g")
	if got, err := c.Members(t.Context(), group, name); len(got) > 0 || err != nil {
		t.Fatalf("a group that nobody has joined: %v, %v", got, err)
	}
	join := func(about string, owner bool, progress int64) *Membership {
		m, err := c.Join(MembershipConfig{Group: group, Topic: name, Session: 6 * time.Second, About: about, Standing: func() Standing { return Standing{owner, progress} }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Leave)
		return m
	}
	first := join("a", true, 1)
	if e := kafkatest.Receive(t, first.Elected(), "an election with one member"); !e.Owner {
		t.Fatalf("the only member is not the owner: %+v", e)
	}
	second := join("z", false, 2)
	kafkatest.Receive(t, second.Elected(), "an election with two members")
	got, err := c.Members(t.Context(), group, name)
	if err != nil {
		t.Fatal(err)
	}
	owners := make(map[string]bool)
	for _, m := range got {
		owners[m.About] = m.Owner
	}
	same(t, map[string]bool{"a": true, "z": false}, owners)
}

// testSplit: a commit that is larger than MaxBatchBytes is sent as several batches, and
// the records of each partition keep their order.
func testSplit(t *testing.T, c *Client) {
	name := topic(t, c, 3)
	p := producer(t, c, ProducerConfig{TransactionalID: name, MaxBatchBytes: 1000})
	want := make([][]string, 3)
	for n := range 4 {
		var records []Record
		for i := range 200 {
			r := Record{Topic: name, Partition: int32(i % 7 % 3), Value: fmt.Appendf(nil, "%d %d %s", n, i, strings.Repeat(".", i))}
			records = append(records, r)
			want[r.Partition] = append(want[r.Partition], string(r.Value))
		}
		commit(t, p, records...)
	}
	got := committed(t, c, ReaderConfig{}, name, nil, p)
	same(t, slices.Concat(want...), values(got))
}

// testTooLarge: a record that is too large for a batch is an error before anything is
// sent, and the producer stays usable without a Restart.
func testTooLarge(t *testing.T, c *Client) {
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("small")}, {Topic: name, Value: make([]byte, 1_000_000)}}, "", nil)
	if err == nil || !strings.Contains(err.Error(), name+" partition 0") || errors.Is(err, ErrUnknown) {
		t.Errorf("a record of 1 MB: error %v, want one that names %s partition 0 and is not ErrUnknown", err, name)
	}
	commit(t, p, Record{Topic: name, Value: []byte("next")})
	same(t, []string{"next"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
}

// testSmallTopic: a topic's max.message.bytes is less than that of a batch, beside one that takes
// all. Batches are divided until they fit, in transactions and outside, packed or not, and
// records keep their order. Of a record that does not fit alone the error says the setting and
// the size.
func testSmallTopic(t *testing.T, c *Client) {
	for _, cfg := range []ProducerConfig{{TransactionalID: unique("small")}, {TransactionalID: unique("small"), Compression: "gzip"}, {}} {
		beside := topic(t, c, 1)
		small := TopicSpec{Name: unique("small"), Partitions: 2, Replication: 1, Config: map[string]string{"max.message.bytes": "2000"}}
		if _, err := c.CreateTopics(t.Context(), small); err != nil {
			t.Fatal(err)
		}
		name := small.Name
		p := producer(t, c, cfg)
		put := p.Send
		var restart []*Producer // once the transactions are committed
		if cfg.TransactionalID != "" {
			restart = append(restart, p)
			put = func(ctx context.Context, records []Record) error { return p.Commit(ctx, records, "", nil) }
		}
		want := make([][]string, 2)
		for n := range 2 {
			records := []Record{{Topic: beside, Value: make([]byte, 100_000)}}
			for i := range 200 {
				r := Record{Topic: name, Partition: int32(i % 2), Key: []byte("k"), Value: fmt.Appendf(nil, "%d %d %s", n, i, unique(strings.Repeat(".", i))), Headers: []Header{{Key: "h", Value: []byte("v")}}}
				records = append(records, r)
				want[i%2] = append(want[i%2], string(r.Value))
			}
			if err := put(t.Context(), records); err != nil {
				t.Fatal(err)
			}
		}
		got := committed(t, c, ReaderConfig{}, name, nil, restart...)
		same(t, slices.Concat(want...), values(got))
		if r := got[0]; string(r.Key) != "k" || len(r.Headers) != 1 || r.Headers[0].Key != "h" || time.Since(r.Time) > time.Hour {
			t.Errorf("the first record is %+v, want its key, header and time", r)
		}
		noise := make([]byte, 5000)
		rand.NewChaCha8([32]byte{}).Read(noise)
		err := put(t.Context(), []Record{{Topic: name, Value: noise}})
		for _, text := range []string{name + " partition 0", "max.message.bytes=2000", " has 50"} {
			if err == nil || !strings.Contains(err.Error(), text) || errors.Is(err, ErrUnknown) {
				t.Errorf("a record of 5 KB: error %v, want one that says %q and is not ErrUnknown", err, text)
			}
		}
	}
}

// testSmallAnswers: no record is lost if the records of one partition fill an answer, so
// that it has none of the other partitions. The reader must not take that for a gap.
func testSmallAnswers(t *testing.T, c *Client) {
	const partitions, each = 5, 12
	name := topic(t, c, partitions)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	for i := range each {
		var records []Record
		for part := range int32(partitions) {
			records = append(records, Record{Topic: name, Partition: part, Value: fmt.Append(nil, part, i)})
		}
		commit(t, p, records...)
	}
	var want []string
	for part := range partitions {
		for i := range each {
			want = append(want, fmt.Sprint(part, i))
		}
	}
	same(t, want, values(committed(t, c, ReaderConfig{MaxBytes: 1}, name, nil, p)))
}

// testOutOfRange: an offset that was deleted or lies behind the end of the log is an
// OutOfRangeError with the bounds of the log. A topic that does not exist is an error,
// too, but only after the records of other topics were returned.
func testOutOfRange(t *testing.T, c *Client) {
	c = c.impatient(t)
	name := topic(t, c, 2)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	var records []Record
	for i := range 5 {
		records = append(records, Record{Topic: name, Value: fmt.Append(nil, i)}, Record{Topic: name, Partition: 1, Value: fmt.Append(nil, i)})
	}
	commit(t, p, records...)
	committed(t, c, ReaderConfig{}, name, nil, p) // returns once the markers are written
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.TimeoutMillis = 5000
	del.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 1, Offset: 3}}}}
	res, err := del.RequestWith(t.Context(), franzClient(t, c))
	if err != nil || res.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(err, res)
	}
	for _, test := range []struct {
		at   TopicPartition
		from int64
		want Bounds
	}{
		{TopicPartition{name, 1}, 2, Bounds{3, 6}}, // deleted; the log ends behind 5 records and a marker
		{TopicPartition{name, 1}, 7, Bounds{3, 6}},
		{TopicPartition{name, 0}, 100, Bounds{0, 6}},
	} {
		start := map[TopicPartition]int64{{name, 0}: 0, {name, 1}: 3}
		start[test.at] = test.from
		r := c.NewReader(start, ReaderConfig{})
		var got *OutOfRangeError
		if _, err := pollError(t, r); !errors.As(err, &got) {
			t.Fatal(err)
		}
		same(t, &OutOfRangeError{At: test.at, Position: test.from, Bounds: test.want}, got)
	}

	absent := unique("absent")
	r := c.NewReader(map[TopicPartition]int64{{name, 0}: 0, {absent, 0}: 0}, ReaderConfig{})
	read, err := pollError(t, r)
	if !errors.Is(err, kafkago.UnknownTopicOrPartition) || !strings.Contains(err.Error(), absent) {
		t.Errorf("a topic that does not exist: error %v, want %v that names %s", err, kafkago.UnknownTopicOrPartition, absent)
	}
	if read != 5 {
		t.Errorf("%d records of the other topic were read before the error, want 5", read)
	}
}

// replacement is what happens to a topic that a reader has read "a", "b" and "c" from.
type replacement struct {
	name      string
	values    []string // sent next; all records of a new topic
	missed    bool     // the reader got the error that the topic does not exist
	unchanged bool     // the topic is not deleted
}

var replacements = []replacement{
	{name: "the record at the last offset is another one", values: []string{"a", "b", "x", "d"}, missed: true},
	{name: "another record, and no request failed meanwhile", values: []string{"a", "b", "x", "d"}},
	{name: "the new topic ends before the last offset", values: []string{"a"}, missed: true},
	{name: "the new topic is empty", missed: true},
	{name: "the same topic after an error", values: []string{"d"}, missed: true, unchanged: true},
	{name: "the same topic after a time without requests", values: []string{"d"}, unchanged: true},
}

// test: if a topic is deleted and created anew, a reader that has read from the former one
// returns a ReplacedError and no record, even if the new log is long enough to have the reader's
// position. Otherwise another graph's events would continue this one.
func (x *replacement) test(t *testing.T, c *Client) {
	c = c.impatient(t)
	name := topic(t, c, 1)
	send := func(values ...string) {
		var records []Record
		for _, v := range values {
			records = append(records, Record{Topic: name, Value: []byte(v)})
		}
		if err := producer(t, c, ProducerConfig{}).Send(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	send("a", "b", "c")
	at := TopicPartition{name, 0}
	r := c.NewReader(map[TopicPartition]int64{at: 0}, ReaderConfig{MaxWait: 10 * time.Millisecond})
	pollUntil(t, r, "three records are read", func([]Record) bool { return r.Position(at) >= 3 })
	p := r.index[at]
	if !x.unchanged {
		drop(t, c, name)
	}
	if x.missed {
		p.answered(kafkago.UnknownTopicOrPartition)
	} else {
		p.times.answered = time.Time{} // as after confirmAfter
	}
	if !x.unchanged {
		_, err := c.CreateTopics(t.Context(), TopicSpec{Name: name, Partitions: 1, Replication: -1})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(x.values) > 0 {
		send(x.values...)
	}
	var got []string
	var err error
	ctx, cancel := context.WithTimeout(t.Context(), kafkatest.Patience)
	defer cancel()
	for err == nil && len(got) == 0 {
		var records []Record
		records, err = r.Poll(ctx)
		got = append(got, values(records)...)
	}
	if ctx.Err() != nil {
		t.Fatalf("waiting for records or an error: %v", err)
	}
	if x.unchanged {
		if err != nil {
			t.Fatal(err)
		}
		same(t, x.values, got)
		return
	}
	var replaced *ReplacedError
	if !errors.As(err, &replaced) || len(got) > 0 || strings.Contains(err.Error(), "\n") {
		t.Fatalf("read %q, error %v, want no records and a ReplacedError in one line", got, err)
	}
	same(t, &ReplacedError{At: at, Offset: 2}, replaced)
}

// drop deletes a topic and waits until metadata no longer has it.
func drop(t *testing.T, c *Client, name string) {
	t.Helper()
	res, err := c.client.DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{name}})
	if err == nil {
		err = res.Errors[name]
	}
	if err != nil {
		t.Fatal(err)
	}
	kafkatest.Await(t, "topic "+name+" is gone", func() bool {
		counts, err := c.Partitions(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return counts[name] == 0
	})
}

// testAdd: a partition that is added to a reader is read from its given offset, and those
// that it had go on. Adding one that does not exist is an error.
func testAdd(t *testing.T, c *Client) {
	c = c.impatient(t)
	name := topic(t, c, 2)
	at := func(part int32) TopicPartition { return TopicPartition{name, part} }
	r := c.NewReader(map[TopicPartition]int64{at(0): 0}, ReaderConfig{MaxWait: 10 * time.Millisecond})
	send := func(part int32, v string) {
		if err := producer(t, c, ProducerConfig{}).Send(t.Context(), []Record{{Topic: name, Partition: part, Value: []byte(v)}}); err != nil {
			t.Fatal(err)
		}
	}
	poll := func() (value string) {
		pollUntil(t, r, "a record is read", func(records []Record) bool {
			if len(records) > 0 {
				value = string(records[0].Value)
			}
			return value != ""
		})
		return value
	}
	send(1, "b")
	send(0, "a")
	same(t, "a", poll())
	r.Add(at(1), 0)
	same(t, "b", poll())
	send(0, "c")
	same(t, "c", poll())
	if r.Position(at(1)) != 1 {
		t.Errorf("Position(%v) = %d, want 1", at(1), r.Position(at(1)))
	}
	r.Add(at(2), 0)
	if _, err := pollError(t, r); !errors.Is(err, kafkago.UnknownTopicOrPartition) || !strings.Contains(err.Error(), name+" partition 2") {
		t.Errorf("a partition that does not exist: error %v, want %v that names partition 2", err, kafkago.UnknownTopicOrPartition)
	}
}

// testQuiet: Quiet grows for a partition that answers without records and is 0 for one
// that has just had some. A log that ends before an offset that it is known to have
// reached is an OutOfRangeError.
func testQuiet(t *testing.T, c *Client) {
	c = c.impatient(t)
	name := topic(t, c, 2)
	r := c.NewReader(map[TopicPartition]int64{{name, 0}: 0, {name, 1}: 0}, ReaderConfig{MaxWait: 10 * time.Millisecond})
	if q := r.Quiet(TopicPartition{name, 0}); q != 0 {
		t.Errorf("before the first request: Quiet = %v, want 0", q)
	}
	p := producer(t, c, ProducerConfig{})
	kafkatest.Await(t, "a partition without records is quiet for 100 ms", func() bool {
		if err := p.Send(t.Context(), []Record{{Topic: name, Value: []byte("a")}}); err != nil {
			t.Fatal(err)
		}
		pollUntil(t, r, "the record is read", func(records []Record) bool { return len(records) > 0 })
		if q := r.Quiet(TopicPartition{name, 0}); q != 0 {
			t.Errorf("after an answer with a record: Quiet = %v, want 0", q)
		}
		return r.Quiet(TopicPartition{name, 1}) >= 100*time.Millisecond
	})
	r.Expect(TopicPartition{name, 1}, 1)
	var got *OutOfRangeError
	if _, err := pollError(t, r); !errors.As(err, &got) {
		t.Fatal(err)
	}
	same(t, &OutOfRangeError{At: TopicPartition{name, 1}, Position: 0, Bounds: Bounds{0, 0}}, got)
}

// lossy is a transport that loses some requests, or the answers to them.
type lossy struct {
	kafkago.RoundTripper
	lost     func(kafkago.Request) bool
	requests bool // the request itself is lost, otherwise its answer
}

func (l *lossy) RoundTrip(ctx context.Context, addr net.Addr, req kafkago.Request) (kafkago.Response, error) {
	lost := l.lost(req)
	if lost && l.requests {
		return nil, errLost
	}
	res, err := l.RoundTripper.RoundTrip(ctx, addr, req)
	if lost && err == nil {
		return nil, errLost
	}
	return res, err
}

func isEndTxn(r kafkago.Request) bool { return r.ApiKey() == protocol.EndTxn }

var errLost = errors.New("lost by the test")

// loseRequests makes the client lose the requests for which lost returns true.
func loseRequests(c *Client, lost func(kafkago.Request) bool) {
	c.client.Transport = &lossy{c.transport, lost, true}
}

// loseAnswers makes the client lose the answers to the requests for which lost returns
// true.
func loseAnswers(c *Client, lost func(kafkago.Request) bool) {
	c.client.Transport = &lossy{c.transport, lost, false}
}

func loseNothing(c *Client) { c.client.Transport = c.transport }

// testLostAnswers: a commit to which no answer arrives is ErrUnknown, and the producer
// refuses to go on. After a Restart a reader finds that the transaction is committed.
func testLostAnswers(t *testing.T, c *Client) {
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name, RetryFor: 2 * time.Second})
	commit(t, p, Record{Topic: name, Value: []byte("a")})
	loseAnswers(c, isEndTxn)
	err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("b")}}, "", nil)
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, errLost) {
		t.Errorf("all answers to EndTxn are lost: error %v, want ErrUnknown", err)
	}
	loseNothing(c)
	if err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("c")}}, "", nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("a commit without a restart: error %v, want ErrUnknown", err)
	}
	same(t, []string{"a", "b"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
	commit(t, p, Record{Topic: name, Value: []byte("c")})
	same(t, []string{"a", "b", "c"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
}

// testLostRequests: a commit request that never arrives looks the same to the producer.
// After a Restart a reader finds that the transaction is not committed.
func testLostRequests(t *testing.T, c *Client) {
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name, RetryFor: 200 * time.Millisecond})
	loseRequests(c, isEndTxn)
	err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "", nil)
	if !errors.Is(err, ErrUnknown) {
		t.Errorf("EndTxn does not arrive: error %v, want ErrUnknown", err)
	}
	loseNothing(c)
	same(t, []string(nil), values(committed(t, c, ReaderConfig{}, name, nil, p)))
	commit(t, p, Record{Topic: name, Value: []byte("a")})
	same(t, []string{"a"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
}

// testOneLostAnswer: each request of a commit can be sent again after its answer was
// lost; the records are committed once.
func testOneLostAnswer(t *testing.T, c *Client) {
	name, group := topic(t, c, 1), unique("g")
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	var want []string
	for _, key := range []protocol.ApiKey{protocol.AddPartitionsToTxn, protocol.AddOffsetsToTxn, protocol.TxnOffsetCommit, protocol.EndTxn} {
		left := 1
		loseAnswers(c, func(r kafkago.Request) bool {
			if r.ApiKey() != key || left == 0 {
				return false
			}
			left--
			return true
		})
		want = append(want, key.String())
		if err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte(key.String())}}, group, map[TopicPartition]int64{{name, 0}: 1}); err != nil {
			t.Errorf("the answer to %v is lost once: %v", key, err)
		}
		if left > 0 {
			t.Errorf("no answer to %v was lost", key)
		}
	}
	same(t, want, values(committed(t, c, ReaderConfig{}, name, nil, p)))
}

// testLateEnd: the request that ends a transaction is on its way for so long that it is sent again,
// and arrives in the midst of the next one. It must not end that (KIP-890).
func testLateEnd(t *testing.T, c *Client) {
	name, group := topic(t, c, 2), unique("g")
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	for i := range int64(2) {
		var late kafkago.Request
		loseRequests(c, func(r kafkago.Request) bool {
			first := late == nil && isEndTxn(r)
			if first {
				late = r
			}
			return first
		})
		commit(t, p, Record{Topic: name, Value: []byte("a")})
		begin(t, p, Record{Topic: name, Value: []byte("b")})
		if _, err := c.transport.RoundTrip(t.Context(), c.client.Addr, late); err != nil {
			t.Fatal(err)
		}
		begin(t, p, Record{Topic: name, Partition: 1, Value: []byte("b")})
		if err := p.End(t.Context(), group, map[TopicPartition]int64{{name, 0}: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"a", "b", "a", "b", "b", "b"}
	same(t, want, values(committed(t, c, ReaderConfig{}, name, nil, p)))
	offsets, err := c.Committed(t.Context(), group, name)
	if err != nil {
		t.Fatal(err)
	}
	same(t, map[TopicPartition]int64{{name, 0}: 2}, offsets)
}

// testSend: records that are sent without a transaction can be read at once in a
// partition without an open transaction. Behind an open one they wait for its end.
func testSend(t *testing.T, c *Client) {
	name := topic(t, c, 2)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	begin(t, p, Record{Topic: name, Value: []byte("open")})
	s := producer(t, c, ProducerConfig{Compression: "lz4"})
	for i := range 3 {
		if err := s.Send(t.Context(), []Record{{Topic: name, Partition: 1, Value: fmt.Append(nil, i)}, {Topic: name, Value: []byte("behind")}}); err != nil {
			t.Fatal(err)
		}
	}
	same(t, []string{"0", "1", "2"}, values(committed(t, c, ReaderConfig{}, name, nil)))
	if err := p.end(t.Context(), p.cfg.RetryFor, false); err != nil {
		t.Fatal(err)
	}
	same(t, []string{"behind", "behind", "behind", "0", "1", "2"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
}

// testEmptyCommit: a commit without records sends nothing. Brokers refuse to
// end an empty transaction.
func testEmptyCommit(t *testing.T, c *Client) {
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	commit(t, p)
	if err := p.Commit(t.Context(), nil, "group", nil); err != nil {
		t.Fatal(err)
	}
	bounds, err := c.Offsets(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	same(t, map[TopicPartition]Bounds{{name, 0}: {}}, bounds)
}
