package kafka

import (
	"context"
	"math"
	"slices"
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
// brokers look through thousands of quiet ones each time. The quiet ones are in a fetch session (KIP-227): a request names what
// has changed since the one before, and so does its answer.

// Sharing returns the same client, whose readers share requests, and so do those who ask for offsets and for the ids of topics.
func (c *Client) Sharing() *Client {
	of := *c
	of.shared = &shared{client: c, lanes: make(map[laneKey]*lane)}
	of.shared.offsets = jointOffsets{client: &of, turn: make(chan struct{}, 1)}
	of.shared.offsets.turn <- struct{}{}
	return &of
}

// Bounds of shared requests.
const (
	sharedInFlight = 4           // without a session to one leader, of busy partitions, and of quiet ones
	sharedBytes    = 16 << 20    // of an answer
	busyFor        = time.Second // since something came
	// the longest wait for partitions that are not in a session: others wait for the request meanwhile
	busyWait  = 20 * time.Millisecond
	quietWait = time.Second     // and for those in one
	patience  = 5 * time.Second // for which a patient reader waits
)

// shared is what the readers of a client share.
type shared struct {
	client  *Client
	offsets jointOffsets
	ids     cache[map[string]string]
	asked   cache[map[string]known] // see Reader.ask

	mu    sync.Mutex
	lanes map[laneKey]*lane
}

type laneKey struct {
	leader int32
	busy   bool
}

// lane has the readers that wait for one leader.
type lane struct {
	laneKey
	waiting  []*ask       // in no request, in order
	inFlight int          // requests without a session
	session  fetchSession // of quiet partitions
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

// each calls f with the partitions that are asked for.
func (a *ask) each(f func(at TopicPartition, p *kmsg.FetchRequestTopicPartition)) {
	for _, t := range a.topics {
		for i := range t.Partitions {
			f(TopicPartition{t.Topic, t.Partitions[i].Partition}, &t.Partitions[i])
		}
	}
}

// over reports whether the reader waits for nothing any more.
func (a *ask) over() bool { return a.left.Err() != nil }

// sharedAnswer is what came for one reader.
type sharedAnswer struct {
	*rawAnswer
	first bool // its first partition was the first of the request
	err   error
}

// exchange asks a leader for the partitions of a request, together with other readers, until there is something or the time has
// come.
func (s *shared) exchange(ctx context.Context, key laneKey, req *kmsg.FetchRequest, front bool, wait time.Duration, buffer []byte,
) (*rawAnswer, bool, error) {
	a := &ask{topics: req.Topics, front: front, until: time.Now().Add(wait), buffer: buffer, left: ctx, done: make(chan sharedAnswer, 1)}
	s.mu.Lock()
	l := s.lanes[key]
	if l == nil {
		l = &lane{laneKey: key}
		s.lanes[key] = l
	}
	l.waiting = append(l.waiting, a)
	s.send(l)
	s.mu.Unlock()
	late := time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.session.expire(a)
	})
	defer late.Stop()
	select {
	case got := <-a.done:
		return got.rawAnswer, got.first, got.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// send sends what waits in a lane, if there may be another request. s.mu is held.
func (s *shared) send(l *lane) {
	l.waiting = slices.DeleteFunc(l.waiting, (*ask).over)
	if !l.busy {
		if !l.session.out && l.inFlight > 0 {
			return // who is in flight joins the session, too
		}
		l.waiting = slices.DeleteFunc(l.waiting, l.session.join)
		if req := l.session.request(); req != nil {
			go s.fetchIn(l, req)
		}
	}
	if len(l.waiting) == 0 || l.inFlight == sharedInFlight {
		return
	}
	asks := l.waiting
	l.waiting = nil
	l.inFlight++
	go s.fetch(l, asks)
}

// fetch sends one request, and gives each reader what came for it. Those for which nothing came wait for the next.
func (s *shared) fetch(l *lane, asks []*ask) {
	slices.SortStableFunc(asks, func(a, b *ask) int { return int(bit(b.front, 1)) - int(bit(a.front, 1)) })
	req := sharedRequest(busyWait)
	if req.SessionEpoch = -1; len(asks) == 1 {
		req.MaxBytes = math.MaxInt32 // see Reader.request
	}
	for _, a := range asks {
		a.each(func(at TopicPartition, p *kmsg.FetchRequestTopicPartition) { addTo(req, at.Topic, p) })
	}
	answer, err := s.ask(l.leader, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var waiting []*ask
	for i, a := range asks {
		switch {
		case err != nil:
			a.done <- sharedAnswer{err: err}
		case answer.has(a), !now.Before(a.until):
			a.done <- sharedAnswer{rawAnswer: answer.of(a, nil), first: i == 0}
		default:
			waiting = append(waiting, a)
		}
	}
	l.inFlight--
	l.waiting = append(waiting, l.waiting...)
	s.send(l)
}

// sharedRequest returns a request without partitions.
func sharedRequest(wait time.Duration) *kmsg.FetchRequest {
	return &kmsg.FetchRequest{
		ReplicaID: -1, MaxWaitMillis: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: sharedBytes, IsolationLevel: readCommitted,
	}
}

func addTo(req *kmsg.FetchRequest, topic string, p *kmsg.FetchRequestTopicPartition) {
	t := topicIn(&req.Topics, topic, func(t *kmsg.FetchRequestTopic) *string { return &t.Topic })
	t.Partitions = append(t.Partitions, *p)
}

// ask sends a request of all that readers ask for.
func (s *shared) ask(leader int32, req *kmsg.FetchRequest) (*sharedWire, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(req.MaxWaitMillis)*time.Millisecond+s.client.cfg.Timeout)
	defer cancel()
	m, err := s.client.transport.exchange(ctx, leader, req, nil)
	if err != nil {
		return nil, err
	}
	fetched := m.Response.(*kmsg.FetchResponse)
	if fetched.ErrorCode != 0 {
		return nil, kafkago.Error(fetched.ErrorCode)
	}
	w := &sharedWire{
		throttle: m.ThrottleTimeMs, session: fetched.SessionID,
		parts: make(map[TopicPartition]*kmsg.FetchResponseTopicPartition),
	}
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
	session  int32
	parts    map[TopicPartition]*kmsg.FetchResponseTopicPartition
}

// has reports whether the answer has something for a reader: also that something was expected and did not come.
func (w *sharedWire) has(a *ask) (some bool) {
	a.each(func(at TopicPartition, asked *kmsg.FetchRequestTopicPartition) {
		p := w.parts[at]
		some = some || p == nil || brings(p, asked)
	})
	return some
}

// brings reports whether the answer of a partition has something.
func brings(p *kmsg.FetchResponseTopicPartition, asked *kmsg.FetchRequestTopicPartition) bool {
	return p.ErrorCode != 0 || len(p.RecordBatches) > 0 || p.LastStableOffset > asked.FetchOffset
}

// of returns the part of the answer that a reader has asked for, as an answer of its own. What it has nothing of is as it was in the
// session, nil for none.
func (w *sharedWire) of(a *ask, before map[TopicPartition]*held) *rawAnswer {
	size := 0
	a.each(func(at TopicPartition, _ *kmsg.FetchRequestTopicPartition) {
		if p := w.parts[at]; p != nil {
			size += len(p.RecordBatches)
		}
	})
	bytes := slices.Grow(a.buffer[:0], size)
	answer := &kmsg.FetchResponse{}
	a.each(func(at TopicPartition, _ *kmsg.FetchRequestTopicPartition) {
		var own kmsg.FetchResponseTopicPartition
		if p := w.parts[at]; p != nil {
			own = *p
			from := len(bytes)
			bytes = append(bytes, p.RecordBatches...)
			own.RecordBatches = bytes[from:len(bytes):len(bytes)]
		} else if h := before[at]; h != nil && h.answered {
			own = h.last
			own.Partition = at.Partition // it may not have been mentioned yet
		} else {
			return
		}
		t := topicIn(&answer.Topics, at.Topic, func(t *kmsg.FetchResponseTopic) *string { return &t.Topic })
		t.Partitions = append(t.Partitions, own)
	})
	return &rawAnswer{Response: answer, bytes: bytes, ThrottleTimeMs: w.throttle}
}
