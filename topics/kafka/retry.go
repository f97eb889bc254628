package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// retry calls f until it succeeds, fails for good, the time is over or the
// context ends. One call of f gets half of the time at most, so that an answer
// that never comes leaves time for asking again.
func (c *Client) retry(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	began := time.Now()
	p := pace{client: c, began: began}
	for {
		once, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, within/2))
		err := f(once)
		cancel()
		if err == nil || ctx.Err() == nil && (!transient(err) || time.Since(began) >= within) {
			return err
		}
		if ctx.Err() == nil {
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

// pace is the rhythm in which something is repeated.
type pace struct {
	client *Client
	began  time.Time // when it failed first
	told   time.Time // when a warning was last given
	wait   time.Duration
}

// Failures that last this long are told of as warnings, this far apart.
const (
	tellAfter = 2 * time.Second
	tellEvery = 10 * time.Second
)

// pause waits before the next try, longer from time to time.
func (p *pace) pause(ctx context.Context, err error) {
	p.wait = min(max(2*p.wait, 5*time.Millisecond), 250*time.Millisecond)
	if errors.Is(err, kafkago.ConcurrentTransactions) {
		// The markers of the last transaction are being written, which takes
		// a millisecond or two.
		p.wait = 2 * time.Millisecond
	}
	p.tell(err)
	_ = sleep(ctx, p.wait) // the callers look at the context
}

func (p *pace) tell(err error) {
	lasted := time.Since(p.began)
	if lasted < tellAfter || !p.told.IsZero() && time.Since(p.told) < tellEvery {
		p.client.cfg.Logger.Debug("kafka: trying again", "err", err, "after", lasted)
		return
	}
	p.told = time.Now()
	p.client.cfg.Logger.Warn("kafka: still trying", "err", cause(err), "after", lasted.Round(100*time.Millisecond))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// transient tells whether the same request may succeed later. What is not a
// broker's answer (connections, time-outs, metadata that names no leader yet)
// may.
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

// operationNotAttempted is Kafka's code 55, which kafka-go names otherwise: a
// partition that was left alone because another one failed.
const operationNotAttempted = kafkago.Error(55)

// worst returns the error that tells most: one that will not pass before one
// that may, and what was not attempted last of all.
func worst(errs []error) (err error) {
	for _, e := range errs {
		err = worse(err, e)
	}
	return err
}

// worse returns e if it tells more than err, which came before it.
func worse(err, e error) error {
	if e != nil && (err == nil || errors.Is(err, operationNotAttempted) || transient(err) && !transient(e) && !errors.Is(e, operationNotAttempted)) {
		return e
	}
	return err
}

// cause cuts the names of methods off a kafka-go error.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.HasPrefix(err.Error(), "kafka.") {
			return err
		}
		err = inner
	}
}
