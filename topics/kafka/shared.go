package kafka

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Many readers of one process, each of a partition or a few, would hold a connection each, because a broker answers a fetch only once
// there is something. Those of a client that shares them ask together: what waits for one leader goes into one request, and an
// answer that has nothing for a reader leaves it waiting for the next.
//
// Partitions that have brought something lately are asked for apart from the others, so that a busy one does not have the
// brokers look through thousands of quiet ones each time.

// Sharing returns the same client, whose readers share requests.
func (c *Client) Sharing() *Client {
	of := *c
	of.shared = &sharedFetches{client: c, lanes: make(map[laneKey]*lane), known: make(map[string]*knownTopics)}
	return &of
}

// Bounds of shared requests.
const (
	sharedInFlight = 4                      // to one leader, of busy partitions and of quiet ones
	sharedBytes    = 16 << 20               // of an answer
	busyFor        = time.Second            // since something came
	busyWait       = 20 * time.Millisecond  // the longest wait for busy partitions: others wait for the request meanwhile
	quietWait      = 250 * time.Millisecond // and for quiet ones
	patience       = 2 * time.Second        // for which a patient reader waits
)

// sharedFetches are the fetches of a client.
type sharedFetches struct {
	client *Client

	mu    sync.Mutex
	lanes map[laneKey]*lane

	asking sync.Mutex // guards known
	known  map[string]*knownTopics
}

// knownTopics is what kafka-go knows of topics, which it copies each time.
type knownTopics struct {
	at      time.Time
	answer  *kafkago.MetadataResponse
	leaders map[TopicPartition]int // nil until somebody wants them
}

// metadata returns what kafka-go knows of topics, at most metadataTTL old where readers share requests. It is not to be changed.
func (c *Client) metadata(ctx context.Context, topics []string) (*kafkago.MetadataResponse, error) {
	if c.shared == nil {
		return c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
	}
	c.shared.asking.Lock()
	defer c.shared.asking.Unlock()
	k, err := c.shared.topics(ctx, topics, time.Time{})
	if err != nil {
		return nil, err
	}
	return k.answer, nil
}

// leaders returns the leaders of the partitions of topics as of a later time than the given one. It is not to be changed.
func (s *sharedFetches) leaders(ctx context.Context, topics []string, after time.Time) (map[TopicPartition]int, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	k, err := s.topics(ctx, topics, after)
	if err != nil {
		return nil, err
	}
	if k.leaders == nil {
		k.leaders, err = leadersIn(k.answer)
	}
	return k.leaders, err
}

// topics returns what is known of topics since a time. s.asking is held.
func (s *sharedFetches) topics(ctx context.Context, topics []string, after time.Time) (*knownTopics, error) {
	key := strings.Join(topics, " ")
	k := s.known[key]
	if k == nil || time.Since(k.at) >= metadataTTL || !k.at.After(after) {
		answer, err := s.client.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
		if err != nil {
			return nil, err
		}
		k = &knownTopics{at: time.Now(), answer: answer}
		s.known[key] = k
	}
	return k, nil
}

type laneKey struct {
	leader int32
	busy   bool
}

// lane has the readers that wait for one leader.
type lane struct {
	waiting  []*ask // in order
	inFlight int    // requests
}

// ask is what one reader asks for.
type ask struct {
	topics []kmsg.FetchRequestTopic
	front  bool // it is to be the first of a request, see Reader.fetch
	until  time.Time
	buffer []byte // for what comes
	left   context.Context
	done   chan sharedAnswer // capacity 1
}

// sharedAnswer is what came for one reader.
type sharedAnswer struct {
	*rawAnswer
	first bool // its first partition was the first of the request
	err   error
}

// exchange asks a leader for the partitions of a request, together with other readers, until there is something or the time has
// come.
func (s *sharedFetches) exchange(ctx context.Context, key laneKey, req *kmsg.FetchRequest, front bool, wait time.Duration, buffer []byte,
) (*rawAnswer, bool, error) {
	a := &ask{topics: req.Topics, front: front, until: time.Now().Add(wait), buffer: buffer, left: ctx, done: make(chan sharedAnswer, 1)}
	s.mu.Lock()
	l := s.lanes[key]
	if l == nil {
		l = &lane{}
		s.lanes[key] = l
	}
	l.waiting = append(l.waiting, a)
	s.send(key, l)
	s.mu.Unlock()
	select {
	case got := <-a.done:
		return got.rawAnswer, got.first, got.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// send sends what waits in a lane, if there may be another request. s.mu is held.
func (s *sharedFetches) send(key laneKey, l *lane) {
	l.waiting = slices.DeleteFunc(l.waiting, func(a *ask) bool { return a.left.Err() != nil })
	if len(l.waiting) == 0 || l.inFlight == sharedInFlight {
		return
	}
	asks := l.waiting
	l.waiting = nil
	l.inFlight++
	go s.fetch(key, l, asks)
}

// fetch sends one request, and gives each reader what came for it. Those for which nothing came wait for the next.
func (s *sharedFetches) fetch(key laneKey, l *lane, asks []*ask) {
	slices.SortStableFunc(asks, func(a, b *ask) int { return int(bit(b.front, 1)) - int(bit(a.front, 1)) })
	wait := quietWait
	if key.busy {
		wait = busyWait
	}
	answer, err := s.ask(key.leader, wait, asks)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var waiting []*ask
	for i, a := range asks {
		switch {
		case err != nil:
			a.done <- sharedAnswer{err: err}
		case answer.has(a), !now.Before(a.until):
			a.done <- sharedAnswer{rawAnswer: answer.of(a), first: i == 0}
		default:
			waiting = append(waiting, a)
		}
	}
	l.inFlight--
	l.waiting = append(waiting, l.waiting...)
	s.send(key, l)
}

// ask sends a request of all that readers ask for.
func (s *sharedFetches) ask(leader int32, wait time.Duration, asks []*ask) (*sharedWire, error) {
	req := &kmsg.FetchRequest{
		ReplicaID: -1, MaxWaitMillis: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: sharedBytes,
		IsolationLevel: readCommitted, SessionEpoch: -1,
	}
	if len(asks) == 1 {
		req.MaxBytes = math.MaxInt32 // see Reader.request
	}
	for _, a := range asks {
		for _, t := range a.topics {
			i := slices.IndexFunc(req.Topics, func(o kmsg.FetchRequestTopic) bool { return o.Topic == t.Topic })
			if i < 0 {
				i = len(req.Topics)
				req.Topics = append(req.Topics, kmsg.FetchRequestTopic{Topic: t.Topic})
			}
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, t.Partitions...)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait+s.client.cfg.Timeout)
	defer cancel()
	m, err := s.client.exchange(ctx, leader, req, nil)
	if err != nil {
		return nil, err
	}
	fetched := m.Response.(*kmsg.FetchResponse)
	if fetched.ErrorCode != 0 {
		return nil, kafkago.Error(fetched.ErrorCode)
	}
	w := &sharedWire{throttle: m.ThrottleTimeMs, parts: make(map[TopicPartition]*kmsg.FetchResponseTopicPartition)}
	for _, t := range fetched.Topics {
		for i := range t.Partitions {
			w.parts[TopicPartition{t.Topic, t.Partitions[i].Partition}] = &t.Partitions[i]
		}
	}
	return w, nil
}

// sharedWire is the answer to a shared request.
type sharedWire struct {
	throttle int32
	parts    map[TopicPartition]*kmsg.FetchResponseTopicPartition
}

// has reports whether the answer has something for a reader: also that something was expected and did not come.
func (w *sharedWire) has(a *ask) bool {
	for _, t := range a.topics {
		for i := range t.Partitions {
			p := w.parts[TopicPartition{t.Topic, t.Partitions[i].Partition}]
			if p == nil || p.ErrorCode != 0 || len(p.RecordBatches) > 0 || p.LastStableOffset > t.Partitions[i].FetchOffset {
				return true
			}
		}
	}
	return false
}

// of returns the part of the answer that a reader has asked for, as an answer of its own.
func (w *sharedWire) of(a *ask) *rawAnswer {
	size := 0
	for _, t := range a.topics {
		for i := range t.Partitions {
			if p := w.parts[TopicPartition{t.Topic, t.Partitions[i].Partition}]; p != nil {
				size += len(p.RecordBatches)
			}
		}
	}
	bytes := slices.Grow(a.buffer[:0], size)
	answer := &kmsg.FetchResponse{}
	for _, t := range a.topics {
		part := kmsg.FetchResponseTopic{Topic: t.Topic}
		for i := range t.Partitions {
			p := w.parts[TopicPartition{t.Topic, t.Partitions[i].Partition}]
			if p == nil {
				continue
			}
			from := len(bytes)
			bytes = append(bytes, p.RecordBatches...)
			own := *p
			own.RecordBatches = bytes[from:len(bytes):len(bytes)]
			part.Partitions = append(part.Partitions, own)
		}
		answer.Topics = append(answer.Topics, part)
	}
	return &rawAnswer{Response: answer, bytes: bytes, ThrottleTimeMs: w.throttle}
}
