package kafka

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// troubles are the operations of a client that have failed and are being retried. A failure
// counts once it has lasted for warnAfter: leaders move, and connections break. The zero
// value is ready for use.
type troubles struct {
	mu     sync.Mutex
	all    map[*pace]trouble
	warned time.Time // when the last warning was logged, zero if none was since all went well
}

// trouble is an operation that fails.
type trouble struct {
	since, until time.Time // when it was first asked for, and when it failed last
	err          error     // the last one
}

// While failures last for more than warnAfter, there is a warning at warnEvery. An
// operation that has not failed again for lapse was left by its caller.
const (
	warnAfter = 2 * time.Second
	warnEvery = 10 * time.Second
	lapse     = time.Minute
)

// note adds a failure of the operation.
func (t *troubles) note(op *pace, err error, log *slog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	at, again := t.all[op]
	if !again {
		at.since = op.began
	}
	at.until, at.err = now, err
	if t.all == nil {
		t.all = make(map[*pace]trouble)
	}
	t.all[op] = at
	oldest, ok := t.oldest(func(error) bool { return true })
	if !ok || !t.warned.IsZero() && now.Sub(t.warned) < warnEvery {
		log.Debug("kafka: trying again", "err", err, "after", now.Sub(at.since))
		return
	}
	t.warned = now
	log.Warn("kafka: still trying", "err", cause(oldest.err), "after", now.Sub(oldest.since).Round(100*time.Millisecond),
		"requests", len(t.all))
}

// forget removes the operation, of which nothing more will be heard.
func (t *troubles) forget(op *pace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, op)
}

// end removes the operation, which was answered.
func (t *troubles) end(op *pace, log *slog.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, op)
	if len(t.all) == 0 && !t.warned.IsZero() {
		t.warned = time.Time{}
		log.Info("kafka: everything is answered again")
	}
}

// partlyError is the error of some partitions of a reader, of which others answer.
type partlyError struct {
	error
	failing, of int
}

func (e *partlyError) Error() string {
	return fmt.Sprintf("%d of %d partitions: %v", e.failing, e.of, cause(e.error))
}
func (e *partlyError) Unwrap() error { return e.error }

// oldest returns the trouble that has lasted longest of those that count and match.
func (t *troubles) oldest(matches func(error) bool) (oldest trouble, ok bool) {
	for at := range t.counting() {
		if matches(at.err) && (!ok || at.since.Before(oldest.since)) {
			oldest, ok = at, true
		}
	}
	return oldest, ok
}

// counting returns the troubles that have lasted for warnAfter.
func (t *troubles) counting() iter.Seq[trouble] {
	return func(yield func(trouble) bool) {
		for op, at := range t.all {
			switch {
			case time.Since(at.until) > lapse:
				delete(t.all, op)
			case time.Since(at.since) >= warnAfter && !yield(at):
				return
			}
		}
	}
}

// Health is what a client waits for. The zero value waits for nothing.
type Health struct {
	troubles   troubles
	throttling throttling
}

// Trouble says in one line what has failed for some seconds and is being tried again, ""
// for nothing: brokers that do not answer, partitions without a leader, batches that
// are damaged. It leaves out what Partly says.
func (h *Health) Trouble() string { return h.trouble(false) }

// Partly says it of partitions, of which others of the same topic answer.
func (h *Health) Partly() string { return h.trouble(true) }

func (h *Health) trouble(partly bool) string {
	h.troubles.mu.Lock()
	defer h.troubles.mu.Unlock()
	oldest, some := h.troubles.oldest(func(err error) bool { return errors.As(err, new(*partlyError)) == partly })
	if !some {
		return ""
	}
	return cause(oldest.err).Error()
}

// Waits returns for how long the client has waited for each of the things that it can wait for, 0
// for what it does not. They are those that Trouble names:
//
//   - broker: no broker answers
//   - leader: a partition has no leader, or it has moved
//   - coordinator: the group's or the transaction's coordinator is not ready
//   - replicas: fewer replicas are in sync than min.insync.replicas
//   - transaction: the one before does not end
//   - quota: the brokers throttle this client
//   - topic: a topic or a partition is said not to exist
//   - log: a log ends before what was read of it
//   - other: anything else, such as a batch that is damaged, or a token that is refused
func (h *Health) Waits() map[string]time.Duration {
	waits := map[string]time.Duration{
		"broker": 0, "leader": 0, "coordinator": 0, "replicas": 0, "transaction": 0, "quota": 0, "topic": 0, "log": 0, "other": 0,
	}
	h.troubles.mu.Lock()
	defer h.troubles.mu.Unlock()
	for at := range h.troubles.counting() {
		what := waitedFor(at.err)
		waits[what] = max(waits[what], time.Since(at.since))
	}
	return waits
}

// waitedFor returns what is missing while an operation fails with the error, see [Health.Waits].
func waitedFor(err error) string {
	if few := (*tooFewReplicas)(nil); errors.As(err, &few) {
		return "replicas"
	}
	var code kafkago.Error
	switch errors.As(err, &code); code {
	case kafkago.RequestTimedOut, kafkago.NetworkException, kafkago.BrokerNotAvailable:
		return "broker"
	case kafkago.NotLeaderForPartition, kafkago.LeaderNotAvailable, kafkago.ReplicaNotAvailable,
		kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch, kafkago.KafkaStorageError:
		return "leader"
	case kafkago.GroupLoadInProgress, kafkago.GroupCoordinatorNotAvailable, kafkago.NotCoordinatorForGroup:
		return "coordinator"
	case kafkago.NotEnoughReplicas, kafkago.NotEnoughReplicasAfterAppend:
		return "replicas"
	case kafkago.ConcurrentTransactions:
		return "transaction"
	case kafkago.ThrottlingQuotaExceeded:
		return "quota"
	case kafkago.UnknownTopicOrPartition:
		return "topic"
	case kafkago.OffsetNotAvailable, kafkago.OffsetOutOfRange:
		return "log"
	}
	token := (*tokenError)(nil)
	switch {
	case errors.Is(err, errThrottled):
		return "quota"
	case code != 0, errors.As(err, &token), errors.Is(err, errMalformed):
		return "other"
	}
	return "broker"
}

// refusals logs batches that cannot be read, at most one line every warnEvery: a producer
// may send nothing else.
type refusals struct {
	logged time.Time
	since  int // refused since the last line
}

func (f *refusals) log(log *slog.Logger, records []Record) {
	for i := range records {
		r := &records[i]
		if r.Unreadable == "" {
			continue
		}
		if f.since++; time.Since(f.logged) < warnEvery {
			continue
		}
		log.Warn("kafka: a batch cannot be read and is refused", "topic", r.Topic, "partition", r.Partition, "offset",
			r.Offset, "why", r.Unreadable, "bytes", len(r.Value), "since_last_line", f.since)
		f.logged, f.since = time.Now(), 0
	}
}
