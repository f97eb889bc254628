package kafka

import (
	"errors"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchSession is a fetch session with one leader. Its partitions stay in it while nobody asks for them, as readers do between two asks.
// The zero value has none.
type fetchSession struct {
	id, epoch int32 // 0 before the broker has given one
	out       bool  // a request is
	parts     map[TopicPartition]*held
}

// held is a partition in a session.
type held struct {
	want     kmsg.FetchRequestTopicPartition
	told     bool                             // the broker knows what is wanted
	last     kmsg.FetchResponseTopicPartition // the newest answer, without its records
	answered bool                             // there was one
	brought  bool                             // the broker has given what was wanted, and would give it again: it is to forget it
	ask      *ask                             // nil for none
}

// waits reports whether somebody waits for the partition.
func (h *held) waits() bool { return h.ask != nil && !h.ask.over() }

// knows reports whether the broker knows what is wanted of the partition.
func (h *held) knows(p *kmsg.FetchRequestTopicPartition) bool {
	return h != nil && h.told && !h.brought && h.want.FetchOffset == p.FetchOffset && h.want.PartitionMaxBytes == p.PartitionMaxBytes
}

// join has an ask wait for the session. It does not if it is to be the first of a request, or another reader waits for a partition,
// or a request is out and the broker does not know of it.
func (x *fetchSession) join(a *ask) bool {
	may := !a.front
	a.each(func(at TopicPartition, p *kmsg.FetchRequestTopicPartition) {
		h := x.parts[at]
		may = may && (h == nil || !h.waits()) && (!x.out || h.knows(p))
	})
	if !may {
		return false
	}
	if x.parts == nil {
		x.parts = make(map[TopicPartition]*held)
	}
	a.each(func(at TopicPartition, p *kmsg.FetchRequestTopicPartition) {
		h := x.parts[at]
		if h == nil {
			h = &held{}
			x.parts[at] = h
		}
		h.told, h.want, h.ask, h.brought = h.knows(p), *p, a, false
	})
	return true
}

// request returns the next request, with what has changed, nil if one is out or nobody waits.
func (x *fetchSession) request() *kmsg.FetchRequest {
	if x.out { // as it mostly is when a reader asks
		return nil
	}
	req, some := sharedRequest(quietWait), false
	req.SessionID, req.SessionEpoch = x.id, x.epoch
	for _, h := range x.parts {
		some = some || h.waits()
	}
	if !some {
		return nil
	}
	x.out = true
	for at, h := range x.parts {
		if h.brought {
			t := topicIn(&req.ForgottenTopics, at.Topic, func(t *kmsg.FetchRequestForgottenTopic) *string { return &t.Topic })
			t.Partitions = append(t.Partitions, at.Partition)
		}
		if h.brought || x.epoch == 0 && !h.waits() {
			delete(x.parts, at)
		} else if x.epoch == 0 || !h.told {
			addTo(req, at.Topic, &h.want)
			h.told = true
		}
	}
	return req
}

// fetchIn sends a request of the lane's session, and gives each reader what came for it.
func (s *shared) fetchIn(l *lane, req *kmsg.FetchRequest) {
	answer, err := s.ask(l.leader, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &l.session
	x.out = false
	if err != nil {
		asks := x.asks()
		*x = fetchSession{}
		if errors.Is(err, kafkago.FetchSessionIDNotFound) || errors.Is(err, kafkago.InvalidFetchSessionEpoch) {
			l.waiting = append(asks, l.waiting...) // the broker had no room for the session any more
		} else {
			for _, a := range asks {
				a.done <- sharedAnswer{err: err}
			}
		}
		s.send(l)
		return
	}
	if x.id = answer.session; x.id == 0 {
		x.epoch = 0
	} else if x.epoch++; x.epoch <= 0 {
		x.epoch = 1
	}
	over := make(map[*ask]bool)
	for at, p := range answer.parts {
		h := x.parts[at]
		if h == nil {
			continue
		}
		h.last, h.answered = *p, true
		h.last.RecordBatches, h.last.AbortedTransactions = nil, nil
		if brings(p, &h.want) {
			if h.brought = true; h.ask != nil { // who asks again is busy, or behind a gap
				over[h.ask] = true
			}
		}
	}
	before := x.parts
	if answer.throttle > 0 {
		before = nil
	}
	for _, h := range before {
		h.answered = h.answered || h.told // kfake does not mention those that have never had a record
	}
	now := time.Now()
	for _, a := range x.asks() {
		over[a] = over[a] || answer.throttle > 0 || !now.Before(a.until)
	}
	for a, is := range over {
		if is {
			x.finish(a, answer, before)
		}
	}
	s.send(l)
}

// asks returns those who wait for the session.
func (x *fetchSession) asks() []*ask {
	all := make(map[*ask]bool)
	for _, h := range x.parts {
		if h.ask != nil {
			all[h.ask] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// finish answers an ask.
func (x *fetchSession) finish(a *ask, answer *sharedWire, before map[TopicPartition]*held) {
	a.done <- sharedAnswer{rawAnswer: answer.of(a, before)}
	a.each(func(at TopicPartition, _ *kmsg.FetchRequestTopicPartition) {
		if h := x.parts[at]; h != nil && h.ask == a {
			h.ask = nil
		}
	})
}

// expire answers an ask whose time has come with what is known, if there has been an answer for all of it.
func (x *fetchSession) expire(a *ask) {
	known := true
	a.each(func(at TopicPartition, _ *kmsg.FetchRequestTopicPartition) {
		h := x.parts[at]
		known = known && h != nil && h.ask == a && h.answered
	})
	if known {
		x.finish(a, &sharedWire{}, x.parts)
	}
}
