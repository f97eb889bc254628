package kafka

import (
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// A broker that throttles a client answers at once, says for how long in the answer, and reads
// nothing more from the connection meanwhile (KIP-219). Such an answer to a fetch has no partitions,
// and says nothing about them.

// errThrottled is the failure of a fetch whose answer has no partitions.
var errThrottled = errors.New("throttled by a quota")

// throttledError is errThrottled until a time.
type throttledError struct{ until time.Time }

func (*throttledError) Error() string { return errThrottled.Error() }

func (*throttledError) Is(err error) bool { return err == errThrottled }

// throttle notes that the leader of the partitions has throttled this client. What was found wrong
// with them before is not known to last.
func throttle(parts []*partition, err error) {
	var e *throttledError
	errors.As(err, &e)
	for _, p := range parts {
		p.leader.until, p.leader.silent, p.err, p.short, p.advanced = e.until, true, nil, time.Time{}, 0
		p.absent.times = 0
	}
}

// isThrottled reports whether the partition's leader is not to be asked yet.
func (p *partition) isThrottled() bool { return time.Now().Before(p.leader.until) }

// Throttling counts for [Health.Throttled] once it adds up to throttledFor, with no more than
// throttledGap between two answers that say so.
const (
	throttledFor = time.Second
	throttledGap = 10 * time.Second
)

// muted is an answer on a connection from which the broker reads nothing for muteFor or longer. As an
// error it makes kafka-go close the connection, on which the next request would wait.
type muted struct{ answer protocol.Message }

const muteFor = time.Second

func (*muted) Error() string { return errThrottled.Error() }

// unlessMuted returns the answer, or the error muted.
func unlessMuted(answer protocol.Message, err error) (protocol.Message, error) {
	if err == nil && throttleOf(answer) >= muteFor {
		return nil, &muted{answer}
	}
	return answer, err
}

// throttling is for how long the brokers have throttled a client. The zero value is ready for use.
type throttling struct {
	mu     sync.Mutex
	total  map[string]time.Duration // by request, see Health.Throttled
	lasts  time.Duration            // in total, without a gap
	until  time.Time                // end of the last one
	logged time.Time                // when a warning was logged

	produce time.Time // until when nothing is to be produced
}

// add notes that an answer to the request said so.
func (t *throttling) add(request protocol.ApiKey, d time.Duration, log *slog.Logger) {
	if d <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.until) > throttledGap {
		t.lasts = 0
	}
	t.lasts += d
	until := now.Add(d)
	if until.After(t.until) {
		t.until = until
	}
	if request == protocol.Produce && until.After(t.produce) {
		t.produce = until
	}
	if t.total == nil {
		t.total = make(map[string]time.Duration)
	}
	t.total[kindOf(request)] += d
	if t.lasts >= throttledFor && now.Sub(t.logged) >= warnEvery {
		t.logged = now
		log.Warn("kafka: throttled by a quota", "request", request.String(), "for", d, "since_it_began", t.lasts)
	}
}

// toProduce returns for how long nothing is to be produced.
func (t *throttling) toProduce() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.produce)
}

// kindOf returns which of the series of [Health.Throttled] a request is in.
func kindOf(request protocol.ApiKey) string {
	switch request {
	case protocol.Fetch:
		return "fetch"
	case protocol.Produce:
		return "produce"
	}
	return "other"
}

// Throttled returns for how long in all the brokers have throttled this client, by request: fetch,
// produce or other. now reports whether they do so at present.
func (h *Health) Throttled() (total map[string]time.Duration, now bool) {
	t := &h.throttling
	t.mu.Lock()
	defer t.mu.Unlock()
	total = map[string]time.Duration{"fetch": 0, "produce": 0, "other": 0}
	maps.Copy(total, t.total)
	return total, t.lasts >= throttledFor && time.Since(t.until) <= throttledGap
}

// throttleOf returns for how long an answer says that the client is throttled.
func throttleOf(answer protocol.Message) time.Duration {
	v := reflect.Indirect(reflect.ValueOf(answer)).FieldByName("ThrottleTimeMs")
	if !v.IsValid() {
		return 0
	}
	return time.Duration(v.Int()) * time.Millisecond
}
