package model

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Shape returns the shape of the rows that a pool of this model predicts.
func (m *Model) Shape() pool.Shape {
	return pool.Shape{Classes: len(m.Classes), Features: m.Encoder.In(), Embedding: m.Prior.Dim, Means: m.Kinds.Means()}
}

// NewPool returns a new pool in the state after training. It fails if the model has no
// pool.
func (m *Model) NewPool() (*pool.Pool, error) {
	if m.Pool == nil {
		return nil, fmt.Errorf("model %s has no pool of heads: train it again with 'gvbll train', or serve the paper's "+
			"head with --head paper", m.ID)
	}
	// Check the size before allocating memory as the metadata says.
	if least, most := m.Pool.StateBytes(m.Shape()); float64(len(m.PoolState)) < least || float64(len(m.PoolState)) > most {
		return nil, fmt.Errorf("the pool's state is %d bytes long, want %.0f to %.0f", len(m.PoolState), least, most)
	}
	p, err := pool.New(*m.Pool, m.Shape(), &m.Prior)
	if err != nil {
		return nil, err
	}
	return p, p.SetState(m.PoolState)
}

// DefaultPool returns the default heads and constants for training data d.
func DefaultPool(d Data) pool.Config {
	if d.Graphs != nil {
		return pool.Alone()
	}
	spec := pool.Default(pool.Inspect(features(d.X), len(d.X), d.Dim, len(d.Classes)))
	alike := d.Kinds.Means() == 1 && !slices.ContainsFunc(d.Weight, func(w float32) bool { return w != 1 })
	if counts := d.Kinds.Means() * len(d.Classes); !alike && counts > 0 && counts <= mostKindCounts && len(d.Src) >= edgesPerCount*counts {
		spec = spec.WithKinds()
	}
	return spec
}

// Where edges are not alike, a pool counts labels by kind of edge from so many ends of training edges on for each count of a node, one
// for each class and mean. The counts are kept with each prediction until its label comes, so they are few.
const (
	edgesPerCount  = 10
	mostKindCounts = 256
)

// AddPool trains a pool of heads on d, the data that m was trained on, and adds it to m,
// whose ID changes.
func (m *Model) AddPool(d Data, spec pool.Config) error {
	p, err := pool.New(spec, m.Shape(), &m.Prior)
	if err != nil {
		return err
	}
	p.Train(trainingBatch(d, spec, m.Shape(), m.Normalizer.Ranked()))
	m.Pool, m.PoolState = &spec, p.AppendState(nil)
	return m.identify()
}

// TakeOver gives m, which has none, a pool of heads of the same configuration as another
// one, from which it takes over what depends on no encoder; see [pool.Pool.TakeOver]. m's
// ID changes.
func (m *Model) TakeOver(from *pool.Pool, keep float64) error {
	spec := from.Config()
	p, err := pool.New(spec, m.Shape(), &m.Prior)
	if err != nil {
		return err
	}
	if err := p.TakeOver(from, keep); err != nil {
		return err
	}
	m.Pool, m.PoolState = &spec, p.AppendState(nil)
	return m.identify()
}

// trainingBatch returns the training nodes as rows of the pool. For dense features, a
// node's neighbours are the earlier ones only, as for a node of the stream when it is
// served. For sparse features, all neighbours are used: such data sets have few training
// nodes, drawn from a graph, with too few edges between them. Labels are those of all
// neighbours two steps away, of none one step away, but by kind of edge of all that are the node's. What is
// replayed has all neighbours, and the labels of all.
func trainingBatch(d Data, spec pool.Config, shape pool.Shape, ranked *gnn.Normalizer) pool.Batch {
	n := len(d.X)
	all := newAdjacency(n, d.Src, d.Dst)
	near := all
	if spec.Scale() == pool.Standard {
		near = make(adjacency, n)
		for v, list := range all {
			near[v] = slices.DeleteFunc(slices.Clone(list), func(u int32) bool { return u >= int32(v) })
		}
	}
	b := pool.Batch{Labels: d.Labels, Pairs: all.pairs()}
	own, labels := neighbourhood.New(trainingGraph{near, nil}, spec, shape, ranked),
		neighbourhood.New(trainingGraph{all, d.marksOf(near)}, spec, shape, ranked)
	for v, x := range d.X {
		own.SetFeatures(int32(v), x)
		labels.SetFeatures(int32(v), gnn.Vector{})
	}
	own.Reader.Reset(&b.Rows)
	for v := range int32(n) {
		own.Reader.Append(&b.Rows, v) // without labels
	}
	var after pool.Rows
	for v, y := range d.Labels {
		labels.SetLabel(int32(v), y)
	}
	labels.Reader.Reset(&after)
	for v := range int32(n) {
		labels.Reader.Append(&after, v)
	}
	b.Second, b.Kinds = after.Second, after.Kinds
	// Embeddings of 0, from which no head learns anything.
	b.Embedded = posterior.Rows{Z: make([]float32, n*shape.Embedding), Tau: make([]float64, n)}
	for i := range b.Embedded.Tau {
		b.Embedded.Tau[i] = 1
	}
	if spec.Fits() {
		now := neighbourhood.New(trainingGraph{all, d.marksOf(all)}, spec, shape, ranked)
		for v, x := range d.X {
			now.SetFeatures(int32(v), x)
		}
		for v, y := range d.Labels {
			now.SetLabel(int32(v), y)
		}
		now.Reader.Reset(&b.Replay)
		for v := range int32(n) {
			now.Reader.Append(&b.Replay, v)
		}
		b.ReplayLabels = d.Labels
	}
	return b
}

func features(x []gnn.Vector) pool.Features {
	f := pool.Features{Start: []int{0}}
	for _, v := range x {
		for j, value := range v.Dense {
			f.Index, f.Value = append(f.Index, int32(j)), append(f.Value, value)
		}
		for k, j := range v.Index {
			f.Index, f.Value = append(f.Index, int32(j)), append(f.Value, v.Value[k])
		}
		f.Start = append(f.Start, len(f.Index))
	}
	return f
}

// adjacency has the distinct neighbours of each node.
type adjacency [][]int32

func newAdjacency(n int, src, dst []int32) adjacency {
	a := make(adjacency, n)
	for e, u := range src {
		if v := dst[e]; u != v {
			a[v] = append(a[v], u)
		}
	}
	for v := range a {
		slices.Sort(a[v])
		a[v] = slices.Compact(a[v])
	}
	return a
}

func (a adjacency) Len() int { return len(a) }

func (a adjacency) Degree(v int32) int         { return len(a[v]) }
func (a adjacency) Neighbours(v int32) []int32 { return a[v] }

// pairs returns each edge once.
func (a adjacency) pairs() (pairs [][2]int32) {
	for v, list := range a {
		for _, u := range list {
			if u < int32(v) {
				pairs = append(pairs, [2]int32{u, int32(v)})
			}
		}
	}
	return pairs
}

// trainingGraph is the graph of the training nodes, with the kinds of its edges.
type trainingGraph struct {
	adjacency
	marks [][]gnn.WeighedEdge // by target
}

// EachWeighed implements [neighbourhood.Graph].
func (g trainingGraph) EachWeighed(v int32, count func(u int32, mean uint8, weight float32)) {
	if g.marks == nil {
		return
	}
	for _, e := range g.marks[v] {
		count(e.Source, e.AtTarget, e.Weight)
	}
}

// marksOf returns by target the edges that have kinds, of those from near neighbours.
func (d Data) marksOf(near adjacency) (marks [][]gnn.WeighedEdge) {
	marks = make([][]gnn.WeighedEdge, len(near))
	for e := range d.Mean {
		u, v := d.Src[e], d.Dst[e]
		if _, is := slices.BinarySearch(near[v], u); is {
			marks[v] = append(marks[v], gnn.WeighedEdge{Source: u, Target: v, AtTarget: d.Mean[e], Weight: d.Weight[e]})
		}
	}
	return marks
}
