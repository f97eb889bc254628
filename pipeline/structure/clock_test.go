package structure_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/gnn/snapshot/snapshottest"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/structure"
)

const (
	second = 1000
	minute = 60 * second
	day    = 24 * 60 * minute
)

// clocked is a graph that keeps nodes and edges for a time, with the true time of each node's last event.
type clocked struct {
	t     *testing.T
	model *model.Model
	keep  structure.Keep
	nodes *structure.Nodes
	graph *gnn.Graph
	named map[event.ID]int64
	next  int64
	now   int64 // true
	left  int
}

// nobody waits for a label.
type nobody struct{}

func (nobody) Waits(int32) bool { return false }
func (nobody) Drop(int32)       {}

func newClocked(t *testing.T, k structure.Keep) *clocked {
	c := &clocked{
		t: t, model: pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 49)), gnn.KindSAGE, 1), keep: k,
		named: make(map[event.ID]int64), now: 1_700_000_000_000,
	}
	c.empty()
	return c
}

// empty has the graph begin.
func (c *clocked) empty() {
	c.graph = gnn.NewGraph(c.model.Encoder)
	c.nodes = structure.New(structure.Config{
		Encoder: c.model.Encoder, Normalizer: c.model.Normalizer, Classes: len(c.model.Classes), WaitingEdges: 1000, Keep: c.keep,
	}, c.graph, nobody{})
}

func (c *clocked) state(s *snapshot.Schema) {
	c.graph.State(s)
	c.nodes.State(s)
	c.nodes.WaitingState(s)
}

// bytes returns the saved state.
func (c *clocked) bytes() []byte {
	c.t.Helper()
	saving := snapshot.Saving()
	c.state(saving)
	defer saving.Release()
	stream, err := safetensors.NewStream(nil, saving.Parts())
	if err != nil {
		c.t.Fatal(err)
	}
	b, err := io.ReadAll(stream)
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

// node returns a new node, with an edge to the one before, by a clock that is so far ahead.
func (c *clocked) node(ahead int64) event.Node {
	c.next++
	id := event.ID{Num: c.next}
	c.named[id] = c.now
	at := max(c.now+ahead, 1)
	return event.Node{
		Origin: &event.Origin{Time: at}, ID: id, Dense: make([]float32, c.model.Encoder.In()), Context: true, Time: at,
		Neighbours: []event.ID{{Num: c.next - 1}},
	}
}

// step enters a window. Whatever leaves must have been named a keep ago, by the true time.
func (c *clocked) step(keep structure.Keep, nodes ...event.Node) *event.Outcome {
	c.t.Helper()
	out := new(event.Outcome)
	c.nodes.Enter(nodes, out)
	for _, n := range c.nodes.Overdue() {
		if age := c.now - c.named[n.ID]; n.Departed && age <= keep.Nodes {
			c.t.Fatalf("node %v leaves after %d s", n.ID, age/1000)
		} else if n.Departed {
			c.left++
		}
		for _, e := range n.Edges {
			if age := c.now - c.named[e.Source]; age <= keep.Edges {
				c.t.Fatalf("the edge of %v and %v leaves after %d s", e.Source, e.Target, age/1000)
			}
		}
	}
	return out
}

// TestOneClockIsNotBelieved: 100 records of one producer whose clock is 55 minutes ahead, and 52 of one that is a century
// ahead, leave a graph of ten minutes, and one of ninety days, as they are; and both lose what is old as before.
func TestOneClockIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		keep        structure.Keep
		pace, ahead int64
		wrong       int
	}{
		"minutes": {structure.Keep{Nodes: 10 * minute, Edges: 10 * minute, Median: true}, second / 2, 55 * minute, 100},
		"days":    {structure.Keep{Nodes: 90 * day, Edges: 30 * day, Median: true}, day / 20, 36_500 * day, 52},
		"slow":    {structure.Keep{Nodes: 10 * minute, Edges: 5 * minute, Median: true}, minute, 55 * minute, 300},
	} {
		t.Run(name, func(t *testing.T) {
			g := newClocked(t, c.keep)
			send := func(n int) (out *event.Outcome, left int) {
				for range n / 10 {
					var nodes []event.Node
					for range 10 {
						g.now += c.pace
						nodes = append(nodes, g.node(0))
					}
					out = g.step(c.keep, nodes...)
				}
				return out, g.nodes.Len()
			}
			_, before := send(2100)
			for range c.wrong {
				g.step(c.keep, g.node(c.ahead))
			}
			after, n := send(20)
			if n < before-40 {
				t.Errorf("%d nodes of %d are left", n, before)
			}
			if ahead := int64(1000*after.Figures.Of(event.KeepWatermark)) - g.now; ahead > 0 {
				t.Errorf("the watermark is %d s ahead", ahead/1000)
			}
			send(6000)
			// What is older than a keep and the events of the clock has left.
			if most := c.keep.Nodes/c.pace + 1100; int64(len(g.named)-g.left) > most {
				t.Errorf("%d nodes are left of %d, want at most %d", len(g.named)-g.left, len(g.named), most)
			}
		})
	}
}

// TestNoThirdMovesTheClock: in random streams with pauses and changes of pace, whatever times a producer sends that has
// less than a third of the events, from the first window on, one by one and in bursts, nothing leaves before its time, and
// in the end all leaves. A snapshot goes on alike.
func TestNoThirdMovesTheClock(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 50))
			keep := structure.Keep{Nodes: 1 + rng.Int64N(20*minute), Edges: 1 + rng.Int64N(20*minute), Median: true}
			g := newClocked(t, keep)
			honest, wrong, pace := 0, 0, int64(second)
			ahead := []int64{55 * minute, 36_500 * day, -36_500 * day, keep.Nodes, 5}[seed%5]
			burst := 1 + rng.IntN(300)
			for range 350 {
				if rng.IntN(50) == 0 {
					pace = 1 << rng.IntN(15) // to 16 s: a keep is more than the clock sees, or less
				}
				if rng.IntN(200) == 0 {
					g.now += rng.Int64N(5 * keep.Nodes)
				}
				var nodes []event.Node
				for range rng.IntN(30) {
					g.now += rng.Int64N(pace)
					nodes = append(nodes, g.node(0))
					honest++
				}
				if n := min(burst, honest/2-wrong-1); n == burst { // below a third of all
					for range n {
						nodes = append(nodes, g.node(ahead*int64(1-2*rng.IntN(2)*int(seed%2))))
					}
					wrong += n
				}
				rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
				g.step(keep, nodes...)
				if rng.IntN(100) == 0 {
					saved, old := g.bytes(), *g
					g.empty()
					if err := snapshottest.Copy(t, old.state, g.state); err != nil || !bytes.Equal(g.bytes(), saved) {
						t.Fatalf("the restored graph is saved as other bytes (%v)", err)
					}
				}
			}
			before, sent := g.left, len(g.named)
			for range 200 {
				g.now += keep.Nodes / 25
				var nodes []event.Node
				for range 10 {
					nodes = append(nodes, g.node(0))
				}
				g.step(keep, nodes...)
			}
			if g.left < sent {
				t.Errorf("%d nodes of %d have left, %d of them earlier", g.left, sent, before)
			}
		})
	}
}

// TestClockIsBounded: a window of very many times, and very many windows of one, take no more of a snapshot than others.
func TestClockIsBounded(t *testing.T) {
	keep := structure.Keep{Nodes: 1500, Median: true} // ms
	g := newClocked(t, keep)
	var most int
	for i := range 5000 {
		n := 1
		if i%1000 == 999 {
			n = 5000
		}
		var nodes []event.Node
		for range n {
			node := g.node(0)
			node.ID.Num, node.Neighbours = 0, nil
			nodes = append(nodes, node)
			g.now++
		}
		g.step(structure.Keep{}, nodes...)
		if i%500 == 0 || i%1000 < 20 && i%5 == 0 {
			most = max(most, len(g.bytes()))
		}
	}
	if most > 20_000 {
		t.Errorf("the state of one node has %d bytes", most)
	}
}
