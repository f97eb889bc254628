// Package look reads a graph as Kafka has it, and prints it.
package look

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Graph is a graph as Kafka has it.
type Graph struct {
	Client *kafka.Client
	Names  topics.Names
}

// connector is flags that name a graph and its brokers.
type connector interface {
	Connect(ctx context.Context, p flags.Process) (*kafka.Client, topics.Names, error)
}

// ConnectWhole connects to Kafka, and refuses a ledger that this program does not read. It returns the whole graph, or the flag's
// cell. The client is to be closed.
func ConnectWhole(ctx context.Context, p flags.Process, to connector, only flags.Cell) (Graph, error) {
	client, names, err := to.Connect(ctx, p)
	if err != nil {
		return Graph{}, err
	}
	if names, err = topics.Divided(ctx, client, names); err == nil {
		names, err = only.Of(names)
	}
	if err == nil {
		err = takeInputs(ctx, client, &names)
	}
	switch {
	case err != nil:
		client.Close()
		return Graph{}, err
	case only.Cell != nil:
		return Graph{client, names}.of(names.Cell), nil
	case names.Cells > 0:
		client = client.Sharing() // there may be readers of all cells
	}
	return Graph{client, names}, nil
}

// takeInputs takes the topics of nodes and labels from the ledger's first record, unless flags name others than the prefix gives.
func takeInputs(ctx context.Context, client *kafka.Client, names *topics.Names) error {
	prefix := strings.TrimSuffix(names.Ledger, ".ledger")
	there, err := client.Partitions(ctx, names.Ledger)
	if err != nil || there[names.Ledger] == 0 || names.Nodes != prefix+".nodes" || names.Labels != prefix+".labels" {
		return err
	}
	return ledger.Scan(ctx, client, names.LedgerAt(), func(r *ledger.Record) bool {
		if len(r.Inputs) > 1 {
			names.Nodes, names.Labels = r.Inputs[0].Topic, r.Inputs[1].Topic // as Begins orders them
		}
		return false
	})
}

// ConnectAll is ConnectWhole for a command that works on one graph after the other: it returns that of the flag's cell, or those
// of all cells, in their order, and what closes the connection. A graph that is not divided is all.
func ConnectAll(ctx context.Context, p flags.Process, to connector, only flags.Cell) (graphs []Graph, done func(), err error) {
	whole, err := ConnectWhole(ctx, p, to, only)
	if err != nil {
		return nil, nil, err
	}
	if only.Cell != nil {
		return []Graph{whole}, whole.Client.Close, nil
	}
	return whole.All(), whole.Client.Close, nil
}

// All returns the graphs of all cells, or a graph that is not divided.
func (g Graph) All() []Graph {
	if g.Names.Cells == 0 {
		return []Graph{g}
	}
	var all []Graph
	for number := range g.Names.Cells {
		all = append(all, g.of(int32(number)))
	}
	return all
}

// of returns the graph of a cell.
func (g Graph) of(cell int32) Graph { return Graph{g.Client.Cell(cell), g.Names.Of(cell)} }

// Connect is ConnectAll for a command that is about one graph. The client is to be closed.
func Connect(ctx context.Context, p flags.Process, to connector, only flags.Cell) (Graph, error) {
	graphs, done, err := ConnectAll(ctx, p, to, only)
	if err != nil {
		return Graph{}, err
	}
	if n := len(graphs); n > 1 {
		done()
		return Graph{}, flags.Usagef("the graph has %d cells: give --cell, 0 to %d", n, n-1)
	}
	return graphs[0], nil
}

// Label returns what the graph is called among those that are printed, "" if it is the only one.
func (g Graph) Label() string {
	if g.Names.Cells == 0 {
		return ""
	}
	return fmt.Sprintf("cell %d: ", g.Names.Cell)
}

// scan calls f with the ledger's records that are not older than the time.
func (g Graph) scan(ctx context.Context, since time.Time, f func(*ledger.Record)) error {
	at := g.Names.LedgerAt()
	offsets, err := g.Client.OffsetsAt(ctx, at.Topic, since)
	if err != nil {
		return err
	}
	return ledger.ScanFrom(ctx, g.Client, at, offsets[at], func(r *ledger.Record) bool { f(r); return true })
}

// begins returns when the first window was stepped that the ledger still has, zero if it has all.
func (g Graph) begins(ctx context.Context) (at time.Time, err error) {
	l := g.Names.LedgerAt()
	bounds, err := g.Client.Offsets(ctx, l.Topic)
	if err != nil || bounds[l].First == 0 {
		return at, err
	}
	err = ledger.ScanFrom(ctx, g.Client, l, bounds[l].First, func(r *ledger.Record) bool {
		at = r.Stepped
		return false
	})
	return at, err
}

// TakesClasses says by what labels name a class of the model that serves, "" if the record with the classes is gone.
func (g Graph) TakesClasses(ctx context.Context, newest *ledger.Record) (string, error) {
	first, err := ledger.FindSettings(ctx, g.Client, g.Names.LedgerAt(), newest.Settings)
	if err != nil || first == nil || first.Classes == nil {
		return "", err
	}
	return takes(first.Classes, event.Numbered(first.Classes) && !first.Configuration.FirstReading()), nil
}

// takes says by what labels name these classes: the first of many.
func takes(classes []string, byName bool) string {
	const most = 20
	list := strings.Join(classes[:min(len(classes), most)], ", ")
	if len(classes) > most {
		list += fmt.Sprintf(" and %d more", len(classes)-most)
	}
	if byName {
		return list + "; numbers in labels are names"
	}
	return list + "; numbers in labels are indices, from 0"
}

// Classes returns the names of the classes of the models that the ledger has, or those of all cells, by model.
func (g Graph) Classes(ctx context.Context) (map[string][]string, error) {
	all := make(map[string][]string)
	for _, of := range g.All() {
		if err := of.addClasses(ctx, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (g Graph) addClasses(ctx context.Context, all map[string][]string) error {
	return g.scan(ctx, time.Time{}, func(r *ledger.Record) {
		switch {
		case r.Classes == nil:
		case r.Begins == nil:
			all[r.Promoted] = r.Classes
		default:
			all[r.Model] = r.Classes
		}
	})
}

// BoundsOf returns the bounds of a topic's partitions, and an error if it does not exist.
func BoundsOf(ctx context.Context, client *kafka.Client, topic string) (map[kafka.TopicPartition]kafka.Bounds, error) {
	bounds, err := client.Offsets(ctx, topic)
	if err == nil && len(bounds) == 0 {
		err = fmt.Errorf("topic %s does not exist: check --prefix, or run 'gvbll topics --create'", topic)
	}
	return bounds, err
}

// LedgerWindows returns about how many windows the ledger has, for a progress bar.
func LedgerWindows(ctx context.Context, c *kafka.Client, names topics.Names) (n int, err error) {
	at, err := c.Offsets(ctx, names.Ledger)
	for _, b := range at {
		n += int(b.End - b.First)
	}
	return n, err
}
