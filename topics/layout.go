package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Layout is how the topics of a graph are divided.
type Layout struct {
	Partitions  int // of nodes, labels and predictions
	Replication int // -1 for the broker's default
}

// specs describes the topics, see [Create].
func specs(n Names, l Layout) []kafka.TopicSpec {
	keep := map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
	// The broker then refuses a batch that would decompress to gigabytes.
	input := maps.Clone(keep)
	input["compression.type"] = "uncompressed"
	partitions, replication := l.Partitions, l.Replication
	return []kafka.TopicSpec{
		{Name: n.Nodes, Partitions: partitions, Replication: replication, Config: input},
		{Name: n.Labels, Partitions: partitions, Replication: replication, Config: input},
		{Name: n.Commands, Partitions: 1, Replication: replication, Config: input},
		{Name: n.Predictions, Partitions: partitions, Replication: replication},
		{Name: n.ToLabel, Partitions: 1, Replication: replication},
		{Name: n.DeadLetters, Partitions: 1, Replication: replication},
		{Name: n.Ledger, Partitions: 1, Replication: replication, Config: keep},
	}
}

// CheckWhole returns an error if the ledger has several partitions, as those of graphs with shards had.
func CheckWhole(ctx context.Context, c *kafka.Client, n Names) error {
	have, err := c.Partitions(ctx, n.Ledger)
	if err == nil && have[n.Ledger] > 1 {
		err = fmt.Errorf("ledger %s has %d partitions, and is read with 1: a graph with shards has more, and gvbll "+
			"1.0.0 serves it; of any other graph, restore the topic from a backup or a mirror", n.Ledger, have[n.Ledger])
	}
	return err
}

// Recreate creates the topics that are missing, the ledger too if an earlier one is gone. See [Create].
func Recreate(ctx context.Context, c *kafka.Client, n Names, l Layout) ([]string, error) {
	created, err := c.CreateTopics(ctx, specs(n, l)...)
	if err != nil {
		return created, err
	}
	return created, CheckWhole(ctx, c, n)
}

// Create creates the topics that are missing and returns their names. It creates none, and
// returns a [GoneError], if the ledger is missing and there are leftovers of an earlier one.
// Commands, nodes to be labelled, dead letters and the ledger have one partition. Inputs and ledger
// are kept for ever, because recovery replays them; inputs are stored uncompressed, however they are
// sent. Outputs have the broker's default retention.
func Create(ctx context.Context, c *kafka.Client, n Names, l Layout) ([]string, error) {
	missing, err := Missing(ctx, c, n)
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		return nil, CheckWhole(ctx, c, n)
	}
	if len(missing) < len(n.All()) && slices.Contains(missing, n.Ledger) {
		if err := CheckLedger(ctx, c, n); err != nil {
			return nil, err
		}
	}
	return Recreate(ctx, c, n, l)
}
