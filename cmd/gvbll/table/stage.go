package table

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/train"
)

// stage is the stream of one cut. Nodes are numbered as they arrive: training
// and warm-up nodes first, as the context, then step by step.
type stage struct {
	memo
	raw    []gnn.Vector // as they came
	x      []gnn.Vector // normalised
	labels []int32
	// links are the neighbours that each node names: those before it, and of its
	// own step.
	links [][]int32
	// src and dst are the same edges in both directions, in order of arrival.
	src, dst []int32
	// train is how many nodes train. context, which is them and the warm-up, and
	// steps tell where each batch ends.
	train   int
	context extent
	steps   []extent
}

// extent is a graph in the course of its growth.
type extent struct{ nodes, edges int }

func newStage(d *dataset.Dataset, cut dataset.Stream, n *gnn.Normalizer) *stage {
	context := append(append([]int32(nil), cut.Train...), cut.Warmup...)
	batches := append([][]int32{context}, cut.Steps...)
	neighbours := d.Arrivals(batches)
	number := make([]int32, len(d.Features))
	s := &stage{train: len(cut.Train)}
	for b, batch := range batches {
		for _, v := range batch {
			number[v] = int32(len(s.x))
			s.raw = append(s.raw, d.Features[v])
			s.x = append(s.x, n.Apply(gnn.Vector{}, d.Features[v]))
			s.labels = append(s.labels, d.Labels[v])
		}
		for _, v := range batch {
			links := make([]int32, len(neighbours[v]))
			for i, u := range neighbours[v] {
				links[i] = number[u]
				s.src, s.dst = append(s.src, number[u], number[v]), append(s.dst, number[v], number[u])
			}
			s.links = append(s.links, links)
		}
		end := extent{nodes: len(s.x), edges: len(s.src)}
		if b == 0 {
			s.context = end
		} else {
			s.steps = append(s.steps, end)
		}
	}
	return s
}

// span is the numbers of step t's nodes, from lo to below hi.
func (s *stage) span(t int) (lo, hi int) {
	if t == 0 {
		return s.context.nodes, s.steps[0].nodes
	}
	return s.steps[t-1].nodes, s.steps[t].nodes
}

// stepLabels are those of step t's nodes.
func (s *stage) stepLabels(t int) []int32 {
	lo, hi := s.span(t)
	return s.labels[lo:hi]
}

// targets are the numbers of step t's nodes.
func (s *stage) targets(t int) []int32 {
	return numbers(s.span(t))
}

// numbers are those from lo to below hi.
func numbers(lo, hi int) []int32 {
	v := make([]int32, hi-lo)
	for i := range v {
		v[i] = int32(lo + i)
	}
	return v
}

// known is the graph in which step t's nodes are embedded under a protocol.
func (s *stage) known(t int, protocol string) train.Data {
	e := s.steps[t]
	if protocol == Full {
		e = s.steps[len(s.steps)-1]
	}
	return train.Data{X: s.x[:e.nodes], Labels: s.labels[:e.nodes], Src: s.src[:e.edges], Dst: s.dst[:e.edges]}
}

// embeddings returns those of every step's nodes, step by step.
func (s *stage) embeddings(encoder gnn.Encoder, protocol string) [][]float32 {
	type key struct {
		encoder  gnn.Encoder
		protocol string
	}
	z, _ := recall(&s.memo, key{encoder, protocol}, func() ([][]float32, error) {
		if protocol == Full {
			return s.embedWhole(encoder), nil
		}
		return s.embedArrivals(encoder), nil
	})
	return z
}

func (s *stage) embedWhole(encoder gnn.Encoder) (z [][]float32) {
	all := encoder.Encode(s.x, s.src, s.dst)
	for t := range s.steps {
		lo, hi := s.span(t)
		z = append(z, all[lo*encoder.Out():hi*encoder.Out()])
	}
	return z
}

// embedArrivals grows the graph as the engine does.
func (s *stage) embedArrivals(encoder gnn.Encoder) (z [][]float32) {
	g := gnn.NewGraph(encoder)
	grow := func(upto int) {
		lo := g.Len()
		g.Add(s.x[lo:upto])
		for v := lo; v < upto; v++ {
			g.LinkAll(int32(v), s.links[v])
		}
	}
	grow(s.context.nodes)
	for t, step := range s.steps {
		grow(step.nodes)
		targets := s.targets(t)
		row := make([]float32, len(targets)*encoder.Out())
		g.Embed(targets, row)
		z = append(z, row)
	}
	return z
}
