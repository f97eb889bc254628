package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics/kafka"
)

// GoneError reports that a graph's ledger is empty or missing though there are traces of an
// earlier one. A worker that went on would predict every node a second time.
type GoneError struct {
	Ledger string
	Found  []string // the traces, in words
}

// Error is one line.
func (e *GoneError) Error() string {
	return fmt.Sprintf("ledger %s is empty or missing, but there are %s: it was deleted or created anew; restore it from a backup or a mirror. If the graph is meant to begin again, with every node of its inputs predicted once more, start 'gvbll work' with --begin-again", e.Ledger, strings.Join(e.Found, " and "))
}

// CheckLedger returns a [GoneError] if the ledger has no record, though there are predictions,
// messages between shards, or group offsets, which workers commit together with the ledger's
// records.
func CheckLedger(ctx context.Context, c *kafka.Client, n Names) error {
	there, err := c.Partitions(ctx, n.Ledger)
	if err != nil {
		return err
	}
	found, err := traces(ctx, c, n, there[n.Ledger] != 1)
	if err != nil || len(found) == 0 {
		return err
	}
	// The first transaction of another worker may be committed just now, and be seen in
	// one topic before the other.
	const tries, pause = 10, 100 * time.Millisecond
	for try := 0; there[n.Ledger] > 0 && try < tries; try++ {
		begun, err := c.HasRecords(ctx, n.Ledger)
		if begun || err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return &GoneError{n.Ledger, found}
}

// traces describes what there is of a graph besides its ledger, which may have shards.
func traces(ctx context.Context, c *kafka.Client, n Names, shards bool) (found []string, err error) {
	predicted, err := c.HasRecords(ctx, n.Predictions)
	if errors.Is(err, kafkago.TopicAuthorizationFailed) {
		err = nil // a worker needs only to write there; the group's offsets remain
	}
	if err != nil {
		return nil, err
	}
	if predicted {
		found = append(found, "predictions in "+n.Predictions)
	}
	if shards {
		exchanged, err := c.HasRecords(ctx, n.Exchange)
		if err != nil {
			return nil, err
		}
		if exchanged {
			found = append(found, "messages between shards in "+n.Exchange)
		}
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

// Recreate creates the topics that are missing, the ledger too if an earlier one is gone. If that
// had shards, as an exchange shows, it gets them again. See [Create].
func Recreate(ctx context.Context, c *kafka.Client, n Names, l Layout) ([]string, error) {
	have, err := c.Partitions(ctx, n.Ledger, n.Exchange)
	if err != nil {
		return nil, err
	}
	if have[n.Exchange] > 2 && have[n.Ledger] == 0 && l.Shards == 0 {
		l.Shards = have[n.Exchange] - 2
	}
	return create(ctx, c, n, l)
}

// create creates the topics that are missing, and checks that they fit each other.
func create(ctx context.Context, c *kafka.Client, n Names, l Layout) ([]string, error) {
	created, err := c.CreateTopics(ctx, specs(n, l)...)
	if err != nil {
		return created, err
	}
	_, err = Shards(ctx, c, n)
	return created, err
}

// Create creates the topics that are missing and returns their names. It creates none, and
// returns a [GoneError], if the ledger is missing and there are traces of an earlier one.
// Commands and dead letters have one partition. The ledger has one, and one more for each shard;
// with shards there is an exchange. Inputs, ledger and exchange are kept for
// ever, because recovery replays them; inputs are stored uncompressed, however
// they are sent. Outputs have the broker's default retention.
//
// A ledger that is there says how many shards the graph has. If the layout has another number
// that is not 0, it is an error.
func Create(ctx context.Context, c *kafka.Client, n Names, l Layout) ([]string, error) {
	missing, err := Missing(ctx, c, n)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(missing, n.Ledger) {
		if l.Shards, err = fixedShards(ctx, c, n, l.Shards); err != nil {
			return nil, err
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	if len(missing) < len(n.All()) && slices.Contains(missing, n.Ledger) {
		if err := CheckLedger(ctx, c, n); err != nil {
			return nil, err
		}
	}
	if slices.Contains(missing, n.Exchange) {
		begun, err := c.HasRecords(ctx, n.Ledger)
		if err != nil {
			return nil, err
		}
		if begun {
			return nil, fmt.Errorf("topic %s is missing, but ledger %s has records: it was deleted, and with it what the shards need of each other; restore it from a backup or a mirror", n.Exchange, n.Ledger)
		}
	}
	if len(missing) < len(n.All()) && slices.Contains(missing, n.Ledger) {
		return Recreate(ctx, c, n, l)
	}
	return create(ctx, c, n, l)
}

// fixedShards returns the number of shards of the ledger that is there.
func fixedShards(ctx context.Context, c *kafka.Client, n Names, wanted int) (int, error) {
	have, err := c.Partitions(ctx, n.Ledger)
	if err != nil {
		return 0, err
	}
	shards := have[n.Ledger] - 1
	if wanted != 0 && wanted != shards {
		return 0, fmt.Errorf("ledger %s has %d partitions, and %d shards need %d: their number is fixed when it is created; leave out --shards, or shard the stream in a second deployment (another --prefix, with --inputs-prefix for this one's inputs)", n.Ledger, shards+1, wanted, wanted+1)
	}
	return shards, nil
}
