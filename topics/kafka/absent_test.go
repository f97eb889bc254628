package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// lastWords answers metadata requests as the only broker does while it shuts down: every
// topic is there, and no partition has a leader.
func lastWords(f *kfake.Cluster, req kmsg.Request, topics ...string) kmsg.Response {
	res := req.ResponseKind().(*kmsg.MetadataResponse)
	for _, name := range topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = &name
		t.TopicID = f.TopicInfo(name).TopicID
		p := kmsg.NewMetadataResponseTopicPartition()
		p.ErrorCode, p.Leader = kerr.LeaderNotAvailable.Code, -1
		t.Partitions = append(t.Partitions, p)
		res.Topics = append(res.Topics, t)
	}
	return res
}

// TestStaleMetadata: the only broker says with its last answer that no partition has a leader,
// and is then away for longer than DialFor, while kafka-go keeps that answer. The topic is not
// believed to be gone: the reader and the producer wait, Trouble says for what, and both go on
// once the broker is back.
func TestStaleMetadata(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{DialFor: 300 * time.Millisecond})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name, RetryFor: 200 * time.Millisecond})
		commit(t, p, Record{Topic: name, Value: []byte("a")})
		at := TopicPartition{name, 0}
		r := c.NewReader(map[TopicPartition]int64{at: 0}, ReaderConfig{MaxWait: 10 * time.Millisecond})
		pollUntil(t, r, "offset 1 is read", func([]Record) bool { return r.Position(at) >= 2 })
		if what := c.Health.Trouble(); what != "" {
			t.Errorf("before: Trouble = %q, want none", what)
		}
		var away, said atomic.Bool
		away.Store(true)
		f.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
			f.KeepControl()
			switch {
			case !away.Load():
				return nil, nil, false
			case !said.Load() && req.Key() == int16(kmsg.Metadata):
				said.Store(true)
				return lastWords(f, req, name), nil, true
			case !said.Load():
				return nil, nil, false
			}
			return nil, errLost, true
		})
		type polled struct {
			records []Record
			err     error
		}
		read := make(chan polled, 1)
		go func() {
			for {
				records, err := r.Poll(t.Context())
				if len(records) > 0 || err != nil {
					read <- polled{records, err}
					return
				}
			}
		}()
		kafkatest.Await(t, "the client has trouble", func() bool { return c.Health.Trouble() != "" })
		if err := p.Commit(t.Context(), []Record{{Topic: name, Value: []byte("b")}}, "", nil); !errors.Is(err, ErrUnknown) {
			t.Errorf("a commit without a broker: error %v, want ErrUnknown", err)
		}
		away.Store(false)
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		commit(t, p, Record{Topic: name, Value: []byte("b")})
		got := kafkatest.Receive(t, read, "the record is read once the broker is back")
		if got.err != nil {
			t.Fatal(got.err)
		}
		same(t, []string{"b"}, values(got.records))
		if _, err := r.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if what := c.Health.Trouble(); what != "" {
			t.Errorf("once the broker is back: Trouble = %q, want none", what)
		}
	})
}

// TestAbsentMustLast: a broker that says for a moment that it does not know a topic, as after
// its start, is not believed.
func TestAbsentMustLast(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{DialFor: 2 * time.Second})
		name := topic(t, c, 1)
		var asked atomic.Int64
		f.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			f.KeepControl()
			if req.GetVersion() != metadataVersion {
				return nil, nil, false
			}
			if asked.Add(1) == 3 {
				return nil, nil, false // the topic is there after all
			}
			res := req.ResponseKind().(*kmsg.MetadataResponse)
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = &name, kerr.UnknownTopicOrPartition.Code
			res.Topics = append(res.Topics, topic)
			return res, nil, true
		})
		f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownTopicOrPartition, Count: -1})
		began := time.Now()
		r := c.NewReader(map[TopicPartition]int64{{name, 0}: 0}, ReaderConfig{})
		if _, err := pollError(t, r); !errors.Is(err, kafkago.UnknownTopicOrPartition) {
			t.Fatalf("error %v, want %v", err, kafkago.UnknownTopicOrPartition)
		}
		if n := asked.Load(); n != 3+leastAbsents+1 {
			t.Errorf("brokers were asked %d times, want %d: two denials, one answer, and %d denials more", n, 3+leastAbsents+1, leastAbsents+1)
		}
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("the topic was believed to be gone after %v, want 2s or more", took)
		}
	})
}

// TestAbsentAskedOnce: however many partitions a leader denies, a round asks once whether they
// exist.
func TestAbsentAskedOnce(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		f, c := k.Fake, dial(t, k, Config{})
		name := topic(t, c, 8)
		var asked, rounds atomic.Int64
		f.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			f.KeepControl()
			if req.GetVersion() == metadataVersion {
				asked.Add(1)
			}
			return nil, nil, false
		})
		f.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			f.KeepControl()
			rounds.Add(1)
			return nil, nil, false
		})
		f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownTopicOrPartition, Count: -1})
		start := make(map[TopicPartition]int64)
		for part := range int32(8) {
			start[TopicPartition{name, part}] = 0
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if records, err := c.NewReader(start, ReaderConfig{}).Poll(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%d records, error %v, want none until the context ends", len(records), err)
		}
		if asked, rounds := asked.Load(), rounds.Load(); asked == 0 || asked > rounds {
			t.Errorf("brokers were asked %d times in %d rounds, want at most once in each", asked, rounds)
		}
	})
}
