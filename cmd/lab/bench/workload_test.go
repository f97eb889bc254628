package bench

import (
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Workload describes a growing graph with power-law degrees, and the model that
// classifies its nodes. The model's weights are random, since speed does not depend on
// their values. A field that is zero has its default.
type Workload struct {
	Nodes     int      // in the graph before anything is measured; 169,000 by default
	Degree    int      // mean degree, an even number; 14
	Features  int      // of a node; 128
	Density   float64  // share of features that are not zero; below 1 they are sparse; 1
	Hidden    int      // width of the encoder's hidden layer; 128
	Embedding int      // d_e; 64
	Classes   int      // 40
	Window    int      // arrivals in a window; 500
	Encoder   gnn.Kind // GraphSAGE
	Pool      bool     // the default pool of heads serves, and every node has a label
	Seed      uint64   // of the graph, the weights and the labels
}

// WithDefaults returns w with defaults in place of zero values.
func (w Workload) WithDefaults() Workload {
	for _, d := range []struct {
		field *int
		value int
	}{{&w.Nodes, 169_000}, {&w.Degree, 14}, {&w.Features, 128}, {&w.Hidden, 128}, {&w.Embedding, 64}, {&w.Classes, 40}, {&w.Window, 500}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if w.Density == 0 {
		w.Density = 1
	}
	if w.Encoder == "" {
		w.Encoder = gnn.KindSAGE
	}
	return w
}

// source draws an endless sequence of nodes. A node names Degree/2 earlier nodes, each a
// random end of a random earlier edge. So nodes are named in proportion to their degree
// (Barabási and Albert: Emergence of Scaling in Random Networks, 1999).
type source struct {
	w    Workload
	rng  *rand.Rand
	x    []gnn.Vector // every node has the features of one of these
	ends []int32      // the named node of every edge; the other node is edge / (Degree/2)
	n    int32        // nodes drawn so far
}

// source returns the source of the workload's seed.
func (w Workload) source() *source {
	s := &source{w: w, rng: rand.New(rand.NewPCG(w.Seed, 1))}
	const distinct = 512
	for range distinct {
		s.x = append(s.x, w.vector(s.rng))
	}
	return s
}

// vector draws features, sparse ones if the density is below 1.
func (w Workload) vector(rng *rand.Rand) gnn.Vector {
	if w.Density >= 1 {
		x := gnn.Vector{Dense: make([]float32, w.Features)}
		for k := range x.Dense {
			x.Dense[k] = float32(rng.NormFloat64())
		}
		return x
	}
	x := gnn.Vector{Index: []uint32{}}
	for k := range uint32(w.Features) {
		if rng.Float64() < w.Density {
			x.Index, x.Value = append(x.Index, k), append(x.Value, 1)
		}
	}
	return x
}

// next returns the features of the next node, and appends its neighbours to dst.
func (s *source) next(dst []int32) (gnn.Vector, []int32) {
	v, per := s.n, s.w.Degree/2
	s.n++
	older := len(s.ends)
	for range per {
		u := int32(0)
		if older > 0 {
			e := s.rng.IntN(older)
			if u = s.ends[e]; s.rng.IntN(2) == 0 {
				u = int32(e / per)
			}
		}
		s.ends = append(s.ends, u)
		if v > 0 {
			dst = append(dst, u)
		}
	}
	return s.x[s.rng.IntN(len(s.x))], dst
}

// Model returns a model of the workload's shape.
func (w Workload) Model() (*model.Model, error) {
	w = w.WithDefaults()
	rng := rand.New(rand.NewPCG(w.Seed, 2))
	enc, err := w.encoder(rng)
	if err != nil {
		return nil, err
	}
	m := &model.Model{
		Meta:       model.Meta{Format: model.Format, Encoder: enc.Kind(), Activation: enc.Activation(), Normalization: string(gnn.NormalizeNone)},
		ID:         fmt.Sprintf("bench-%d-%d-%d", w.Features, w.Hidden, w.Embedding),
		Encoder:    enc,
		Normalizer: &gnn.Normalizer{Kind: gnn.NormalizeNone},
		Prior:      posterior.Gaussian{Dim: w.Embedding, Classes: w.Classes},
	}
	for c := range w.Classes {
		m.Classes = append(m.Classes, fmt.Sprintf("class-%d", c))
	}
	for range w.Embedding * w.Classes {
		m.Prior.Mean = append(m.Prior.Mean, rng.NormFloat64())
		m.Prior.Precision = append(m.Prior.Precision, 1+10*rng.Float64())
	}
	if !w.Pool {
		return m, nil
	}
	spec := pool.Default(pool.Traits{Density: w.Density, Negative: w.Density >= 1, Rows: w.Nodes, Classes: w.Classes, Features: w.Features})
	p, err := pool.New(spec, m.Shape(), &m.Prior)
	if err != nil {
		return nil, err
	}
	m.Pool, m.PoolState = &spec, p.AppendState(nil)
	return m, nil
}

// encoder returns an encoder with random weights.
func (w Workload) encoder(rng *rand.Rand) (gnn.Encoder, error) {
	weights := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(0.1 * rng.NormFloat64())
		}
		return x
	}
	in, h, out := w.Features, w.Hidden, w.Embedding
	switch w.Encoder {
	case gnn.KindSAGE:
		return gnn.NewSAGE(in, gnn.ReLU,
			gnn.SAGELayer{Neigh: weights(h * in), Self: weights(h * in), Bias: weights(h)},
			gnn.SAGELayer{Neigh: weights(out * h), Self: weights(out * h), Bias: weights(out)})
	case gnn.KindGCN:
		return gnn.NewGCN(in, gnn.ReLU, gnn.GCNLayer{Weight: weights(h * in), Bias: weights(h)}, gnn.GCNLayer{Weight: weights(out * h), Bias: weights(out)})
	case gnn.KindGAT:
		return gnn.NewGAT(in, gnn.ELU,
			gnn.GATLayer{Heads: 4, Weight: weights(h * in), AttSrc: weights(h), AttDst: weights(h), Bias: weights(h)},
			gnn.GATLayer{Heads: 1, Weight: weights(out * h), AttSrc: weights(out), AttDst: weights(out), Bias: weights(out)})
	case gnn.KindGIN:
		mlp := func(in, out int) gnn.GINLayer {
			return gnn.GINLayer{MLP: []gnn.Linear{{Weight: weights(out * in), Bias: weights(out)}, {Weight: weights(out * out), Bias: weights(out)}}}
		}
		return gnn.NewGIN(in, gnn.ReLU, mlp(in, h), mlp(h, out))
	}
	return nil, fmt.Errorf("encoder %q: give graphsage, gcn, gat or gin", string(w.Encoder))
}

// Stream draws the workload's windows.
type Stream struct {
	w      Workload
	source *source
	rng    *rand.Rand // of labels
	links  []int32
	window event.Window // the last one; the next reuses its memory
	ids    [][]event.ID // the neighbours of its nodes
	origin event.Origin
	number int64
}

// Stream returns a new stream of the workload. Streams of one workload draw the same
// windows.
func (w Workload) Stream() *Stream {
	w = w.WithDefaults()
	return &Stream{w: w, source: w.source(), rng: rand.New(rand.NewPCG(w.Seed, 3))}
}

// grow returns a window of n context nodes, for growing the graph before a measurement.
// With Pool, the nodes have labels. The window is valid until the next one.
func (s *Stream) grow(n int) *event.Window {
	s.nodes(n, true)
	if s.w.Pool {
		s.labels()
	}
	return &s.window
}

// growth returns the windows that grow a graph to the workload's size. Each is valid until the
// next one.
func (s *Stream) growth() iter.Seq[*event.Window] {
	return func(yield func(*event.Window) bool) {
		for grown := 0; grown < s.w.Nodes; grown += 1000 {
			if !yield(s.grow(min(1000, s.w.Nodes-grown))) {
				return
			}
		}
	}
}

// Next returns a window of arrivals, and their labels if labelled is true. It is valid
// until the next one.
func (s *Stream) Next(labelled bool) *event.Window {
	s.nodes(s.w.Window, false)
	if labelled {
		s.labels()
	}
	return &s.window
}

// labels adds a random label for each node of the window.
func (s *Stream) labels() {
	for i := range s.window.Nodes {
		s.window.Labels = append(s.window.Labels, event.Label{Origin: &s.origin, Node: s.window.Nodes[i].ID, Index: s.rng.Int32N(int32(s.w.Classes))})
	}
}

// nodes starts the next window, with n nodes.
func (s *Stream) nodes(n int, context bool) {
	w := &s.window
	w.Number = s.number
	s.number++
	w.Nodes, w.Labels = w.Nodes[:0], w.Labels[:0]
	for len(s.ids) < n {
		s.ids = append(s.ids, nil)
	}
	for i := range n {
		v := s.source.n
		var x gnn.Vector
		x, s.links = s.source.next(s.links[:0])
		s.ids[i] = s.ids[i][:0]
		for _, u := range s.links {
			s.ids[i] = append(s.ids[i], event.ID{Num: int64(u)})
		}
		w.Nodes = append(w.Nodes, event.Node{
			Origin: &s.origin, ID: event.ID{Num: int64(v)}, Dense: x.Dense, Index: x.Index, Value: x.Value, Neighbours: s.ids[i], Context: context, Time: int64(v) + 1,
		})
	}
}
