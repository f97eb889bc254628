package bench

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/topics/wire"
)

// Arrivals per second of PyTorch on the machine of docs/performance.md, on the default
// workload: PyTorch Geometric 2.8's NeighborLoader without a limit on neighbours, and a
// PyTorch 2.15 program that updates neighbour sums incrementally, with windows of 500 and
// of 1. They are not measured here: a ratio to them means something on that machine only,
// and has no bar.
const (
	torchGeometric    = 1959
	torchByHand       = 86_000
	torchByHandSingle = 13_600
)

// againstTorch returns the ratio of a rate to one of PyTorch's.
func againstTorch(name string, perSecond, torch float64) Row {
	r := figure(name, perSecond/torch, "times")
	r.Note = fmt.Sprintf("to %.0f/s of PyTorch on the machine of docs/performance.md", torch)
	return r
}

// windows returns how many windows to measure: 100,000 arrivals, in at least 20 windows.
func (c *Config) windows() int {
	n := max(20, 100_000/c.Window)
	if c.Quick {
		return max(5, n/20)
	}
	return n
}

// encoder measures the graph and the encoder alone, on one thread.
func encoder(_ context.Context, c Config) ([]Row, error) {
	cost, err := c.graphCost(c.windows())
	return []Row{
		atLeast("encoder", cost.perSecond(), "arrivals/s", 150_000),
		againstTorch("encoder-against-torch-geometric", cost.perSecond(), torchGeometric),
		againstTorch("encoder-against-torch-by-hand", cost.perSecond(), torchByHand),
	}, err
}

// single measures the graph and the encoder with one arrival per window.
func single(_ context.Context, c Config) ([]Row, error) {
	c.Window = 1
	n := 20_000
	if c.Quick {
		n = 1000
	}
	cost, err := c.graphCost(n)
	return []Row{againstTorch("single-against-torch-by-hand", cost.perSecond(), torchByHandSingle)}, err
}

// engine measures whole steps of the engine, on one thread.
func engine(_ context.Context, c Config) ([]Row, error) {
	cost, err := c.stepCost(c.windows(), true)
	return []Row{
		atLeast("engine", cost.perSecond(), "arrivals/s", 150_000),
		atMost("engine-allocations", cost.allocations, "an arrival", 0.1),
	}, err
}

// poolAgainstPaper compares the engine with the default pool to the engine with the
// paper's heads, and measures the pool on sparse features like Cora's. A round is 20
// windows, after which the sparse graph is as large as Cora; each round starts from new
// engines. The best round counts.
func poolAgainstPaper(_ context.Context, c Config) ([]Row, error) {
	paper := c.Workload
	paper.Nodes = min(c.Nodes, 20_000)
	dense := paper
	dense.Pool = true
	sparse := Workload{Nodes: 1000, Degree: 4, Features: 1433, Density: 0.0127, Hidden: 64, Embedding: 16, Classes: 7, Window: 85, Pool: true}
	rounds := 4
	if c.Quick {
		rounds = 1
	}
	var best []float64
	for range rounds {
		costs, err := stepCosts(20, paper, dense, sparse)
		if err != nil {
			return nil, err
		}
		if best == nil {
			best = costs
		}
		for i := range best {
			best[i] = min(best[i], costs[i])
		}
	}
	return []Row{
		atMost("pool-against-paper", best[1]/best[0], "times", 3),
		atMost("pool-sparse", best[2]/1000, "microseconds an arrival", 40),
	}, nil
}

// size compares the cost of an arrival in a graph of ten million nodes with that in one
// of ten thousand. If the large graph does not fit into memory, both have a narrower
// hidden layer.
func size(_ context.Context, c Config) ([]Row, error) {
	small, large := c.Workload, c.Workload
	small.Nodes, large.Nodes = 10_000, 10_000_000
	if c.Quick {
		large.Nodes = 300_000
	}
	for large.Hidden > 32 && large.bytes() > 0.85*float64(availableMemory()) {
		large.Hidden /= 2
	}
	small.Hidden = large.Hidden
	a, err := small.graphCost(c.windows())
	if err != nil {
		return nil, err
	}
	b, err := large.graphCost(c.windows())
	return []Row{
		atMost("size", b.nanoseconds/a.nanoseconds, "times", 1.5),
		figure("size-hidden", float64(large.Hidden), "wide"),
	}, err
}

// bytes estimates the memory that growing a graph of the workload needs: rows, adjacency
// lists at both ends of an edge, and the list of edges that the source draws from.
func (w Workload) bytes() float64 {
	const node, edge = 64, 2*9 + 2*4
	return float64(w.Nodes) * float64(3*4*w.Hidden+node+w.Degree/2*edge)
}

// hubs compares an arrival whose neighbours have a hundred thousand edges each with one
// whose neighbours have ten.
func hubs(_ context.Context, c Config) ([]Row, error) {
	degree := 100_000
	if c.Quick {
		degree = 5000
	}
	low, high, err := c.hubCost(degree, c.windows())
	return []Row{atMost("hubs", high.nanoseconds/low.nanoseconds, "times", 1.3)}, err
}

// memory measures the bytes of a node and of an edge.
func memory(_ context.Context, c Config) ([]Row, error) {
	if c.Quick {
		c.Nodes = 20_000
	}
	node, edge, err := c.graphBytes()
	return []Row{
		atMost("memory", node, "bytes a node", float64(3*c.Hidden*4+128)),
		figure("memory-of-adjacency", edge, "bytes an edge"),
	}, err
}

// update compares the cost of learning a window of labels with that of predicting it.
func update(_ context.Context, c Config) ([]Row, error) {
	predict, learn, err := c.headCost(c.windows())
	return []Row{atMost("update", learn.nanoseconds/predict.nanoseconds, "times", 1)}, err
}

// sparse compares the first product of a window of sparse features, like Cora's, with
// that of the same features as dense vectors.
func sparse(_ context.Context, c Config) ([]Row, error) {
	c.Features, c.Density, c.Nodes = 1433, 0.013, 1000
	g, err := c.grow()
	if err != nil {
		return nil, err
	}
	g.draw(c.Window)
	x := g.x[:c.Window]
	dense := make([]gnn.Vector, len(x))
	for i := range x {
		dense[i].Dense = make([]float32, c.Features)
		for k, index := range x[i].Index {
			dense[i].Dense[index] = x[i].Value[k]
		}
	}
	add := func(x []gnn.Vector) float64 {
		s := begin(len(x))
		for range c.windows() {
			s.run(func() { g.g.Add(x) })
		}
		return s.cost().nanoseconds
	}
	asSparse := add(x)
	return []Row{atLeast("sparse", add(dense)/asSparse, "times", 10)}, nil
}

// workers compares the speed of a window's products with two workers and with one.
func workers(_ context.Context, c Config) ([]Row, error) {
	c.Nodes = 1000
	one, err := c.productCost(1, 5*c.windows())
	if err != nil {
		return nil, err
	}
	two, err := c.productCost(2, 5*c.windows())
	return []Row{atLeast("workers", one.nanoseconds/two.nanoseconds, "times", 1.6)}, err
}

// wireBytes compares the encoded size of nodes with sparse features, like Cora's, with
// that of the same nodes with dense features.
func wireBytes(_ context.Context, c Config) ([]Row, error) {
	c.Features, c.Density = 1433, 0.013
	sparse, dense := 0, 0
	for _, n := range c.Stream().Next(false).Nodes {
		n.Neighbours = nil
		sparse += len(wire.AppendNode(nil, &n))
		n.Dense = make([]float32, c.Features)
		for k, index := range n.Index {
			n.Dense[index] = n.Value[k]
		}
		n.Index, n.Value = nil, nil
		dense += len(wire.AppendNode(nil, &n))
	}
	return []Row{atLeast("wire-sparse", float64(dense)/float64(sparse), "times", 10)}, nil
}
