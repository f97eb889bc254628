package table

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline/event"
)

// stage is the stream of one cut. Nodes are numbered as they arrive: training
// and warm-up nodes first, as the context, then step by step.
type replay struct {
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

func newReplay(d *dataset.Dataset, cut dataset.Stream, n *gnn.Normalizer) *replay {
	context := append(append([]int32(nil), cut.Train...), cut.Warmup...)
	batches := append([][]int32{context}, cut.Steps...)
	neighbours := d.Arrivals(batches)
	number := make([]int32, len(d.Features))
	s := &replay{train: len(cut.Train)}
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
func (s *replay) span(t int) (lo, hi int) {
	if t == 0 {
		return s.context.nodes, s.steps[0].nodes
	}
	return s.steps[t-1].nodes, s.steps[t].nodes
}

// stepLabels are those of step t's nodes.
func (s *replay) stepLabels(t int) []int32 {
	lo, hi := s.span(t)
	return s.labels[lo:hi]
}

// targets are the numbers of step t's nodes.
func (s *replay) targets(t int) []int32 {
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
func (s *replay) known(t int, protocol string) train.Data {
	e := s.steps[t]
	if protocol == Full {
		e = s.steps[len(s.steps)-1]
	}
	return train.Data{X: s.x[:e.nodes], Labels: s.labels[:e.nodes], Src: s.src[:e.edges], Dst: s.dst[:e.edges]}
}

// embeddings returns those of every step's nodes, step by step.
func (s *replay) embeddings(encoder gnn.Encoder, protocol string) [][]float32 {
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

func (s *replay) embedWhole(encoder gnn.Encoder) (z [][]float32) {
	all := encoder.Encode(s.x, s.src, s.dst)
	for t := range s.steps {
		lo, hi := s.span(t)
		z = append(z, all[lo*encoder.Out():hi*encoder.Out()])
	}
	return z
}

// embedArrivals grows the graph as the engine does.
func (s *replay) embedArrivals(encoder gnn.Encoder) (z [][]float32) {
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

// neighbours returns, by node, all that it has in the whole graph.
func (s *replay) neighbours() [][]int32 {
	all := make([][]int32, len(s.x))
	for i, v := range s.dst {
		all[v] = append(all[v], s.src[i])
	}
	return all
}

// origin is that of every event of a replayed stream: it was read from no topic.
var origin = &event.Origin{}

func id(v int) event.ID { return event.ID{Num: int64(v)} }

// arrivals are the nodes from lo to below hi, each naming its neighbours.
func (s *replay) arrivals(lo, hi int, neighbours [][]int32, context bool) []event.Node {
	nodes := make([]event.Node, 0, hi-lo)
	for v := lo; v < hi; v++ {
		x := s.raw[v]
		n := event.Node{Origin: origin, ID: id(v), Dense: x.Dense, Index: x.Index, Value: x.Value, Context: context}
		for _, u := range neighbours[v] {
			n.Neighbours = append(n.Neighbours, id(int(u)))
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// departures say that the nodes from lo to below hi leave.
func (s *replay) departures(lo, hi int) []event.Node {
	nodes := make([]event.Node, 0, hi-lo)
	for v := lo; v < hi; v++ {
		nodes = append(nodes, event.Node{Origin: origin, ID: id(v), Departed: true})
	}
	return nodes
}

// told are the labels of the nodes from lo to below hi.
func (s *replay) told(lo, hi int) []event.Label {
	labels := make([]event.Label, 0, hi-lo)
	for v := lo; v < hi; v++ {
		labels = append(labels, event.Label{Origin: origin, Node: id(v), Index: s.labels[v]})
	}
	return labels
}
