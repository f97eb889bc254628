package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
)

// TaskName names a task of a sharded graph for people.
func TaskName(task int) string {
	if task == 0 {
		return "lead"
	}
	return fmt.Sprintf("shard %d", task)
}

// Layout is how the topics of a graph are divided.
type Layout struct {
	Partitions  int // of nodes, labels and predictions
	Replication int // -1 for the broker's default
	Shards      int // of the graph, 0 for one without shards
}

// MaxShards bounds the shards of a graph: more save hardly any memory (docs/sharding.md).
const MaxShards = 64

// specs describes the topics, see [Create].
func specs(n Names, l Layout) []kafka.TopicSpec {
	keep := map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
	// The broker then refuses a batch that would decompress to gigabytes.
	input := maps.Clone(keep)
	input["compression.type"] = "uncompressed"
	partitions, replication := l.Partitions, l.Replication
	all := []kafka.TopicSpec{
		{Name: n.Nodes, Partitions: partitions, Replication: replication, Config: input},
		{Name: n.Labels, Partitions: partitions, Replication: replication, Config: input},
		{Name: n.Commands, Partitions: 1, Replication: replication, Config: input},
		{Name: n.Predictions, Partitions: partitions, Replication: replication},
		{Name: n.ToLabel, Partitions: 1, Replication: replication},
		{Name: n.DeadLetters, Partitions: 1, Replication: replication},
		{Name: n.Ledger, Partitions: 1 + l.Shards, Replication: replication, Config: keep},
	}
	if l.Shards > 0 {
		exchange := maps.Clone(keep)
		exchange["cleanup.policy"] = "delete" // its records have no keys
		all = append(all, kafka.TopicSpec{Name: n.Exchange, Partitions: 2 + l.Shards, Replication: replication, Config: exchange})
	}
	return all
}

// Shards returns the number of shards of a graph, 0 for one without shards and for one whose
// ledger does not exist. It is the number of the ledger's partitions without the lead's. The
// partitions of ledger and exchange must fit each other.
func Shards(ctx context.Context, c *kafka.Client, n Names) (int, error) {
	have, err := c.Partitions(ctx, n.Ledger)
	if err != nil || have[n.Ledger] <= 1 {
		return 0, err
	}
	shards := have[n.Ledger] - 1
	if shards == 1 || shards > MaxShards {
		return 0, fmt.Errorf("ledger %s has %d partitions: it needs 1, or for a graph of 2 to %d shards one more than shards ('gvbll topics --create --shards')", n.Ledger, shards+1, MaxShards)
	}
	if have, err = c.Partitions(ctx, n.Exchange); err != nil {
		return 0, err
	}
	switch got := have[n.Exchange]; got {
	case shards + 2:
		return shards, nil
	case 0:
		return 0, fmt.Errorf("ledger %s has %d partitions, so the graph has %d shards, but there is no topic %s: 'gvbll topics --create' creates it if the graph has not begun; else restore it from a backup or a mirror", n.Ledger, shards+1, shards, n.Exchange)
	default:
		return 0, fmt.Errorf("ledger %s has %d partitions, so the graph has %d shards and %s needs %d partitions, but it has %d: restore the one that was changed from a backup or a mirror", n.Ledger, shards+1, shards, n.Exchange, shards+2, got)
	}
}

// CheckWhole returns an error if a graph has shards: no worker steps it whole.
func CheckWhole(ctx context.Context, c *kafka.Client, n Names) error {
	shards, err := Shards(ctx, c, n)
	if err == nil && shards > 0 {
		err = fmt.Errorf("ledger %s is of a graph of %d shards, and this worker would step a whole graph", n.Ledger, shards)
	}
	return err
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
// returns a [GoneError], if the ledger is missing and there are leftovers of an earlier one.
// Commands, nodes to be labelled and dead letters have one partition. The ledger has one, and one more for each shard;
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
		if err := CheckLedger(ctx, c, n); err != nil {
			return nil, err
		}
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
