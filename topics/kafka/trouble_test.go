package kafka

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestGivenUpIsNotAnswered: an operation that is given up, at its end or its caller's, has
// not been answered. That everything is answered again is said at the next answer.
func TestGivenUpIsNotAnswered(t *testing.T) {
	const tried, answered = "still trying", "everything is answered again"
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := &Client{transport: &coordinators{}, Health: &Health{}, cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Timeout: time.Second}}
		silent := func(context.Context) error { return io.ErrUnexpectedEOF }
		if err := c.retry(t.Context(), 5*time.Second, silent); err == nil || c.Health.Trouble() != "" {
			t.Errorf("given up with error %v and trouble %q, want an error and no trouble", err, c.Health.Trouble())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := c.retry(ctx, forever, silent); err == nil {
			t.Error("no error after the context has ended")
		}
		if got := log.String(); !strings.Contains(got, tried) || strings.Contains(got, answered) {
			t.Errorf("the log is %q, want %q and not %q", got, tried, answered)
		}
		if err := c.retry(t.Context(), 5*time.Second, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), answered); got != 1 {
			t.Errorf("the log says %d times %q, want once", got, answered)
		}
	})
}

// TestWaits: what an operation waits for, and for how long, counted from when it was first asked
// for, is known from the second second on, and over when it is answered.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{transport: &coordinators{}, Health: &Health{}, cfg: Config{Logger: slog.New(slog.DiscardHandler), Timeout: 10 * time.Second}}
		for _, test := range []struct {
			err  error
			what string
		}{
			{io.ErrUnexpectedEOF, "broker"},
			{kafkago.LeaderNotAvailable, "leader"},
			{kafkago.GroupCoordinatorNotAvailable, "coordinator"},
			{kafkago.NotEnoughReplicas, "replicas"},
			{kafkago.UnknownTopicOrPartition, "topic"},
			{&throttledError{}, "quota"},
			{fmt.Errorf("the batch at offset 3: %w", errMalformed), "other"},
		} {
			began := time.Now()
			c.retry(t.Context(), forever, func(context.Context) error {
				for what, waits := range c.Health.Waits() {
					want := time.Duration(0)
					if lasts := time.Since(began); what == test.what && lasts > warnAfter {
						want = lasts
					}
					if waits != want {
						t.Errorf("%v after %v: it has waited for %s for %v, want %v", time.Since(began), test.err, what, waits, want)
					}
				}
				time.Sleep(time.Second)
				if time.Since(began) > 5*time.Second {
					return nil
				}
				return test.err
			})
		}
		for what, waits := range c.Health.Waits() {
			if waits != 0 {
				t.Errorf("all is answered, but it waits for %s for %v", what, waits)
			}
		}
	})
}

// TestPartly: one of three partitions has no leader, and the others are read: that is no trouble, and said.
func TestPartly(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		name := topic(t, c, 3)
		k.Fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			k.Fake.KeepControl()
			res := req.ResponseKind().(*kmsg.FetchResponse)
			for _, x := range req.(*kmsg.FetchRequest).Topics {
				topic := kmsg.FetchResponseTopic{Topic: x.Topic}
				for _, p := range x.Partitions {
					answer := kmsg.FetchResponseTopicPartition{Partition: p.Partition}
					if p.Partition == 1 {
						answer.ErrorCode = kerr.NotLeaderForPartition.Code
					}
					topic.Partitions = append(topic.Partitions, answer)
				}
				res.Topics = append(res.Topics, topic)
			}
			return res, nil, true
		})
		r := c.NewReader(map[TopicPartition]int64{{name, 0}: 0, {name, 1}: 0, {name, 2}: 0}, ReaderConfig{})
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		said := make(chan string, 2)
		time.AfterFunc(5*time.Second, func() { said <- c.Health.Trouble(); said <- c.Health.Partly() })
		for ctx.Err() == nil {
			if _, err := r.Poll(ctx); err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
		}
		if trouble, partly := <-said, <-said; trouble != "" || !strings.Contains(partly, "1 of 3 partitions: reading "+name+" partition 1") {
			t.Errorf("the trouble is %q, partly %q", trouble, partly)
		}
	}, kfake.NumBrokers(1))
}
