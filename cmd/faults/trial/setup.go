package trial

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
)

// Setup holds what every trial needs.
type Setup struct {
	Program string // the gvbll binary; for Crash built with the tag crashpoints
	Model   string // a model file
	// Shadow is the file of a second model, to run in the shadow, and ShadowID its id.
	// Both are empty for none.
	Shadow, ShadowID string
	Flags            []string // further flags of the workers
	Shards           int      // of the graphs, 0 for graphs without shards
	Items            []Item   // nodes that fit the model, in the order of their arrival
	Brokers          []string // addresses of the cluster
	Dir              string   // for checkpoints and logs
}

// Item is a node and its class.
type Item struct {
	Node  event.Node
	Class string
}

// session is the workers' session timeout, the shortest that test brokers allow.
const session = time.Second

// graph is the topics of one graph.
type graph struct {
	*Setup
	client *kafka.Client
	names  topics.Names
	prefix string
	dir    string // for checkpoints and logs
	http   string // --http of its workers
}

// newGraph creates the topics of a graph.
func (s *Setup) newGraph(ctx context.Context, c *kafka.Client, prefix string) (*graph, error) {
	names, err := topics.Under(prefix)
	if err != nil {
		return nil, err
	}
	if _, err := topics.Create(ctx, c, names, topics.Layout{Partitions: partitions, Replication: -1, Shards: s.Shards}); err != nil {
		return nil, err
	}
	g := &graph{Setup: s, client: c, names: names, prefix: prefix, dir: filepath.Join(s.Dir, prefix), http: "127.0.0.1:0"}
	return g, os.MkdirAll(g.dir, 0o755)
}

// records returns the partitions of the ledger that hold the records of windows that were
// stepped: each shard's own, if the graph has any.
func (g *graph) records() (all []kafka.TopicPartition) {
	if g.Shards == 0 {
		return append(all, g.names.LedgerAt(0))
	}
	for shard := range g.Shards {
		all = append(all, g.names.LedgerAt(1+shard))
	}
	return all
}

// ends returns the present ends of the partitions of nodes and labels.
func (g *graph) ends(ctx context.Context) (map[kafka.TopicPartition]int64, error) {
	bounds, err := g.client.Offsets(ctx, g.names.Nodes, g.names.Labels)
	if err != nil {
		return nil, err
	}
	ends := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		ends[at] = b.End
	}
	return ends, nil
}

// partitions is the number of partitions of each input topic.
const partitions = 3

// shadowFlag returns the flag of worker and audit for the model in the shadow, if there
// is one.
func (s *Setup) shadowFlag() []string {
	if s.Shadow == "" {
		return nil
	}
	return []string{"--shadow", s.Shadow}
}

// audit runs gvbll audit on the published records.
func (g *graph) audit(ctx context.Context) error {
	args := append([]string{"audit", "--brokers", strings.Join(g.Brokers, ","), "--prefix", g.prefix, "--model", g.Model}, g.shadowFlag()...)
	if out, err := exec.CommandContext(ctx, g.Program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("the audit: %w: %.500s", err, out)
	}
	return nil
}
