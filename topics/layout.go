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
	Partitions  int // of nodes, labels and predictions, where there is one cell
	Replication int // -1 for the broker's default
	// Cells is how many graphs the topics have, each in one partition of every topic. Zero is one.
	Cells int
}

// specs describes the topics, see [Create].
func specs(n Names, l Layout) []kafka.TopicSpec {
	keep := map[string]string{"retention.ms": "-1", "retention.bytes": "-1"}
	// The broker then refuses a batch that would decompress to gigabytes.
	input := maps.Clone(keep)
	input["compression.type"] = "uncompressed"
	partitions, single, replication := l.Partitions, max(l.Cells, 1), l.Replication
	if l.Cells > 1 {
		partitions = l.Cells
	}
	return []kafka.TopicSpec{
		{Name: n.Nodes, Partitions: partitions, Replication: replication, Config: input},
		{Name: n.Labels, Partitions: partitions, Replication: replication, Config: input},
		{Name: n.Commands, Partitions: single, Replication: replication, Config: input},
		{Name: n.Predictions, Partitions: partitions, Replication: replication},
		{Name: n.ToLabel, Partitions: single, Replication: replication},
		{Name: n.DeadLetters, Partitions: single, Replication: replication},
		{Name: n.Ledger, Partitions: single, Replication: replication, Config: keep},
	}
}

// Divided returns the names with the number of cells that the ledger has. It is an error if the other topics are divided
// otherwise: partitions were added to one of them, or it is the ledger of a graph with shards.
func Divided(ctx context.Context, c *kafka.Client, n Names) (Names, error) {
	n.Cells = 0
	have, err := c.Partitions(ctx, n.Ledger) // whoever has no right to the others may ask for it
	cells := have[n.Ledger]
	if err != nil || cells <= 1 {
		return n, err
	}
	if have, err = c.Partitions(ctx, n.All()...); err != nil {
		return n, err
	}
	if have[n.Commands] == 1 {
		return n, fmt.Errorf("ledger %s has %d partitions, and is read with 1: a graph with shards has more, and gvbll "+
			"1.0.0 serves it; of any other graph, restore the topic from a backup or a mirror", n.Ledger, cells)
	}
	n.Cells = cells
	for _, topic := range n.All() {
		if p, there := have[topic]; there && p != cells {
			return n, fmt.Errorf("topic %s has %d partitions, and ledger %s has %d: each is a cell, and a producer sends keys "+
				"elsewhere once there are more; if they are meant, run 'gvbll topics --create --cells %d'", topic, p, n.Ledger,
				cells, max(p, cells))
		}
	}
	return n, nil
}

// addCells adds partitions to the topics of a graph of several cells, so that there are so many.
func addCells(ctx context.Context, c *kafka.Client, n Names, cells int) error {
	have, err := c.Partitions(ctx, n.All()...)
	now := have[n.Ledger]
	if err != nil || now == 0 {
		return err
	}
	if cells < now || now == 1 && cells > 1 {
		return fmt.Errorf("ledger %s has %d partitions, and --cells is %d: a graph keeps the cells that it has, and one that "+
			"began with one cell keeps one; begin another graph with another --prefix", n.Ledger, now, cells)
	}
	more := make(map[string]int)
	for topic, p := range have {
		if p < cells {
			more[topic] = cells
		}
	}
	return c.AddPartitions(ctx, more)
}

// Recreate creates the topics that are missing, the ledger too if an earlier one is gone. See [Create].
func Recreate(ctx context.Context, c *kafka.Client, n Names, l Layout) ([]string, error) {
	created, err := c.CreateTopics(ctx, specs(n, l)...)
	if err != nil {
		return created, err
	}
	_, err = Divided(ctx, c, n)
	return created, err
}

// Create creates the topics that are missing and returns their names. It creates none, and
// returns a [GoneError], if the ledger is missing and there are leftovers of an earlier one.
// Commands, nodes to be labelled, dead letters and the ledger have one partition, or all topics one for each cell, which are
// added where there are fewer. Inputs and ledger
// are kept for ever, because recovery replays them; inputs are stored uncompressed, however they are
// sent. Outputs have the broker's default retention.
func Create(ctx context.Context, c *kafka.Client, n Names, l Layout) ([]string, error) {
	if l.Cells > 1 {
		if err := addCells(ctx, c, n, l.Cells); err != nil {
			return nil, err
		}
	}
	missing, err := Missing(ctx, c, n)
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		_, err := Divided(ctx, c, n)
		return nil, err
	}
	if len(missing) < len(n.All()) && slices.Contains(missing, n.Ledger) {
		if err := CheckLedger(ctx, c, n); err != nil {
			return nil, err
		}
	}
	return Recreate(ctx, c, n, l)
}
