package topics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics/kafka"
)

// GoneError reports that a graph's ledger is empty or missing though there are leftovers of
// an earlier one. A worker that went on would predict every node a second time.
type GoneError struct {
	Ledger string
	Found  []string // the leftovers, in words
}

// Error is one line.
func (e *GoneError) Error() string {
	return fmt.Sprintf("ledger %s is empty or missing, but there are %s: it was deleted or created anew; restore it "+
		"from a backup or a mirror. If its topic is the same, 'gvbll rebase --accept-gap' goes on from a checkpoint. If the "+
		"graph is meant to begin again, with every node of its inputs predicted once more, start 'gvbll work' with "+
		"--begin-again", e.Ledger, strings.Join(e.Found, " and "))
}

// CheckLedger returns a [GoneError] if the ledger has no record, though there are predictions
// or group offsets, which workers commit together with the ledger's records.
func CheckLedger(ctx context.Context, c *kafka.Client, n Names) error {
	there, err := c.Partitions(ctx, n.Ledger)
	if err != nil {
		return err
	}
	found, err := leftovers(ctx, c, n)
	if err != nil || len(found) == 0 {
		return err
	}
	// The first transaction of another worker may be committed just now, and be seen in
	// one topic before the other.
	const tries, pause = 10, 100 * time.Millisecond
	for try := 0; there[n.Ledger] > 0 && try < tries; try++ {
		begun, err := hasRecords(ctx, c, n.Ledger)
		if begun || err != nil {
			return err
		}
		if err := kafka.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	return &GoneError{n.Ledger, found}
}

// leftovers describes what there is of a graph besides its ledger.
func leftovers(ctx context.Context, c *kafka.Client, n Names) (found []string, err error) {
	predicted, err := hasRecords(ctx, c, n.Predictions)
	if errors.Is(err, kafkago.TopicAuthorizationFailed) {
		err = nil // a worker needs only to write there; the group's offsets remain
	}
	if err != nil {
		return nil, err
	}
	if predicted {
		found = append(found, "predictions in "+n.Predictions)
	}
	committed, err := c.Committed(ctx, n.Ledger, n.Nodes, n.Labels, n.Commands)
	if err != nil {
		return nil, err
	}
	for _, topic := range []string{n.Nodes, n.Labels, n.Commands} {
		sum := int64(0)
		for at, offset := range committed {
			if at.Topic == topic {
				sum += offset
			}
		}
		if sum > 0 {
			found = append(found, fmt.Sprintf("offsets up to which group %s has read %s (%d in all)", n.Ledger, topic, sum))
			break
		}
	}
	return found, nil
}

// hasRecords reports whether a topic has, or has had and deleted, a committed record. One that
// does not exist has none.
func hasRecords(ctx context.Context, c *kafka.Client, topic string) (found bool, err error) {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return false, err
	}
	for _, b := range bounds {
		found = found || b.First > 0
	}
	if found {
		return true, nil
	}
	err = c.ReadTo(ctx, kafka.Firsts(bounds), bounds, func(*kafka.Record) bool {
		found = true
		return false
	})
	return found, err
}
