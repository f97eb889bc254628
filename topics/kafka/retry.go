package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
)

// forever is the time for which an operation is retried that only its context ends.
const forever = math.MaxInt64

// retry calls f until it succeeds, fails with an error that is not transient,
// within has passed or the context ends. Each call gets at most half of within,
// so that a request without an answer leaves time for another try.
func (c *Client) retry(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	p := pace{client: c}
	p.ask()
	defer p.leave()
	for {
		once, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, within/2))
		err := f(once)
		cancel()
		if err == nil || ctx.Err() == nil && !transient(err) {
			p.end()
			return err
		}
		if !errors.Is(err, kafkago.ConcurrentTransactions) { // which a coordinator itself says
			c.transport.forget()
		}
		if ctx.Err() == nil {
			if time.Since(p.began) >= within {
				return err
			}
			p.pause(ctx, err)
		}
		if ctx.Err() != nil {
			if errors.Is(err, ctx.Err()) {
				return err
			}
			return fmt.Errorf("%w, after: %w", ctx.Err(), err)
		}
	}
}

// pace is the back-off of one operation that is retried, and its entry in the client's
// troubles while it fails. The zero value with a client is ready for use.
type pace struct {
	client *Client
	began  time.Time // when what was not answered yet was asked first, or failed; zero for nothing
	wait   time.Duration
}

// pause waits before the next try: 5 ms at first, doubling up to 250 ms.
func (p *pace) pause(ctx context.Context, err error) {
	p.wait = min(max(2*p.wait, 5*time.Millisecond), 250*time.Millisecond)
	if errors.Is(err, kafkago.ConcurrentTransactions) && time.Since(p.began) < time.Second {
		// The markers of the previous transaction are being written, which takes
		// a millisecond or two, while the next one waits to begin.
		p.wait = time.Millisecond
	}
	p.fail(err)
	_ = Sleep(ctx, p.wait) // callers check the context
}

// fail notes that the operation has failed and will be tried again.
func (p *pace) fail(err error) {
	p.ask()
	p.client.Health.troubles.note(p, err, p.client.cfg.Logger)
}

// ask notes that the operation is asked for.
func (p *pace) ask() {
	if p.began.IsZero() {
		p.began = time.Now()
	}
}

// end notes that the operation was answered.
func (p *pace) end() {
	p.wait, p.began = 0, time.Time{}
	p.client.Health.troubles.end(p, p.client.cfg.Logger)
}

// leave notes that the operation is over, answered or given up.
func (p *pace) leave() {
	p.began = time.Time{}
	p.client.Health.troubles.forget(p)
}

// Sleep waits for d, or until the context ends: then it returns its error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transient reports whether the same request may succeed later. Everything that
// is not a broker's error code is transient: failed connections, time-outs,
// metadata without a leader.
func transient(err error) bool {
	var code kafkago.Error
	if !errors.As(err, &code) {
		return true
	}
	switch code {
	case kafkago.ConcurrentTransactions, kafkago.NotLeaderForPartition, kafkago.LeaderNotAvailable,
		kafkago.UnknownTopicOrPartition, kafkago.RequestTimedOut, kafkago.NetworkException, kafkago.BrokerNotAvailable,
		kafkago.GroupLoadInProgress, kafkago.GroupCoordinatorNotAvailable, kafkago.NotCoordinatorForGroup,
		kafkago.NotEnoughReplicas, kafkago.NotEnoughReplicasAfterAppend, kafkago.NotController,
		kafkago.KafkaStorageError, kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch,
		kafkago.OffsetNotAvailable, kafkago.ReplicaNotAvailable, kafkago.ThrottlingQuotaExceeded, kafkago.UnstableOffsetCommit:
		return true
	}
	return false
}

// inWords returns the error of a code, with the words that kafka-go has for none above 77 of some.
func inWords(code int16) error {
	if err := kafkago.Error(code); err.Title() != "" {
		return err
	}
	return fmt.Errorf("%w (%w)", kerr.ErrorForCode(code), kafkago.Error(code))
}

// operationNotAttempted is Kafka's error code 55 (kafka-go has another name for
// it): the partition was not tried because another one in the request failed.
const operationNotAttempted = kafkago.Error(55)

// worst returns the most telling of several errors: a permanent one before a
// transient one before operationNotAttempted.
func worst(errs []error) (err error) {
	for _, e := range errs {
		err = worse(err, e)
	}
	return err
}

// worstOf returns the most telling error of the partitions in an answer.
func worstOf[P any](topics map[string][]P, errorOf func(P) error) (err error) {
	for _, parts := range topics {
		for _, p := range parts {
			err = worse(err, errorOf(p))
		}
	}
	return err
}

// worse returns e if it is more telling than err, and err otherwise.
func worse(err, e error) error {
	if e != nil && (err == nil || errors.Is(err, operationNotAttempted) || transient(err) && !transient(e) &&
		!errors.Is(e, operationNotAttempted)) {
		return e
	}
	return err
}

// cause strips kafka-go's method names ("kafka.(*Client).Produce: ...").
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.HasPrefix(err.Error(), "kafka.") {
			return err
		}
		err = inner
	}
}
