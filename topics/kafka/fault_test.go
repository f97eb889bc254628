package kafka

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestTransientFaults: a request that is answered with a transient error is retried until
// it succeeds, and every record is committed once. Each request of a commit and of a read
// fails three times; after some of the errors the broker may have done the work.
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
		{kmsg.Fetch, kerr.OffsetOutOfRange}, // a new leader whose log is behind
		{kmsg.ListOffsets, kerr.LeaderNotAvailable},
	} {
		t.Run(test.key.Name()+" "+test.err.Message, func(t *testing.T) {
			kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
				f, c := k.Fake, dial(t, k, Config{})
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
					t.Errorf("%d faults were injected, want 3", h.Hits())
				}
			}, kfake.NumBrokers(2))
		})
	}
}

// TestCoordinatorAway: a group's offsets are asked for until its coordinator is there, as while it moves in a busy cluster, or
// until the context ends.
func TestCoordinatorAway(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		name, began := topic(t, c, 1), time.Now()
		k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.NotCoordinator, Count: 200})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Committed(short, "group", name); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kafkago.NotCoordinatorForGroup) {
			t.Errorf("with a second, error %v, want that and what the broker says", err)
		}
		if _, err := c.Committed(t.Context(), "group", name); err != nil || time.Since(began) < 2*c.cfg.DialFor {
			t.Errorf("error %v after %v, want none, after more than %v", err, time.Since(began), 2*c.cfg.DialFor)
		}
	})
}

// TestCutConnections: requests whose connection is closed before they are answered are
// retried on a new one.
func TestCutConnections(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		commit(t, p, Record{Topic: name, Value: []byte("a")})
		for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.EndTxn, kmsg.Fetch, kmsg.FindCoordinator} {
			f.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errLost, true })
		}
		commit(t, p, Record{Topic: name, Value: []byte("b")})
		same(t, []string{"a", "b"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
	})
}

// TestNoAnswer: a request that is never answered is given up after Config.Timeout, which
// leaves time for another try.
func TestNoAnswer(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{Timeout: 200 * time.Millisecond})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.Fetch} {
			f.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
		}
		commit(t, p, Record{Topic: name, Value: []byte("a")})
		same(t, []string{"a"}, values(committed(t, c, ReaderConfig{MaxWait: time.Millisecond}, name, nil, p)))
	})
}

// TestTooFewReplicas: while fewer replicas of a topic are in sync than its min.insync.replicas, brokers
// say that a transaction cannot begin, as they do for some milliseconds after every other. What is
// waited for names the topic and the setting.
func TestTooFewReplicas(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		few := TopicSpec{Name: unique("few"), Partitions: 1, Replication: 1, Config: map[string]string{MinInSync: "2"}}
		if _, err := c.CreateTopics(t.Context(), few); err != nil {
			t.Fatal(err)
		}
		p := producer(t, c, ProducerConfig{TransactionalID: few.Name})
		commit(t, p, Record{Topic: few.Name, Value: []byte("a")})
		if what := c.TooFewReplicas(t.Context(), false, few.Name); what != "" {
			t.Errorf("a topic that takes records is said to take none: %s", what)
		}
		h := k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.InitProducerID}, Err: kerr.ConcurrentTransactions, Count: -1})
		said := make(chan string, 1)
		time.AfterFunc(20*time.Second, func() {
			h.Remove()
			said <- c.Health.Trouble()
		})
		err := p.Commit(t.Context(), []Record{{Topic: few.Name, Value: []byte("b")}}, "", nil)
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), MinInSync+"=2") {
			t.Errorf("error %v, want ErrUnknown that names the setting", err)
		}
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if what := <-said; !strings.Contains(what, few.Name+" has a partition with 1 of 1 replicas in sync, and "+MinInSync+"=2") {
			t.Errorf("Trouble = %q, want the topic and the setting", what)
		}
		commit(t, p, Record{Topic: few.Name, Value: []byte("c")})
		same(t, []string{"a", "c"}, values(committed(t, c, ReaderConfig{}, few.Name, nil, p)))
	}, kfake.NumBrokers(3))
}

// TestClockOff: a broker refuses records whose time is far from its own. The error is of the clock.
func TestClockOff(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidTimestamp})
		err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "", nil)
		if err == nil || !strings.Contains(err.Error(), "set the clock of this machine") || !strings.Contains(err.Error(), "2026-01-01T00:00:") {
			t.Errorf("error %v, want one that says what the clock shows and to set it", err)
		}
	})
}

// TestRefusedCommit: a commit that the broker refuses is an error with its reason, and not
// one of unknown outcome. The transaction is aborted, so that readers get the records
// behind it at once. The producer needs a Restart before it can commit again.
func TestRefusedCommit(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.TxnOffsetCommit} {
		t.Run(key.Name(), func(t *testing.T) {
			kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
				f, c := k.Fake, dial(t, k, Config{})
				name := topic(t, c, 2)
				p := producer(t, c, ProducerConfig{TransactionalID: name})
				f.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: name, Partitions: []int32{1}, Err: kerr.PolicyViolation})
				at := TopicPartition{name, 1}
				err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}, {Topic: name, Partition: 1, Value: []byte("a")}}, "group", map[TopicPartition]int64{at: 1})
				if !errors.Is(err, kafkago.PolicyViolation) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrFenced) {
					t.Errorf("a refused commit: error %v, want PolicyViolation, neither ErrUnknown nor ErrFenced", err)
				}
				s := producer(t, c, ProducerConfig{})
				if err := s.Send(t.Context(), []Record{{Topic: name, Value: []byte("behind")}}); err != nil {
					t.Fatal(err)
				}
				same(t, []string{"behind"}, values(committed(t, c, ReaderConfig{}, name, nil)))
				if err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "", nil); !errors.Is(err, kafkago.PolicyViolation) {
					t.Errorf("a commit without a restart: error %v, want that of the refused one", err)
				}
				if err := p.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				commit(t, p, Record{Topic: name, Value: []byte("a")})
				same(t, []string{"behind", "a"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
			})
		})
	}
}

// TestOutage: transient errors that last longer than RetryFor leave the outcome unknown.
// After a Restart the producer can commit again.
func TestOutage(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name, RetryFor: 50 * time.Millisecond})
		h := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1})
		err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "", nil)
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, kafkago.NotEnoughReplicasAfterAppend) {
			t.Errorf("a commit without enough replicas: error %v, want ErrUnknown with its cause", err)
		}
		h.Remove()
		same(t, []string(nil), values(committed(t, c, ReaderConfig{}, name, nil, p)))
		commit(t, p, Record{Topic: name, Value: []byte("a")})
		same(t, []string{"a"}, values(committed(t, c, ReaderConfig{}, name, nil, p)))
	})
}

// TestLostSession: if the broker has dropped the producer's session, the outcome of a Send
// is unknown, and a Restart opens a new session.
func TestLostSession(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{})
		for _, e := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch} {
			f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: e})
			if err := p.Send(t.Context(), []Record{{Topic: name, Value: []byte("a")}}); !errors.Is(err, ErrUnknown) {
				t.Errorf("answer %v: error %v, want ErrUnknown", e, err)
			}
			if err := p.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Send(t.Context(), []Record{{Topic: name, Value: []byte("a")}}); err != nil {
			t.Error(err)
		}
		same(t, []string{"a"}, values(committed(t, c, ReaderConfig{}, name, nil)))
	})
}

// TestLeaderMoves: producers and readers follow partitions to other leaders and lose no
// records.
func TestLeaderMoves(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
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
			want = append(want, v, v)
			pollUntil(t, r, "the records of both partitions are read", func(records []Record) bool {
				got = append(got, values(records)...)
				return len(got) >= len(want)
			})
		}
		same(t, want, got)
	}, kfake.NumBrokers(3))
}

// TestOnePartitionFails: the permanent error of one partition is returned although another
// partition has records in every answer, and none of these is lost.
func TestOnePartitionFails(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		name := topic(t, c, 2)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		for range 10 {
			commit(t, p, Record{Topic: name, Value: []byte("x")}, Record{Topic: name, Partition: 1, Value: []byte("x")})
		}
		h := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: name, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		r := c.NewReader(map[TopicPartition]int64{{name, 0}: 0, {name, 1}: 0}, ReaderConfig{MaxBytes: 1})
		records, err := r.Poll(t.Context())
		if len(records) == 0 || err != nil {
			t.Fatalf("first Poll: %d records, error %v, want records and no error", len(records), err)
		}
		none, err := r.Poll(t.Context())
		if len(none) > 0 || !errors.Is(err, kafkago.TopicAuthorizationFailed) || !strings.Contains(err.Error(), name+" partition 1") {
			t.Fatalf("second Poll: %d records, error %v, want none and the error of partition 1", len(none), err)
		}
		h.Remove()
		ctx, cancel := context.WithTimeout(t.Context(), kafkatest.Patience)
		defer cancel()
		for len(records) < 20 {
			more, err := r.Poll(ctx)
			if err != nil && !errors.Is(err, kafkago.TopicAuthorizationFailed) {
				t.Fatalf("waiting for 20 records, %d are read: %v", len(records), err)
			}
			records = append(records, more...)
		}
	})
}

// TestPollEnds: Poll returns when its context ends, whatever it waits for.
func TestPollEnds(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{DialFor: time.Hour})
		name := topic(t, c, 1)
		for _, test := range []struct {
			waits string // what Poll waits for
			topic string
			fault *kerr.Error
		}{
			{"new records", name, nil},
			{"a topic that does not exist", "absent", nil},
			{"a leader", name, kerr.LeaderNotAvailable},
		} {
			if test.fault != nil {
				f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: test.fault, Count: -1})
			}
			r := c.NewReader(map[TopicPartition]int64{{test.topic, 0}: 0}, ReaderConfig{MaxWait: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if records, err := r.Poll(ctx); !errors.Is(err, context.DeadlineExceeded) || len(records) > 0 {
				t.Errorf("waiting for %s: %d records, error %v, want none and DeadlineExceeded", test.waits, len(records), err)
			}
			cancel()
		}
	})
}

// TestCommitEnds: a commit returns when its context ends, with an unknown outcome.
func TestCommitEnds(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.CoordinatorNotAvailable, Count: -1})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := p.Commit(ctx, []Record{{Topic: name, Value: []byte("a")}}, "", nil)
		if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want ErrUnknown with DeadlineExceeded", err)
		}
	})
}

// TestDialUnreachable: if no broker answers, Dial returns one line with the address and
// what to check. One address accepts connections and never answers, one refuses them.
func TestDialUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	for _, l := range []net.Listener{silent, refusing} {
		addr := l.Addr().String()
		_, err := Dial(t.Context(), Config{Brokers: []string{addr}, DialFor: 200 * time.Millisecond})
		if err == nil {
			t.Fatalf("Dial(%s) gives no error", addr)
		}
		if line := err.Error(); !strings.Contains(line, addr) || strings.Contains(line, "\n") || !strings.Contains(line, "check the address") {
			t.Errorf("error %q, want one line with the address %s and %q", line, addr, "check the address")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, Config{Brokers: []string{refusing.Addr().String()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial with a canceled context: error %v, want %v", err, context.Canceled)
	}
	if _, err := Dial(t.Context(), Config{}); err == nil {
		t.Error("Dial without an address gives no error")
	}
}

// TestCompacted: a reader passes the gaps that compaction leaves, from whatever offset it
// starts at, and returns every record that is left.
func TestCompacted(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
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
			t.Fatalf("%d records before compaction and %d after it, want 100 and fewer than 50", len(all), len(left))
		}
		same(t, values(all[95:]), values(left[len(left)-5:]))
		at := TopicPartition{name, 0}
		for start := left[0].Offset; start < all[99].Offset; start++ {
			from := slices.IndexFunc(left, func(r Record) bool { return r.Offset >= start })
			same(t, values(left[from:]), values(committed(t, c, ReaderConfig{}, name, map[TopicPartition]int64{at: start})))
		}
	})
}

// TestTransactionTimeoutRefused: transactions that are longer than the brokers allow are an
// error that names the flag they follow from.
func TestTransactionTimeoutRefused(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.InvalidTransactionTimeout})
		_, err := c.NewProducer(t.Context(), ProducerConfig{TransactionalID: "long", TransactionTimeout: time.Hour})
		if err == nil || !strings.Contains(err.Error(), "--commit-interval") || !strings.Contains(err.Error(), "1h0m0s") || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with the time and --commit-interval", err)
		}
	})
}

// TestShortTransactionsOnly: where brokers allow ten seconds, transactions have no more, down to the least that their owner can use.
func TestShortTransactionsOnly(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		p, err := c.NewProducer(t.Context(), ProducerConfig{TransactionalID: "short", TransactionTimeout: time.Minute, LeastTransactionTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.TransactionTimeout(); got > 10*time.Second || got < 5*time.Second {
			t.Errorf("transactions have %v", got)
		}
		if err := p.Restart(t.Context()); err != nil {
			t.Error(err)
		}
		_, err = c.NewProducer(t.Context(), ProducerConfig{TransactionalID: "long", TransactionTimeout: time.Minute, LeastTransactionTimeout: 20 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "transactions of 20s are longer than the brokers allow") {
			t.Errorf("where 20 s are needed: %v", err)
		}
	}, kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "10000"}))
}

// TestCoordinators: a coordinator is looked up for a session, not for each request. One that
// has moved is looked up again.
func TestCoordinators(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		var lookups atomic.Int64
		f.ControlKey(int16(kmsg.FindCoordinator), func(kmsg.Request) (kmsg.Response, error, bool) {
			f.KeepControl()
			lookups.Add(1)
			return nil, nil, false
		})
		commits := func(n int) int64 {
			t.Helper()
			before := lookups.Load()
			for range n {
				if err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("a")}}, "group", map[TopicPartition]int64{{name, 0}: 1}); err != nil {
					t.Fatal(err)
				}
			}
			return lookups.Load() - before
		}
		if n := commits(10); n != 2 {
			t.Errorf("%d look-ups in the first 10 commits, want 2, of the transactional id and of the group", n)
		}
		if n := commits(10); n != 0 {
			t.Errorf("%d look-ups in the next 10 commits, want 0", n)
		}
		for f.CoordinatorFor(name) == c.transport.nodes[findcoordinator.Request{Key: name, KeyType: 1}] {
			f.RehashCoordinators()
		}
		if n := commits(10); n < 1 || n > 4 {
			t.Errorf("%d look-ups in 10 commits after the coordinators moved, want 1 to 4", n)
		}
	}, kfake.NumBrokers(3))
}

// TestErrorsHaveWords: every code that a broker may answer has words, not a number alone.
func TestErrorsHaveWords(t *testing.T) {
	for _, code := range []int16{29, 53, 58, 78, 90, 110} {
		if text := inWords(code).Error(); !strings.Contains(text, kafkago.Error(code).Title()) || strings.Count(text, " ") < 4 {
			t.Errorf("code %d is %q", code, text)
		}
	}
}
