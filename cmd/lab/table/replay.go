package table

import (
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline/event"
)

// replay is the stream of one cut. Nodes are numbered in the order of their arrival:
// training nodes, then warm-up nodes, then the nodes of each step.
type replay struct {
	kept   memo
	raw    []gnn.Vector // features, by node
	x      []gnn.Vector // the same, normalised
	labels []int32      // by node, or dataset.Unlabelled
	// links are the neighbours that each node names: nodes before it.
	links [][]int32
	// comeAfter are the nodes whose labels come before the first step and after each, by the labels' own times; nil if they
	// have none.
	comeAfter [][]int32
	late      map[int32]bool // those of context whose labels come after a step, or never
	// withheld are the nodes whose label never comes. It scores them all the same.
	withheld map[int]bool
	// src and dst are the same edges in both directions, in order of arrival.
	src, dst []int32

	train   int      // training nodes
	context extent   // after training and warm-up nodes
	steps   []extent // after each step
}

// extent is the size of the graph at some time: its first nodes, and its first edges
// in src and dst.
type extent struct{ nodes, edges int }

func newReplay(d *dataset.Dataset, cut dataset.Stream, n *gnn.Normalizer) *replay {
	context := append(append([]int32(nil), cut.Train...), cut.Warmup...)
	batches := append([][]int32{context}, cut.Steps...)
	neighbours := d.Arrivals(batches)
	number := make([]int32, len(d.Features))
	s := &replay{kept: memo{}, train: len(cut.Train)}
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
	if d.LabelTime != nil {
		for _, nodes := range d.Due(cut, 0) {
			var due []int32
			for _, v := range nodes {
				due = append(due, number[v])
			}
			s.comeAfter = append(s.comeAfter, due)
		}
		s.late = make(map[int32]bool)
		for _, v := range cut.Warmup {
			s.late[number[v]] = true
		}
		for _, v := range s.comeAfter[0] {
			delete(s.late, v)
		}
	}
	return s
}

// withhold decides at random which nodes of the steps never have their label come: this
// share of them, and of what is left of a class all but its rate.
func (s *replay) withhold(share float64, rates []float64, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x1abe1))
	s.withheld = make(map[int]bool)
	for v := s.context.nodes; v < len(s.x); v++ {
		draw := rng.Float64()
		s.withheld[v] = draw < share || s.labels[v] != dataset.Unlabelled && draw-share >= (1-share)*rates[s.labels[v]]
	}
}

// span returns the numbers of step t's nodes: from lo to below hi.
func (s *replay) span(t int) (lo, hi int) {
	if t == 0 {
		return s.context.nodes, s.steps[0].nodes
	}
	return s.steps[t-1].nodes, s.steps[t].nodes
}

// stepLabels returns the labels of step t's nodes.
func (s *replay) stepLabels(t int) []int32 {
	lo, hi := s.span(t)
	return s.labels[lo:hi]
}

// targets returns the numbers of step t's nodes, one by one.
func (s *replay) targets(t int) []int32 {
	return numbers(s.span(t))
}

// numbers returns the numbers from lo to below hi.
func numbers(lo, hi int) []int32 {
	v := make([]int32, hi-lo)
	for i := range v {
		v[i] = int32(lo + i)
	}
	return v
}

// due returns the nodes whose labels come after step t and before the next one: where labels have
// times, as [dataset.Dataset.Due] has them, or else those of the step that was Delay steps before.
func (s *replay) due(t int, settings Settings) []int32 {
	switch {
	case s.comeAfter != nil:
		return s.comeAfter[t+1]
	case t < settings.Delay:
		return nil
	}
	return s.targets(t - settings.Delay)
}

// early returns those of the nodes from lo to below hi whose labels are known before the first step.
func (s *replay) early(lo, hi int) []int32 {
	return slices.DeleteFunc(numbers(lo, hi), func(v int32) bool { return s.late[v] })
}

// known returns the graph on which step t's nodes are embedded under a protocol.
func (s *replay) known(t int, protocol string) train.Data {
	e := s.steps[t]
	if protocol != strict {
		e = s.steps[len(s.steps)-1]
	}
	return train.Data{X: s.x[:e.nodes], Labels: s.labels[:e.nodes], Src: s.src[:e.edges], Dst: s.dst[:e.edges]}
}

// embeddings returns the embeddings of each step's nodes, n × d_e, by step.
func (s *replay) embeddings(encoder gnn.Encoder, protocol string) [][]float32 {
	type key struct {
		encoder  gnn.Encoder
		protocol string
	}
	z, _ := recall(s.kept, key{encoder, protocol}, func() ([][]float32, error) {
		if protocol != strict {
			return s.embedWhole(encoder), nil
		}
		return s.embedArrivals(encoder), nil
	})
	return z
}

// embedWhole embeds all steps on the whole graph.
func (s *replay) embedWhole(encoder gnn.Encoder) (z [][]float32) {
	all := encoder.Encode(s.x, s.src, s.dst)
	for t := range s.steps {
		lo, hi := s.span(t)
		z = append(z, all[lo*encoder.Out():hi*encoder.Out()])
	}
	return z
}

// embedArrivals embeds each step on the graph as it is after the step, which grows as
// the engine's does.
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

// warmup returns a classifier's logits of the labelled nodes of the warm-up, in the graph
// as it is before the first step, and their labels.
func (s *replay) warmup(c gnn.Encoder) (a []float64, labels []int32) {
	if s.context.nodes == s.train {
		return nil, nil
	}
	all := c.Encode(s.x[:s.context.nodes], s.src[:s.context.edges], s.dst[:s.context.edges])
	for _, x := range all[s.train*c.Out():] {
		a = append(a, float64(x))
	}
	return labelled(a, c.Out(), s.labels[s.train:s.context.nodes])
}

// neighbours returns each node's neighbours in the whole graph.
func (s *replay) neighbours() [][]int32 {
	all := make([][]int32, len(s.x))
	for i, v := range s.dst {
		all[v] = append(all[v], s.src[i])
	}
	return all
}

// origin is the origin of every event of a replay: no topic.
var origin = &event.Origin{}

func id(v int) event.ID { return event.ID{Num: int64(v)} }

// arrivals returns the arrivals of the nodes from lo to below hi, which name the given
// neighbours.
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

// departures returns the departures of the nodes from lo to below hi.
func (s *replay) departures(lo, hi int) []event.Node {
	nodes := make([]event.Node, 0, hi-lo)
	for v := lo; v < hi; v++ {
		nodes = append(nodes, event.Node{Origin: origin, ID: id(v), Departed: true})
	}
	return nodes
}

// comes returns the label of node v, and whether it is one that comes.
func (s *replay) comes(v int) (y int32, comes bool) {
	return s.labels[v], s.labels[v] != dataset.Unlabelled && !s.withheld[v]
}

// labelsOf returns the label events of those nodes whose label comes.
func (s *replay) labelsOf(nodes []int32) []event.Label {
	labels := make([]event.Label, 0, len(nodes))
	for _, v := range nodes {
		if y, comes := s.comes(int(v)); comes {
			labels = append(labels, event.Label{Origin: origin, Node: id(int(v)), Index: y})
		}
	}
	return labels
}
