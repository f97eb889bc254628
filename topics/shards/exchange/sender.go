package exchange

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/kafka"
)

// Sender sends the messages of one task. What is sent leaves at once, from a goroutine of the
// sender's own, and Flush waits until it is acknowledged. Flush may be called from any goroutine,
// Send from one.
type Sender struct {
	cfg      Config
	producer *kafka.Producer
	stop     context.CancelFunc
	done     chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	queue   []kafka.Record
	bytes   int             // of what is not acknowledged
	sent    int64           // records so far
	acked   int64           // of them, those that are acknowledged: the first ones
	last    map[int64]int64 // by window: sent after its last message, while that is not acknowledged
	err     error           // that has ended the sender
	changed chan struct{}
}

// NewSender returns a sender, which works until Close or until the context ends.
func NewSender(ctx context.Context, c *kafka.Client, cfg Config) (*Sender, error) {
	cfg.setDefaults()
	p, err := c.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Sender{cfg: cfg, producer: p, stop: stop, done: make(chan struct{}), last: make(map[int64]int64), changed: make(chan struct{})}
	go s.run(ctx)
	return s, nil
}

// Close ends the sender. What is not acknowledged may be sent or not.
func (s *Sender) Close() {
	s.stop()
	<-s.done
}

// Send sends messages of the kind, for a window: of parts one for each shard, of which the
// sender's own is left out; of other kinds a single one. It copies them, and waits only while
// too much is not acknowledged.
func (s *Sender) Send(ctx context.Context, window int64, k Kind, payloads ...[]byte) error {
	if k == Part && len(payloads) != s.cfg.Shards || k != Part && len(payloads) != 1 {
		panic(fmt.Sprintf("exchange: %d %v for %d shards", len(payloads), k, s.cfg.Shards))
	}
	var records []kafka.Record
	bytes := 0
	for to, payload := range payloads {
		if k == Part && to == s.cfg.Task-1 {
			continue
		}
		of := max((len(payload)+maxPayload-1)/maxPayload, 1)
		if of > maxPieces {
			return fmt.Errorf("the %v of window %d have %d bytes, and at most %d can be sent: make windows smaller", k, window, len(payload), maxPieces*maxPayload)
		}
		for i := range of {
			p := piece{slot{window, k, s.cfg.Task}, s.cfg.Run, i, of, 0, payload[i*maxPayload : min((i+1)*maxPayload, len(payload))]}
			value := p.append(make([]byte, 0, headerLen+len(p.payload)+trailerLen))
			records = append(records, kafka.Record{Topic: s.cfg.Topic, Partition: s.cfg.partition(k, to), Value: value})
			bytes += len(value)
		}
	}
	err := s.await(ctx, func() bool { return s.bytes == 0 || s.bytes+bytes <= s.cfg.Memory })
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, records...)
	s.bytes, s.sent = s.bytes+bytes, s.sent+int64(len(records))
	s.last[window] = s.sent
	s.change()
	return nil
}

// Flush waits until all that was sent for windows up to the given one is acknowledged.
func (s *Sender) Flush(ctx context.Context, window int64) error {
	return s.await(ctx, func() bool {
		for w, last := range s.last {
			if w <= window && last > s.acked {
				return false
			}
		}
		return true
	})
}

// change wakes all who await a change. s.mu is held.
func (s *Sender) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the condition holds, or the sender has failed. The condition is called
// with s.mu held.
func (s *Sender) await(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		ok, err, changed := holds(), s.err, s.changed
		s.mu.Unlock()
		if ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run sends what is queued until the context ends or sending fails.
func (s *Sender) run(ctx context.Context) {
	defer close(s.done)
	for {
		err := s.await(ctx, func() bool { return len(s.queue) > 0 })
		s.mu.Lock()
		records := s.queue
		s.queue = nil
		s.mu.Unlock()
		if err == nil {
			// Records that are sent twice are read as one.
			if err = s.producer.SendAgain(ctx, records); err != nil {
				err = fmt.Errorf("sending to %s: %w", s.cfg.Topic, err)
			}
		}
		s.mu.Lock()
		for i := range records {
			s.bytes -= len(records[i].Value)
		}
		if s.err = err; err == nil {
			s.acked += int64(len(records))
			maps.DeleteFunc(s.last, func(_, last int64) bool { return last <= s.acked })
		}
		s.change()
		s.mu.Unlock()
		if err != nil {
			return
		}
		crash.Point(crash.BetweenBatches)
	}
}
