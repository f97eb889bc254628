package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// graph is a graph as Kafka has it. Its ledger has one partition with the records of windows, or,
// if several workers share it by shards, one for each shard.
type graph struct {
	client *kafka.Client
	names  topics.Names
	shards int // 0 for a graph that one worker holds
}

// openGraph finds how many workers share a graph.
func openGraph(ctx context.Context, client *kafka.Client, names topics.Names) (graph, error) {
	shards, err := topics.Shards(ctx, client, names)
	return graph{client, names, shards}, err
}

// oneWorkerHas returns an error if several workers share a graph, for commands that read or change
// what only one worker's ledger has.
func oneWorkerHas(ctx context.Context, client *kafka.Client, names topics.Names) error {
	g, err := openGraph(ctx, client, names)
	if err == nil && g.shards > 0 {
		err = fmt.Errorf("the graph of ledger %s has %d shards, and this command needs one that has none (docs/sharding.md)", names.Ledger, g.shards)
	}
	return err
}

// records returns the partitions of the ledger that have the records of windows.
func (g graph) records() (at []kafka.TopicPartition) {
	if g.shards == 0 {
		return []kafka.TopicPartition{g.names.LedgerAt(0)}
	}
	for task := 1; task <= g.shards; task++ {
		at = append(at, g.names.LedgerAt(task))
	}
	return at
}

// scan calls f with the ledger's records that are not older than the time, one partition after the
// other: what each worker made of its windows, and what was learned of them.
func (g graph) scan(ctx context.Context, since time.Time, f func(*ledger.Record)) error {
	all := func(r *ledger.Record) bool { f(r); return true }
	for _, at := range g.records() {
		if err := ledger.ScanSince(ctx, g.client, at, since, all); err != nil {
			return err
		}
	}
	if g.shards == 0 {
		return nil
	}
	return ledger.ScanLearned(ctx, g.client, g.names.LedgerAt(0), since, all)
}

// newest returns the record of the latest window, nil if there is none.
func (g graph) newest(ctx context.Context) (newest *ledger.Record, err error) {
	for _, at := range g.records() {
		r, err := ledger.Newest(ctx, g.client, at)
		if err != nil {
			return nil, err
		}
		if newest == nil || r != nil && r.Window > newest.Window {
			newest = r
		}
	}
	return newest, nil
}

// boundsOf returns the bounds of a topic's partitions, and an error if it does not exist.
func boundsOf(ctx context.Context, client *kafka.Client, topic string) (map[kafka.TopicPartition]kafka.Bounds, error) {
	bounds, err := client.Offsets(ctx, topic)
	if err == nil && len(bounds) == 0 {
		err = fmt.Errorf("topic %s does not exist: check --prefix, or run 'gvbll topics --create'", topic)
	}
	return bounds, err
}

// ledgerWindows returns about how many windows the ledger has, for a progress bar.
func ledgerWindows(ctx context.Context, c *kafka.Client, names topics.Names) (n int, err error) {
	at, err := c.Offsets(ctx, names.Ledger)
	for _, b := range at {
		n += int(b.End - b.First)
	}
	return n, err
}
