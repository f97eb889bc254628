// Package topics names the topics of one graph and creates them. Everything else
// that concerns Kafka is in the packages below it: wire (bytes and values), kafka
// (fetching and transactions), ledger (the commit point), intake (from input topics
// to windows), replay (the windows of a ledger), publish (what comes of a window), audit,
// worker (the loop from fetch to commit), shards (a graph in parts), sender (a data set
// into the topics) and broker (the demo's embedded broker). None of them imports a model.
package topics

import (
	"context"
	"fmt"
	"maps"
	"regexp"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Names are the topics of one deployment, which works on one graph. All have its prefix,
// unless Nodes and Labels are those of another: so several deployments, each with topics
// of its own for all else, work on one stream.
type Names struct {
	Nodes       string // in: node events
	Labels      string // in: labels
	Commands    string // in: an operator's commands; one partition
	Predictions string // out: predictions
	DeadLetters string // out: refused records and the reasons
	Ledger      string // out: where each window was cut; one partition, and one more for each shard
	Exchange    string // between the workers of a sharded graph
}

var legal = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)

// Under returns the topics with the given prefix, which must be 1 to 200 letters,
// digits, dots, underscores or hyphens.
func Under(prefix string) (Names, error) {
	if !legal.MatchString(prefix) {
		return Names{}, fmt.Errorf("prefix %q cannot begin a topic's name: use 1 to 200 letters, digits, '.', '_' or '-'", prefix)
	}
	return Names{
		Nodes:       prefix + ".nodes",
		Labels:      prefix + ".labels",
		Commands:    prefix + ".commands",
		Predictions: prefix + ".predictions",
		DeadLetters: prefix + ".dead-letters",
		Ledger:      prefix + ".ledger",
		Exchange:    prefix + ".exchange",
	}, nil
}

// LedgerAt returns the ledger's partition of a task. A graph without shards has task 0
// alone; in a sharded one task 0 is the lead, and 1 to P are the shards.
func (n Names) LedgerAt(task int) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: n.Ledger, Partition: int32(task)}
}

// TaskName names a task of a sharded graph for people.
func TaskName(task int) string {
	if task == 0 {
		return "lead"
	}
	return fmt.Sprintf("shard %d", task)
}

// All lists the names of the topics that every graph has, inputs first.
func (n Names) All() []string {
	return []string{n.Nodes, n.Labels, n.Commands, n.Predictions, n.DeadLetters, n.Ledger}
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

// Missing returns which of the topics do not exist: those that every graph has, and the
// exchange of one whose ledger has shards.
func Missing(ctx context.Context, c *kafka.Client, n Names) ([]string, error) {
	have, err := c.Partitions(ctx, n.All()...)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, t := range n.All() {
		if have[t] == 0 {
			missing = append(missing, t)
		}
	}
	if have[n.Ledger] > 1 {
		exchange, err := c.Partitions(ctx, n.Exchange)
		if err != nil {
			return nil, err
		}
		if exchange[n.Exchange] == 0 {
			missing = append(missing, n.Exchange)
		}
	}
	return missing, nil
}
