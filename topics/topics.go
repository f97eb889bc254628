// Package topics names the topics of one graph and creates them. Everything else that concerns Kafka
// is in the packages below it: what is in a record, what the ledger says, and who steps, compares or
// sends it. None of them imports a model.
package topics

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Names are the topics of one deployment, which works on one graph. All have its prefix,
// but Nodes and Labels may be any: those of another deployment, so that several, each with
// topics of its own for all else, work on one stream, or those of somebody else's program.
type Names struct {
	Nodes       string // in: node events
	Labels      string // in: labels
	Commands    string // in: an operator's commands; one partition
	Predictions string // out: predictions
	ToLabel     string // out: predictions of nodes of which labels are asked for; one partition
	DeadLetters string // out: refused records and the reasons
	Ledger      string // out: where each window was cut; one partition, see LedgerAt

	// A graph of several cells has a graph in each partition of the topics: that with the number Cell, of Cells. Cells is 0
	// where the topics have one graph, whatever the partitions of its inputs and predictions.
	Cell  int32
	Cells int
}

var (
	legal      = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,200}$`)
	legalTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

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
		ToLabel:     prefix + ".to-label",
		DeadLetters: prefix + ".dead-letters",
		Ledger:      prefix + ".ledger",
	}, nil
}

// Take sets the topics of nodes and labels to those of another prefix, or any.
func (n *Names) Take(nodes, labels string) error {
	for _, topic := range []string{nodes, labels} {
		if !legalTopic.MatchString(topic) || topic == "." || topic == ".." {
			return fmt.Errorf("topic %.300q cannot be one: use 1 to 249 letters, digits, '.', '_' or '-'", topic)
		}
	}
	n.Nodes, n.Labels = nodes, labels
	all := n.All()
	for i, topic := range all {
		if slices.Contains(all[:i], topic) {
			return fmt.Errorf("topic %s cannot be used for two things: give nodes and labels topics of their own", topic)
		}
	}
	return nil
}

// LedgerAt returns the ledger's one partition.
func (n Names) LedgerAt() kafka.TopicPartition { return n.At(n.Ledger) }

// At returns the one partition that the graph has of a topic, or its first one.
func (n Names) At(topic string) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: topic, Partition: n.Cell}
}

// Of returns the names of a cell.
func (n Names) Of(cell int32) Names {
	n.Cell = cell
	return n
}

// Own returns the name of the graph, which no other has: its transactional id, and the name of the folders of its
// checkpoints and bases. It is the ledger's, and of a cell that and the number.
func (n Names) Own() string {
	if n.Cells == 0 {
		return n.Ledger
	}
	return fmt.Sprintf("%s.%d", n.Ledger, n.Cell)
}

// All lists the names of the topics, inputs first.
func (n Names) All() []string {
	return []string{n.Nodes, n.Labels, n.Commands, n.Predictions, n.ToLabel, n.DeadLetters, n.Ledger}
}

// Missing returns which of the topics do not exist.
func Missing(ctx context.Context, c *kafka.Client, n Names) ([]string, error) {
	have, err := c.Partitions(ctx, n.All()...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(n.All(), func(t string) bool { return have[t] > 0 }), nil
}
