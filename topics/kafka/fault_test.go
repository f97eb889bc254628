package kafka

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestTransientFaults has every request of a commit answered with an error that
// passes, some of them after the work was done.
func TestTransientFaults(t *testing.T) {
	for _, test := range []struct {
		key kmsg.Key
		err *kerr.Error
	}{
		{kmsg.InitProducerID, kerr.ConcurrentTransactions},
		{kmsg.InitProducerID, kerr.CoordinatorLoadInProgress},
		{kmsg.AddPartitionsToTxn, kerr.ConcurrentTransactions},
		{kmsg.AddPartitionsToTxn, kerr.NotCoordinator},
		{kmsg.Produce, kerr.RequestTimedOut},
		{kmsg.Produce, kerr.NotEnoughReplicas},
		{kmsg.Produce, kerr.NotEnoughReplicasAfterAppend},
		{kmsg.Produce, kerr.NotLeaderForPartition},
		{kmsg.Produce, kerr.UnknownTopicOrPartition},
		{kmsg.AddOffsetsToTxn, kerr.ConcurrentTransactions},
		{kmsg.AddOffsetsToTxn, kerr.CoordinatorNotAvailable},
		{kmsg.TxnOffsetCommit, kerr.CoordinatorLoadInProgress},
		{kmsg.TxnOffsetCommit, kerr.RequestTimedOut},
		{kmsg.EndTxn, kerr.ConcurrentTransactions},
		{kmsg.EndTxn, kerr.NotCoordinator},
		{kmsg.Fetch, kerr.NotLeaderForPartition},
		{kmsg.Fetch, kerr.OffsetOutOfRange}, // from a replica that lags
		{kmsg.ListOffsets, kerr.LeaderNotAvailable},
	} {
		t.Run(test.key.Name()+" "+test.err.Message, func(t *testing.T) {
			t.Parallel()
			f := fake(t, kfake.NumBrokers(2))
			c := dial(t, Config{Brokers: f.ListenAddrs()})
			name := topic(t, c, 2)
			h := f.Fault(kfake.Fault{Keys: []kmsg.Key{test.key}, Err: test.err, Count: 3})
			p := producer(t, c, ProducerConfig{TransactionalID: name})
			at := TopicPartition{name, 0}
			for _, v := range []string{"a", "b"} {
				records := []Record{{Topic: name, Value: []byte(v)}, {Topic: name, Partition: 1, Value: []byte(v)}}
				if err := p.Commit(t.Context(), records, "group", map[TopicPartition]int64{at: 1}); err != nil {
					t.Fatal(err)
				}
			}
			same(t, []string{"a", "b", "a", "b"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
			if h.Hits() != 3 {
				t.Errorf("%d of 3 faults happened", h.Hits())
			}
		})
	}
}

// TestCutConnections has connections closed in front of requests.
func TestCutConnections(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	commit(t, p, Record{Topic: name, Value: []byte("a")})
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.EndTxn, kmsg.Fetch, kmsg.FindCoordinator} {
		f.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errLost, true })
	}
	commit(t, p, Record{Topic: name, Value: []byte("b")})
	same(t, []string{"a", "b"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
}

// TestSilence has requests that are never answered: one try is given up in
// time for the next.
func TestSilence(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs(), Timeout: 200 * time.Millisecond})
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.Fetch} {
		f.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
	}
	commit(t, p, Record{Topic: name, Value: []byte("a")})
	same(t, []string{"a"}, values(committed(t, c, ReaderConfig{MaxWait: time.Millisecond}, name, nil, p)))
}

// TestRefused has a commit refused for good: the error is not of unknown
// outcome, and the transaction does not stay open in front of the readers.
func TestRefused(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.TxnOffsetCommit} {
		t.Run(key.Name(), func(t *testing.T) {
			t.Parallel()
			f := fake(t)
			c := dial(t, Config{Brokers: f.ListenAddrs()})
			name := topic(t, c, 2)
			p := producer(t, c, ProducerConfig{TransactionalID: name})
			f.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: name, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed})
			at := TopicPartition{name, 1}
			err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}, {Topic: name, Partition: 1, Value: []byte("a")}}, "group", map[TopicPartition]int64{at: 1})
			if !errors.Is(err, kafkago.TopicAuthorizationFailed) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrFenced) {
				t.Errorf("a commit that is refused: %v", err)
			}
			s := producer(t, c, ProducerConfig{})
			if err := s.Send(t.Context(), []Record{{Topic: name, Value: []byte("behind")}}); err != nil {
				t.Fatal(err)
			}
			same(t, []string{"behind"}, values(committed(t, c, ReaderConfig{}, name, nil)))
			if err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "", nil); !errors.Is(err, kafkago.TopicAuthorizationFailed) {
				t.Errorf("a commit without a restart: %v", err)
			}
			if err := p.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			commit(t, p, Record{Topic: name, Value: []byte("a")})
			same(t, []string{"behind", "a"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
		})
	}
}

// TestOutage has errors that last longer than the patience.
func TestOutage(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name, RetryFor: 50 * time.Millisecond})
	h := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1})
	err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "", nil)
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, kafkago.NotEnoughReplicasAfterAppend) {
		t.Errorf("the replicas do not answer: %v", err)
	}
	h.Remove()
	same(t, []string(nil), values(committed(t, c, ReaderConfig{}, name, nil, p)))
	commit(t, p, Record{Topic: name, Value: []byte("a")})
	same(t, []string{"a"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
}

// TestForgotten has a broker that no longer knows the producer: a new session
// mends that.
func TestForgotten(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{})
	for _, e := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch} {
		f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: e})
		if err := p.Send(t.Context(), []Record{{Topic: name, Value: []byte("a")}}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v: %v", e, err)
		}
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Send(t.Context(), []Record{{Topic: name, Value: []byte("a")}}); err != nil {
		t.Error(err)
	}
	same(t, []string{"a"}, values(committed(t, c, ReaderConfig{}, name, nil)))
}

// TestLeaderMoves moves the partitions between the brokers while they are
// written and read.
func TestLeaderMoves(t *testing.T) {
	f := fake(t, kfake.NumBrokers(3))
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	name := topic(t, c, 2)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	r := c.NewReader(map[TopicPartition]int64{{name, 0}: 0, {name, 1}: 0}, ReaderConfig{})
	var want, got []string
	for i := range int32(4) {
		for part := range int32(2) {
			if err := f.MoveTopicPartition(name, part, (i+part)%3); err != nil {
				t.Fatal(err)
			}
		}
		v := string('a' + i)
		commit(t, p, Record{Topic: name, Value: []byte(v)}, Record{Topic: name, Partition: 1, Value: []byte(v)})
		for want = append(want, v, v); len(got) < len(want); {
			records, err := r.Poll(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, values(records)...)
		}
	}
	same(t, want, got)
}

// TestOnePartitionFails has one partition refused while the other one always
// has records: the refusal must be heard, and the records not be lost.
func TestOnePartitionFails(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	name := topic(t, c, 2)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	for range 10 {
		commit(t, p, Record{Topic: name, Value: []byte("x")}, Record{Topic: name, Partition: 1, Value: []byte("x")})
	}
	h := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: name, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	r := c.NewReader(map[TopicPartition]int64{{name, 0}: 0, {name, 1}: 0}, ReaderConfig{MaxBytes: 1})
	records, err := r.Poll(t.Context())
	if len(records) == 0 || err != nil {
		t.Fatalf("first Poll: %d records, %v", len(records), err)
	}
	none, err := r.Poll(t.Context())
	if len(none) > 0 || !errors.Is(err, kafkago.TopicAuthorizationFailed) || !strings.Contains(err.Error(), name+" partition 1") {
		t.Fatalf("second Poll: %d records, %v", len(none), err)
	}
	h.Remove()
	for len(records) < 20 {
		more, err := r.Poll(t.Context())
		if err != nil && !errors.Is(err, kafkago.TopicAuthorizationFailed) {
			t.Fatal(err)
		}
		records = append(records, more...)
	}
}

// TestPollEnds has Poll end with its context, whatever it waits for.
func TestPollEnds(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs(), DialFor: time.Hour})
	name := topic(t, c, 1)
	for _, test := range []struct {
		what  string
		topic string
		fault *kerr.Error
	}{
		{"nothing new", name, nil},
		{"a topic that does not exist", "absent", nil},
		{"a leader", name, kerr.LeaderNotAvailable},
	} {
		if test.fault != nil {
			f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: test.fault, Count: -1})
		}
		r := c.NewReader(map[TopicPartition]int64{{test.topic, 0}: 0}, ReaderConfig{MaxWait: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if records, err := r.Poll(ctx); !errors.Is(err, context.DeadlineExceeded) || len(records) > 0 {
			t.Errorf("Poll waits for %s: %d records, %v", test.what, len(records), err)
		}
		cancel()
	}
}

// TestCommitEnds has a commit end with its context.
func TestCommitEnds(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	name := topic(t, c, 1)
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.CoordinatorNotAvailable, Count: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Commit(ctx, []Record{{Topic: name, Value: []byte("a")}}, "", nil)
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the context ends in a commit: %v", err)
	}
}

// TestDialNobody has addresses where no broker answers: one refuses
// connections, one accepts them and says nothing.
func TestDialNobody(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, l := range []net.Listener{mute, gone} {
		addr := l.Addr().String()
		_, err := Dial(t.Context(), Config{Brokers: []string{addr}, DialFor: 200 * time.Millisecond})
		if err == nil {
			t.Fatal("somebody answered")
		}
		if line := err.Error(); !strings.Contains(line, addr) || strings.Contains(line, "\n") || !strings.Contains(line, "check the address") {
			t.Errorf("not a line with the address and a remedy: %s", line)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, Config{Brokers: []string{gone.Addr().String()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("the context ends in Dial: %v", err)
	}
	if _, err := Dial(t.Context(), Config{}); err == nil {
		t.Error("no address is no error")
	}
}

// TestCompacted reads over the gaps that compaction leaves.
func TestCompacted(t *testing.T) {
	f := fake(t)
	c := dial(t, Config{Brokers: f.ListenAddrs()})
	name := unique("compacted")
	_, err := c.CreateTopics(t.Context(), TopicSpec{Name: name, Partitions: 1, Replication: -1, Config: map[string]string{
		"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := producer(t, c, ProducerConfig{TransactionalID: name})
	for i := range 20 {
		var records []Record
		for k := range 5 {
			records = append(records, Record{Topic: name, Key: []byte{byte('a' + k)}, Value: []byte{byte('a' + i)}})
		}
		commit(t, p, records...)
	}
	all := committed(t, c, ReaderConfig{}, name, nil, p)
	f.Compact()
	left := committed(t, c, ReaderConfig{}, name, nil, p)
	if len(all) != 100 || len(left) >= 50 {
		t.Fatalf("compaction left %d records of %d", len(left), len(all))
	}
	same(t, values(all[95:]), values(left[len(left)-5:]))
	at := TopicPartition{name, 0}
	for start := left[0].Offset; start < all[99].Offset; start++ {
		from := slices.IndexFunc(left, func(r Record) bool { return r.Offset >= start })
		same(t, values(left[from:]), values(committed(t, c, ReaderConfig{}, name, map[TopicPartition]int64{at: start})))
	}
}
