package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	stream "github.com/gvbll/gvbll/topics/sender"
)

// Setup holds what every trial needs.
type Setup struct {
	Program string // the gvbll binary; for Crash built with the tag crashpoints
	Model   string // a model file
	// Shadow is the file of a second model, to run in the shadow, and ShadowID its id.
	// Both are empty for none.
	Shadow, ShadowID string
	Head             string        // what serves: pool or paper
	Flags            []string      // further flags of the workers
	Bases            string        // of [Crash] and [Soak]: a folder or bucket of bases; "" for none, or a folder of Soak's own
	Small            bool          // the models keep little of each node
	Items            []stream.Item // nodes that fit the model, in the order of their arrival
	Seed             uint64        // of everything random
	Report           func(progress string)
	Cluster          cluster
	Brokers          []string // addresses of the cluster
	Client           *kafka.Client
	access           []string  // flags by which commands log in
	login            []kgo.Opt // the same for clients of franz-go
	Dir              string    // for checkpoints and logs
}

// client returns a client of franz-go.
func (s *Setup) client(options ...kgo.Opt) *kgo.Client {
	return need(kgo.NewClient(slices.Concat([]kgo.Opt{kgo.SeedBrokers(s.Brokers...)}, s.login, options)...))
}

// session is the workers' session timeout, the shortest that test brokers allow.
const session = time.Second

// graph is the topics of one graph.
type graph struct {
	setup  *Setup
	names  topics.Names
	prefix string
	dir    string // for checkpoints and logs
	http   string // --http of its workers

	mu      sync.Mutex
	started []*process
}

// end kills all that still runs of what the graph has started.
func (g *graph) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.started {
		p.kill()
	}
}

// newGraph creates the topics of a graph, whose prefix begins with the name.
func (s *Setup) newGraph(ctx context.Context, name string) *graph {
	return s.divided(ctx, unique(name), topics.Layout{Partitions: partitions, Replication: -1})
}

// unique returns a prefix that begins with the name.
func unique(name string) string { return fmt.Sprintf("%s-%d", name, time.Now().UnixNano()%1e9) }

// divided creates the topics of a graph with a layout.
func (s *Setup) divided(ctx context.Context, prefix string, layout topics.Layout) *graph {
	names := need(topics.Under(prefix))
	need(topics.Create(ctx, s.Client, names, layout))
	names = need(topics.Divided(ctx, s.Client, names))
	g := &graph{setup: s, names: names, prefix: prefix, dir: filepath.Join(s.Dir, prefix), http: "127.0.0.1:0"}
	must(os.MkdirAll(g.dir, 0o755))
	return g
}

// ends returns the present ends of the partitions of nodes and labels.
func (g *graph) ends(ctx context.Context) map[kafka.TopicPartition]int64 {
	bounds := need(g.setup.Client.Offsets(ctx, g.names.Nodes, g.names.Labels))
	ends := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		ends[at] = b.End
	}
	return ends
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

// verdict is what a trial found of the guarantee.
type verdict struct {
	Lost        int      `json:"lost"`        // nodes that were not predicted
	Duplicated  int      `json:"duplicated"`  // predictions and dead letters that were published twice
	Unequal     int      `json:"unequal"`     // runs whose audit found a difference, or that differ from the undisturbed one
	Unexplained int      `json:"unexplained"` // workers that ended otherwise than they should
	Wrong       []string `json:"wrong,omitempty"`
}

// errBroken is the error of a trial that found the guarantee broken.
var errBroken = errors.New("the guarantee does not hold")

// Err returns an error if anything was lost, duplicated, unequal or unexplained.
func (v *verdict) Err() error {
	if v.Lost+v.Duplicated+v.Unequal+v.Unexplained > 0 {
		return errBroken
	}
	return nil
}

// unexplained counts a worker that ended otherwise than it should.
func (v *verdict) unexplained(format string, args ...any) {
	v.Unexplained++
	v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
}

// ended counts a worker that has ended by itself.
func (v *verdict) ended(p *process) {
	v.unexplained("a worker ended with %v, see %s: %s", p.err, p.log.Name(), p.lastLine())
}

// ends ends a worker, as an operator does.
func (v *verdict) ends(p *process) {
	if err := p.stop(); err != nil {
		v.ended(p)
	}
}

// predicted counts a node that was predicted so many times.
func (v *verdict) predicted(times int) {
	switch times {
	case 0:
		v.Lost++
	case 1:
	default:
		v.Duplicated++
	}
}

// audited audits what was published.
func (g *graph) audited(ctx context.Context, v *verdict) {
	if err := g.audit(ctx); err != nil {
		v.Unequal++
		v.Wrong = append(v.Wrong, err.Error())
	}
}

// judge reads what was published, of which the nodes with the ids below n must each be
// predicted once, and audits it. No worker may be running.
func (g *graph) judge(ctx context.Context, n int, v *verdict) *published {
	got := g.read(ctx, numbered(n))
	v.Lost, v.Duplicated, v.Wrong = got.lost, got.twice, append(v.Wrong, got.faults...)
	g.audited(ctx, v)
	return got
}

// numbered returns the ids below n.
func numbered(n int) []event.ID {
	ids := make([]event.ID, n)
	for i := range ids {
		ids[i] = event.ID{Num: int64(i)}
	}
	return ids
}

// audit runs gvbll audit on the published records.
func (g *graph) audit(ctx context.Context) error {
	args := append([]string{"audit", "--model", g.setup.Model}, g.setup.shadowFlag()...)
	if g.setup.Bases != "" && need(ledger.Newest(ctx, g.setup.Client, g.names.LedgerAt())).Bases != nil {
		args = append(args, "--from", "latest", "--base", g.setup.Bases)
	}
	return g.gvbll(ctx, args...)
}

// gvbll runs a command on the graph.
func (g *graph) gvbll(ctx context.Context, args ...string) error {
	args = append(append(args, "--brokers", strings.Join(g.setup.Brokers, ","), "--prefix", g.prefix), g.setup.access...)
	cmd := exec.CommandContext(ctx, g.setup.Program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("gvbll %s: %w: %s", args[0], err, out[max(len(out)-500, 0):]) // progress comes before it
	}
	return nil
}
