// Package look reads a graph as Kafka has it, and prints it.
package look

import (
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	sharding "github.com/gvbll/gvbll/topics/shards"
	"github.com/gvbll/gvbll/topics/shards/cuts"
)

// Graph is a graph as Kafka has it. Its ledger has one partition with the records of windows, or,
// if several workers share it by shards, one for each shard.
type Graph struct {
	Client *kafka.Client
	Names  topics.Names
	Shards int // 0 for a graph that one worker holds
}

// connector is flags that name a graph and its brokers.
type connector interface {
	Connect(ctx context.Context, p flags.Process) (*kafka.Client, topics.Names, error)
}

// Connect connects to Kafka, and finds how many workers share a graph. The client is to be closed.
func Connect(ctx context.Context, p flags.Process, to connector) (Graph, error) {
	client, names, err := to.Connect(ctx, p)
	if err != nil {
		return Graph{}, err
	}
	shards, err := topics.Shards(ctx, client, names)
	if err != nil {
		client.Close()
	}
	return Graph{client, names, shards}, err
}

// Undivided returns an error if several workers share the graph, for commands that read or change
// what only one worker's ledger has.
func (g Graph) Undivided() error {
	if g.Shards == 0 {
		return nil
	}
	return fmt.Errorf("the graph of ledger %s has %d shards, and this command needs one that has none (docs/sharding.md)", g.Names.Ledger, g.Shards)
}

// Records returns the partitions of the ledger that have the records of windows.
func (g Graph) Records() (at []kafka.TopicPartition) {
	if g.Shards == 0 {
		return []kafka.TopicPartition{g.Names.LedgerAt(0)}
	}
	for task := 1; task <= g.Shards; task++ {
		at = append(at, g.Names.LedgerAt(task))
	}
	return at
}

// open returns the ledger's records from the first window on.
func (g Graph) open(ctx context.Context) (ledger.Records, error) {
	if g.Shards == 0 {
		return ledger.Open(ctx, g.Client, g.Names.LedgerAt(0))
	}
	return cuts.OpenRecords(ctx, g.Client, g.Names.LedgerAt(0))
}

// windows calls visit with the first n windows of the ledger, whose records become events as
// these settings say.
func (g Graph) windows(ctx context.Context, n int64, s event.Settings, visit func(*event.Window) error) error {
	cfg := replay.Config{Terms: &replay.Terms{Names: g.Names, Settings: s}}
	if g.Shards > 0 {
		return sharding.Windows(ctx, g.Client, cfg, n, visit)
	}
	return replay.Windows(ctx, g.Client, cfg, n, visit)
}

// scan calls f with the ledger's records that are not older than the time, one partition after the
// other: what each worker made of its windows, and what was learned of them.
func (g Graph) scan(ctx context.Context, since time.Time, f func(*ledger.Record)) error {
	all := func(r *ledger.Record) bool { f(r); return true }
	for _, at := range g.Records() {
		if err := ledger.ScanSince(ctx, g.Client, at, since, all); err != nil {
			return err
		}
	}
	if g.Shards == 0 {
		return nil
	}
	return cuts.ScanLearned(ctx, g.Client, g.Names.LedgerAt(0), since, all)
}

// Classes returns the names of the classes of the models that the ledger has, by model.
func (g Graph) Classes(ctx context.Context) (map[string][]string, error) {
	all := make(map[string][]string)
	err := g.scan(ctx, time.Time{}, func(r *ledger.Record) {
		switch {
		case r.Classes == nil:
		case r.Begins == nil:
			all[r.Promoted] = r.Classes
		default:
			all[r.Model] = r.Classes
		}
	})
	return all, err
}

// newest returns the record of the latest window, nil if there is none.
func (g Graph) newest(ctx context.Context) (newest *ledger.Record, err error) {
	for _, at := range g.Records() {
		r, err := ledger.Newest(ctx, g.Client, at)
		if err != nil {
			return nil, err
		}
		if newest == nil || r != nil && r.Window > newest.Window {
			newest = r
		}
	}
	return newest, nil
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
