package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// replicas are those of a topic's partition that has fewest.
type replicas struct{ All, InSync int }

// Replicas returns the number of brokers, and the replicas of each topic. Topics that do not exist
// are left out.
func (c *Client) Replicas(ctx context.Context, topics ...string) (brokers int, of map[string]replicas, err error) {
	m, err := c.client.Metadata(ctx, &kafkago.MetadataRequest{Topics: topics})
	if err != nil {
		return 0, nil, err
	}
	of = make(map[string]replicas)
	for _, t := range m.Topics {
		for i, p := range t.Partitions {
			r := replicas{len(p.Replicas), len(p.Isr)}
			if i > 0 {
				r = replicas{min(r.All, of[t.Name].All), min(r.InSync, of[t.Name].InSync)}
			}
			of[t.Name] = r
		}
	}
	return len(m.Brokers), of, nil
}

// MinInSync is the setting of a topic below which nothing is written to it.
const MinInSync = "min.insync.replicas"

// tooFewReplicas is an error that lasts because fewer replicas of a topic are in sync than are wanted.
type tooFewReplicas struct {
	what string
	err  error // the broker's
}

func (e *tooFewReplicas) Error() string { return fmt.Sprintf("%s (%v)", e.what, cause(e.err)) }

func (e *tooFewReplicas) Unwrap() error { return e.err }

// retryReplicated is retry of a request that waits until the topics are replicated. Once it has failed
// for warnAfter, with an error that brokers give while too few replicas are in sync, and perhaps for
// other reasons, it is looked up whether that is so.
func (c *Client) retryReplicated(ctx context.Context, within time.Duration, topics []string, f func(context.Context) error) error {
	began, looked, what := time.Now(), time.Time{}, ""
	return c.retry(ctx, within, func(ctx context.Context) error {
		err := f(ctx)
		switch code(err) {
		case kafkago.ConcurrentTransactions, kafkago.GroupCoordinatorNotAvailable, kafkago.NotEnoughReplicas,
			kafkago.NotEnoughReplicasAfterAppend:
		default:
			if denied(err) && time.Since(began) < min(within/4*3, c.cfg.DialFor) { // it may be given back
				return errors.New(err.Error())
			}
			return err
		}
		if time.Since(began) < warnAfter {
			return err
		}
		if time.Since(looked) >= warnEvery {
			what, looked = c.TooFewReplicas(ctx, true, topics...), time.Now()
		}
		if what == "" {
			return err
		}
		return &tooFewReplicas{what, err}
	})
}

// TooFewReplicas says which of the topics, and of those in which brokers keep transactions, has a partition to which nothing can be
// written, as fewer replicas are in sync than it wants; "" if none is known to. Where a topic wants more than it has, brokers of today are
// content with all of them (KIP-966), and those of before refuse, as refused says.
func (c *Client) TooFewReplicas(ctx context.Context, refused bool, topics ...string) string {
	all := slices.Concat(topics, []string{"__transaction_state", "__consumer_offsets"})
	_, replicas, err := c.Replicas(ctx, all...)
	configs, denied := c.TopicConfigs(ctx, all, MinInSync)
	if errors.Join(err, denied) != nil {
		return ""
	}
	for _, t := range all {
		least, _ := strconv.Atoi(configs[t][MinInSync])
		if r, known := replicas[t]; known && r.InSync < least && (refused || r.InSync < r.All) {
			return fmt.Sprintf("topic %s has a partition with %d of %d replicas in sync, and %s=%d: bring the brokers "+
				"back that have the others", t, r.InSync, r.All, MinInSync, least)
		}
	}
	return ""
}
