package kafka

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// quota throttles fetches of a kfake as Apache Kafka does: an answer has no partitions.
type quota struct {
	mu      sync.Mutex
	answers []time.Duration // throttle times of the next ones; 0 is an answer of kfake's own
	until   time.Time       // end of the last one
	early   int             // fetches before it
}

func limit(f *kfake.Cluster, answers ...time.Duration) *quota {
	q := &quota{answers: answers}
	f.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		q.mu.Lock()
		defer q.mu.Unlock()
		if time.Now().Before(q.until) {
			q.early++
		}
		if len(q.answers) == 0 {
			return nil, nil, false
		}
		d := q.answers[0]
		if q.answers = q.answers[1:]; d == 0 {
			return nil, nil, false
		}
		q.until = time.Now().Add(d)
		res := req.ResponseKind().(*kmsg.FetchResponse)
		res.ThrottleMillis = int32(d.Milliseconds())
		return res, nil, true
	})
	return q
}

func (q *quota) answer(answers ...time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers = answers
}

func (q *quota) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.answers)
}

// TestThrottledFetch: a broker that throttles its client answers a fetch without any partition,
// for longer than a topic must be missing to be believed gone. That says nothing of the log: the
// reader waits as long as it is told, says for what, and goes on. What is read between two such
// answers is not read again to be confirmed, since that alone might use the quota up.
func TestThrottledFetch(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{DialFor: 3 * time.Second})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		at := TopicPartition{name, 0}
		ids, err := c.TopicIDs(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		r := c.NewReader(map[TopicPartition]int64{at: 0}, ReaderConfig{})
		r.Believe(at, ids[name], Mark{})
		next := func(want string) {
			t.Helper()
			commit(t, p, Record{Topic: name, Value: []byte(want)})
			var got []string
			pollUntil(t, r, "record "+want+" is read", func(records []Record) bool {
				got = append(got, values(records)...)
				return len(got) > 0
			})
			same(t, []string{want}, got)
		}
		next("a")

		q := limit(k.Fake, slices.Repeat([]time.Duration{5 * time.Second}, 4)...)
		began := time.Now()
		said := make(chan string, 1)
		time.AfterFunc(4*time.Second, func() { said <- c.Health.Trouble() })
		next("b")
		if took := time.Since(began); took < 20*time.Second || q.early > 0 {
			t.Errorf("throttled for 20 s, the record came after %v, and %d fetches before their time", took, q.early)
		}
		if what := <-said; what != errThrottled.Error() {
			t.Errorf("Trouble = %q, want %q", what, errThrottled)
		}
		if total, now := c.Health.Throttled(); total["fetch"] != 20*time.Second || !now {
			t.Errorf("throttled for %v, now %v, want 20 s and true", total, now)
		}
		if what := c.Health.Trouble(); what != "" {
			t.Errorf("when all is answered, Trouble = %q", what)
		}

		// A single answer between two others is enough to go on.
		commit(t, p, Record{Topic: name, Value: []byte("c")})
		position := r.Position(at)
		q.answer(5*time.Second, 0, 5*time.Second)
		pollUntil(t, r, "three fetches are answered", func([]Record) bool { return q.left() == 0 })
		if r.Position(at) == position {
			t.Error("a fetch between two throttled ones brought nothing")
		}

		// A topic that is created anew meanwhile is noticed all the same.
		q.answer(5 * time.Second)
		time.AfterFunc(2*time.Second, func() {
			drop(t, c, name)
			if _, err := c.CreateTopics(t.Context(), TopicSpec{Name: name, Partitions: 1, Replication: 1}); err != nil {
				t.Error(err)
			}
			s := producer(t, c, ProducerConfig{})
			for range 20 {
				if err := s.Send(t.Context(), []Record{{Topic: name, Value: []byte("another")}}); err != nil {
					t.Error(err)
				}
			}
		})
		var replaced *ReplacedError
		if read, err := pollError(t, r); read > 0 || !errors.As(err, &replaced) && !errors.Is(err, kafkago.UnknownTopicOrPartition) {
			t.Errorf("of a topic that was created anew: %d records, error %v", read, err)
		}
	}, kfake.NumBrokers(1))
}

// TestThrottledProducer: what was produced is acknowledged with a time for which the broker reads nothing
// more from the connection. The next requests go on another one, and the next records wait, for no
// longer than a request may take.
func TestThrottledProducer(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name, RetryFor: 20 * time.Second})
		answers := []time.Duration{3 * time.Second, time.Hour}
		c.transport.throttled = func(request protocol.ApiKey, _ time.Duration) {
			if request == protocol.Produce && len(answers) > 0 {
				c.Health.throttling.add(request, answers[0], slog.Default())
				answers = answers[1:]
			}
		}
		began := time.Now()
		for _, want := range []time.Duration{0, 3 * time.Second, 13 * time.Second} {
			commit(t, p, Record{Topic: name, Value: []byte("a")})
			if at := time.Since(began).Round(time.Second); at != want {
				t.Errorf("it was committed after %v, want %v", at, want)
			}
		}
		if total, _ := c.Health.Throttled(); total["produce"] != time.Hour+3*time.Second {
			t.Errorf("throttled for %v", total)
		}
	}, kfake.NumBrokers(1))
}

// TestThrottledConfirmation: a start under a quota, whose answers to the confirmation of the log
// have no partitions either.
func TestThrottledConfirmation(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{DialFor: 3 * time.Second})
		name := topic(t, c, 1)
		p := producer(t, c, ProducerConfig{TransactionalID: name})
		commit(t, p, Record{Topic: name, Value: []byte("a")})
		commit(t, p, Record{Topic: name, Value: []byte("b")})
		at := TopicPartition{name, 0}
		first := committed(t, c, ReaderConfig{}, name, nil)[0]
		limit(k.Fake, slices.Repeat([]time.Duration{500 * time.Millisecond}, 40)...)
		r := c.NewReader(map[TopicPartition]int64{at: 1}, ReaderConfig{})
		r.Believe(at, "", MarkOf(&first))
		var read []Record
		pollUntil(t, r, "the second record is read", func(records []Record) bool {
			read = append(read, records...)
			return len(read) > 0
		})
		same(t, []string{"b"}, values(read))
	}, kfake.NumBrokers(1))
}

// TestThrottledStart: brokers answer the first question at once, with a quota of an hour, and none behind it. The error says so, and
// not that no broker answers.
func TestThrottledStart(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		k.Fake.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
			k.Fake.KeepControl()
			return nil, errors.New("nothing comes before the start ends"), true
		})
		k.Fake.ControlKey(int16(kmsg.ApiVersions), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.Fake.KeepControl()
			res := kmsg.NewPtrApiVersionsResponse()
			res.Version, res.ThrottleMillis = req.GetVersion(), int32(time.Hour.Milliseconds())
			for key := range int16(70) {
				if r := kmsg.RequestForKey(key); r != nil {
					res.ApiKeys = append(res.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MaxVersion: r.MaxVersion()})
				}
			}
			return res, nil, true
		})
		_, err := Dial(t.Context(), Config{Brokers: k.Addrs, Dialer: k.Dial, DialFor: 3 * time.Second, ClientID: "gvbll-work", Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "a quota throttles client gvbll-work at ") {
			t.Errorf("a start under a quota ends with %v", err)
		}
	}, kfake.NumBrokers(1))
}
