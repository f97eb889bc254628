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
	return pool.Shape{Classes: len(m.Classes), Features: m.Encoder.In(), Embedding: m.Prior.Dim}
}

// NewPool returns the pool as it was after training. It is an error if the model has
// none.
func (m *Model) NewPool() (*pool.Pool, error) {
	if m.Pool == nil {
		return nil, fmt.Errorf("model %s has no pool of heads: train it again with 'gvbll train', or serve the paper's head with --head paper", m.ID)
	}
	// Checked before memory is allocated for what the metadata says.
	if want := m.Pool.StateBytes(m.Shape()); float64(len(m.PoolState)) != want {
		return nil, fmt.Errorf("the pool's state is %d bytes long, want %.0f", len(m.PoolState), want)
	}
	p, err := pool.New(*m.Pool, m.Shape(), &m.Prior)
	if err != nil {
		return nil, err
	}
	return p, p.SetState(m.PoolState)
}

// DefaultPool returns the heads and constants for training data like d.
func DefaultPool(d Data) pool.Config {
	return pool.Default(pool.Inspect(features(d.X), len(d.X), d.Dim, len(d.Classes)))
}

// AddPool trains a pool of heads on the data that the model was trained on, and
// makes it the model's.
func (m *Model) AddPool(d Data, spec pool.Config) error {
	p, err := pool.New(spec, m.Shape(), &m.Prior)
	if err != nil {
		return err
	}
	p.Train(trainingBatch(d, spec, m.Shape()))
	m.Pool, m.PoolState = &spec, p.AppendState(nil)
	return m.identify()
}

// trainingBatch returns the training nodes as rows of the pool. Where features are
// dense, a node's neighbours are those that came before it: a node of the stream is
// served with no others, and among many training nodes the difference shows. Where
// they are sparse, a few nodes are drawn from a graph, and all of their neighbours are
// too few.
func trainingBatch(d Data, spec pool.Config, shape pool.Shape) pool.Batch {
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
	own, labels := neighbourhood.New(near, spec, shape), neighbourhood.New(all, spec, shape)
	for v, x := range d.X {
		own.SetFeatures(int32(v), x)
		labels.SetFeatures(int32(v), gnn.Vector{})
	}
	own.Reset(&b.Rows)
	for v := range int32(n) {
		own.Append(&b.Rows, v) // no label is known yet
	}
	var after pool.Rows
	for v, y := range d.Labels {
		labels.SetLabel(int32(v), y)
	}
	labels.Reset(&after)
	for v := range int32(n) {
		labels.Append(&after, v)
	}
	b.Second = after.Second
	b.Embedded = posterior.Rows{Z: make([]float32, n*shape.Embedding), Tau: make([]float64, n)} // teaches nothing
	for i := range b.Embedded.Tau {
		b.Embedded.Tau[i] = 1
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

// adjacency is the neighbours of each node, each once.
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

func (a adjacency) Degree(v int32) int         { return len(a[v]) }
func (a adjacency) Neighbours(v int32) []int32 { return a[v] }

// pairs are the edges, each once.
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
