package pipeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
)

// The questions of this file may be asked between windows. They change nothing:
// the engine gives the same bits afterwards, and nothing is computed while nobody
// asks.

// Opinion is what the heads predict for one node.
type Opinion struct {
	event.Prediction            // of the serving head
	Heads            []Estimate // of every head, in their order
}

// Estimate is one head's prediction of one node.
type Estimate struct {
	Head          string
	Class         string // the most probable, the first on a tie
	Confidence    float32
	Probabilities []float32
}

// Report is what is known of a node of the graph.
type Report struct {
	Node    event.ID
	Context bool   // it was not predicted when it came
	Label   string // the class that was told, "" for none
	Degree  int
	// Served is what was served, while it is kept: until the label comes, and
	// without its uncertainties and the posterior's version. It is nil afterwards.
	Served *Opinion
	// Now is what would be served on the graph and with the posterior as they are.
	Now Opinion
	// Neighbours are those with the most influence, at most 64 of them, the
	// greatest first.
	Neighbours []Influence
}

// Influence is how much a neighbour matters: what the prediction would be without
// the edge to it.
type Influence struct {
	Node  event.ID
	Label string // the class that was told of it, "" for none
	// Gain is the probability of the node's class now, less what it would be
	// without the edge: positive for a neighbour that speaks for the class.
	Gain float64
	// Without is the class that would be the most probable without the edge.
	Without string
}

// maxWeighed is the most neighbours of a node that are weighed: its latest. Hubs,
// whose embeddings take longer, get fewer, and at last none.
const maxWeighed = 64

// weighing bounds what the weighing of neighbours may cost, in neighbours read for
// all of the embeddings: a few milliseconds.
const weighing = 1 << 16

// Node returns what is known of a node, if it is in the graph.
func (e *Engine) Node(id event.ID) (*Report, bool) {
	v, known := e.nodes.index.number(id)
	if !known {
		return nil, false
	}
	r := &Report{
		Node: id, Context: e.nodes.context.has(v), Label: e.className(e.nodes.states.at(v).label),
		Degree: e.nodes.graph.Degree(v), Served: e.predictor.served(v, id),
	}
	z := make([]float32, e.model.Prior.Dim)
	e.nodes.graph.Embed([]int32{v}, z)
	r.Now = e.predictor.opinion(id, z, view{node: v, without: none})
	r.Now.Window = e.next - 1
	r.Neighbours = e.influences(v, &r.Now)
	return r, true
}

// Served returns what every head predicted of a node when it was served, nil where
// it was not or that is no longer kept.
func (e *Engine) Served(id event.ID) *Opinion {
	v, known := e.nodes.index.number(id)
	if !known {
		return nil
	}
	return e.predictor.served(v, id)
}

// className returns the name of a class, "" of none.
func (e *Engine) className(class int32) string {
	if class == none {
		return ""
	}
	return e.model.Classes[class]
}

// influences weighs v's latest neighbours by leaving out each in turn.
func (e *Engine) influences(v int32, now *Opinion) []Influence {
	graph, c := e.nodes.graph, e.model.Prior.Classes
	near := slices.Clone(graph.Neighbours(v)) // the graph's own list changes meanwhile
	cost := len(near)
	for _, u := range near {
		cost += graph.Degree(u)
	}
	most := min(len(near), maxWeighed, weighing/max(cost, 1))
	if e.model.Encoder.Depth() > 2 { // what further hops bring is not in the cost
		most = min(most, maxWeighed/4)
	}
	near = near[len(near)-most:]
	list := make([]Influence, len(near))
	z, p := make([]float32, e.model.Prior.Dim), make([]float32, c)
	by := int(e.serving.servingHead())
	for i, u := range near {
		graph.EmbedWithout(v, u, z)
		outputs, _ := e.predictor.predictOne(z, view{node: v, without: u})
		e.serving.probabilities(p, outputs[by*c:][:c])
		list[i] = Influence{
			Node: e.nodes.index.ids.at(u), Label: e.className(e.nodes.states.at(u).label),
			Gain:    float64(now.Probabilities[now.ClassIndex]) - float64(p[now.ClassIndex]),
			Without: e.model.Classes[mostProbable(p)],
		}
	}
	slices.SortStableFunc(list, func(a, b Influence) int { return cmp.Compare(math.Abs(b.Gain), math.Abs(a.Gain)) })
	return list
}

// Supposed is what would be served for a node that has not come.
type Supposed struct {
	Opinion
	Unknown []event.ID // neighbours that are not in the graph
	Degree  int        // edges that it would have now
}

// Suppose returns what would be served if the node came now, in a window of its
// own. Nothing of it is kept. Of a node that would be refused, reason and detail
// say why; of one that is in the graph already, known is true.
func (e *Engine) Suppose(node *event.Node) (s *Supposed, known bool, reason event.Reason, detail string) {
	x := features(node)
	if detail := e.nodes.misfit(x); detail != "" {
		return nil, false, event.WrongDimension, detail
	}
	index := e.nodes.index
	if _, known := index.number(node.ID); known {
		return nil, true, "", ""
	}
	s = &Supposed{}
	var near []int32
	if waiting := index.waiting.get(node.ID); waiting != nil {
		near = append(near, *waiting...)
	}
	for _, id := range node.Neighbours {
		switch u, known := index.number(id); {
		case id == node.ID:
		case known:
			near = append(near, u)
		default:
			s.Unknown = append(s.Unknown, id)
		}
	}
	z := make([]float32, e.model.Prior.Dim)
	e.nodes.graph.EmbedArrival(e.model.Normalizer.Apply(gnn.Vector{}, x), near, z)
	seen := make(map[int32]bool, len(near))
	distinct := near[:0]
	for _, u := range near {
		if !seen[u] {
			seen[u] = true
			distinct = append(distinct, u)
		}
	}
	s.Degree = len(distinct)
	s.Opinion = e.predictor.opinion(node.ID, z, view{node: none, features: x, neighbours: distinct})
	s.Window, s.Time = e.next, node.Time
	return s, false, "", ""
}
