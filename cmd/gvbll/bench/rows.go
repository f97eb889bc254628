package bench

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
)

// Row is one figure beside the bar that it is held to.
type Row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Bar   string  `json:"bar"`   // in words
	Holds bool    `json:"holds"` // the value is on the right side of it
}

// AtLeast and AtMost are rows with such a bar.
func AtLeast(name string, value float64, unit string, bar float64) Row {
	return Row{name, value, unit, fmt.Sprintf("at least %g", bar), value >= bar}
}

func AtMost(name string, value float64, unit string, bar float64) Row {
	return Row{name, value, unit, fmt.Sprintf("at most %g", bar), value <= bar}
}

// What others reach on the machine that the bars were set on (2 cores of an Intel
// Xeon with AVX-512, one in use), in arrivals a second: PyTorch Geometric 2.8's
// NeighborLoader without a fan-out limit, and incremental sums written by hand in
// PyTorch 2.15, for windows of 500 and of 1, at 169,000 nodes, 128 features,
// hidden 128, d_e 64, mean degree 14.
const (
	torchGeometric   = 1959
	torchByHand      = 86_000
	torchByHandAlone = 13_600
)

// Benchmark makes some rows.
type Benchmark struct {
	Name string
	What string // in a line
	Run  func(w Workload, quick bool) ([]Row, error)
}

// windows is how many windows are measured.
func windows(w Workload, quick bool) int {
	n := max(20, 100_000/w.Window)
	if quick {
		return max(5, n/20)
	}
	return n
}

// Engine are the benchmarks that need no broker.
var Engine = []Benchmark{
	{"encoder", "graph and encoder alone, one thread", encoder},
	{"single", "one arrival at a time, graph and encoder", single},
	{"engine", "graph, encoder, predictions, labels, update, one thread", engine},
	{"pool", "the engine with the pool of heads against the paper's head, and on Cora-like sparse features, by CPU time", pooled},
	{"size", "an arrival in a large graph against a small one", size},
	{"hubs", "an arrival whose neighbours have a hundred thousand edges against ten", hubs},
	{"memory", "what a node takes", memory},
	{"update", "learning from a window of labels against predicting it", update},
	{"sparse", "Cora-like sparse features against the same as dense", sparse},
	{"workers", "two workers against one, on what a window's products take", workers},
}

func encoder(w Workload, quick bool) ([]Row, error) {
	c, err := w.Graph(windows(w, quick))
	return []Row{
		AtLeast("encoder", c.PerSecond(), "arrivals/s", 150_000),
		AtLeast("encoder-against-torch-geometric", c.PerSecond()/torchGeometric, "times", 100),
		AtLeast("encoder-against-torch-by-hand", c.PerSecond()/torchByHand, "times", 2),
	}, err
}

func single(w Workload, quick bool) ([]Row, error) {
	w.Window = 1
	n := 20_000
	if quick {
		n = 1000
	}
	c, err := w.Graph(n)
	return []Row{AtLeast("single-against-torch-by-hand", c.PerSecond()/torchByHandAlone, "times", 5)}, err
}

func engine(w Workload, quick bool) ([]Row, error) {
	c, err := w.Engine(windows(w, quick), true)
	return []Row{
		AtLeast("engine", c.PerSecond(), "arrivals/s", 150_000),
		AtMost("engine-allocations", c.Allocations, "an arrival", 0.1),
	}, err
}

// pooled compares whole steps with labels, in turn. After 20 windows the sparse
// graph is as large as Cora, so that all begin anew; the best round counts.
func pooled(w Workload, quick bool) ([]Row, error) {
	w.Nodes = min(w.Nodes, 20_000)
	pool := w
	pool.Pool = true
	cora := Workload{Nodes: 1000, Degree: 4, Features: 1433, Density: 0.0127, Hidden: 64, Embedding: 16, Classes: 7, Window: 85, Pool: true}
	rounds := 4
	if quick {
		rounds = 1
	}
	var dense, paper, sparse float64
	for r := range rounds {
		costs, err := InTurn(20, w, pool, cora)
		if err != nil {
			return nil, err
		}
		for i, least := range []*float64{&paper, &dense, &sparse} {
			if r == 0 || costs[i] < *least {
				*least = costs[i]
			}
		}
	}
	return []Row{
		AtMost("pool-against-paper", dense/paper, "times", 3),
		AtMost("pool-sparse", sparse/1000, "microseconds an arrival", 40),
	}, nil
}

// size compares the cost of an arrival among ten million nodes with that among ten
// thousand, of a narrower model where memory does not hold as many of this one.
func size(w Workload, quick bool) ([]Row, error) {
	small, large := w, w
	small.Nodes, large.Nodes = 10_000, 10_000_000
	if quick {
		large.Nodes = 300_000
	}
	for large.Hidden > 32 && large.bytes() > 0.85*float64(availableMemory()) {
		large.Hidden /= 2
	}
	small.Hidden = large.Hidden
	a, err := small.Graph(windows(w, quick))
	if err != nil {
		return nil, err
	}
	b, err := large.Graph(windows(w, quick))
	return []Row{
		AtMost("size", b.Nanoseconds/a.Nanoseconds, "times", 1.5),
		{Name: "size-hidden", Value: float64(large.Hidden), Unit: "wide", Bar: "none", Holds: true},
	}, err
}

// bytes is about what a graph of the workload takes, and the making of it: rows,
// adjacency at both ends, and the ends of edges that new nodes are drawn from.
func (w Workload) bytes() float64 {
	const node, edge = 64, 2*9 + 2*4
	return float64(w.Nodes) * float64(3*4*w.Hidden+node+w.Degree/2*edge)
}

func hubs(w Workload, quick bool) ([]Row, error) {
	degree := 100_000
	if quick {
		degree = 5000
	}
	low, high, err := w.Hubs(degree, windows(w, quick))
	return []Row{AtMost("hubs", high.Nanoseconds/low.Nanoseconds, "times", 1.3)}, err
}

func memory(w Workload, quick bool) ([]Row, error) {
	if quick {
		w.Nodes = 20_000
	}
	node, edge, err := w.Memory()
	return []Row{
		AtMost("memory", node, "bytes a node", float64(3*w.Hidden*4+128)),
		{Name: "memory-of-adjacency", Value: edge, Unit: "bytes an edge", Bar: "none", Holds: true},
	}, err
}

func update(w Workload, quick bool) ([]Row, error) {
	predict, learn, err := w.Head(windows(w, quick))
	return []Row{AtMost("update", learn.Nanoseconds/predict.Nanoseconds, "times", 1)}, err
}

// sparse compares the first product of a window of sparse features with that of
// the same features written out.
func sparse(w Workload, quick bool) ([]Row, error) {
	w.Features, w.Density, w.Nodes = 1433, 0.013, 1000
	thin, dense, err := w.firstProduct(windows(w, quick))
	return []Row{AtLeast("sparse", dense.Nanoseconds/thin.Nanoseconds, "times", 10)}, err
}

func workers(w Workload, quick bool) ([]Row, error) {
	w.Nodes = 1000
	one, two, err := w.products(windows(w, quick))
	return []Row{AtLeast("workers", one.Nanoseconds/two.Nanoseconds, "times", 1.6)}, err
}

// firstProduct measures adding nodes with sparse and with dense features.
func (w Workload) firstProduct(windows int) (thin, dense Cost, err error) {
	g, err := w.grow()
	if err != nil {
		return thin, dense, err
	}
	measure := func(x []gnn.Vector) Cost {
		s := begin(len(x))
		for range windows {
			s.run(func() { g.g.Add(x) })
		}
		return s.cost()
	}
	g.draw(w.Window)
	x := g.x[:w.Window]
	full := make([]gnn.Vector, len(x))
	for i := range x {
		full[i].Dense = make([]float32, w.Features)
		for k, index := range x[i].Index {
			full[i].Dense[index] = x[i].Value[k]
		}
	}
	return measure(x), measure(full), nil
}

// products measures embedding nodes without edges: a product, and nothing else.
// Adding nodes is a product too, but takes memory that another goroutine makes
// ready at the same time.
func (w Workload) products(windows int) (one, two Cost, err error) {
	for n, c := range map[int]*Cost{1: &one, 2: &two} {
		g, err := w.grow(gnn.Workers(n))
		if err != nil {
			return one, two, err
		}
		g.draw(w.Window)
		first := g.g.Add(g.x[:w.Window])
		for i := range g.nodes {
			g.nodes[i] = first + int32(i)
		}
		s := begin(w.Window)
		for range 5 * windows {
			s.run(func() { g.g.Embed(g.nodes, g.z) })
		}
		*c = s.cost()
	}
	return one, two, nil
}
