package pipeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// none is no node and no class.
const none = -1

// The methods of this file may be called between windows. They change no state, and cost
// nothing when they are not called.

// Report describes a node of the graph.
type Report struct {
	Node    event.ID
	Context bool   // it arrived as context and was not predicted
	Label   string // its class, "" before the label came
	Degree  int
	// Served is the prediction as served, without its uncertainties and the
	// posterior's version. It is nil unless the node is pending.
	Served *serve.Opinion
	// Now is the prediction on the current graph, with the current posterior.
	Now serve.Opinion
	// Neighbours are the most influential of the latest 64 neighbours, in order of
	// falling |Gain|. Nodes of high degree have fewer or none.
	Neighbours []influence
}

// influence compares a node's prediction with the one without the edge to a neighbour.
type influence struct {
	Node  event.ID // the neighbour
	Label string   // its class, "" before its label came
	// Gain is the probability of the class predicted now, less its probability
	// without the edge: it is positive if the neighbour supports the prediction.
	Gain float64
	// Without is the class that is most probable without the edge.
	Without string
}

// maxInfluences bounds the neighbours whose influence is computed.
const maxInfluences = 64

// influenceBudget bounds the cost of computing influences, in neighbours read for the
// embeddings: a few milliseconds.
const influenceBudget = 1 << 16

// Node returns a report on a node, if it is in the graph.
func (e *Engine) Node(id event.ID) (*Report, bool) {
	v, known := e.nodes.Number(id)
	if !known {
		return nil, false
	}
	e.queue.Settle()
	r := &Report{
		Node: id, Context: e.nodes.IsContext(v), Label: e.className(e.nodes.Class(v)),
		Degree: e.nodes.Graph.Degree(v), Served: e.predictor.Served(v, id),
	}
	z := make([]float32, e.model.Prior.Dim)
	e.nodes.Graph.Embed([]int32{v}, z)
	r.Now = e.predictor.Opinion(id, z, heads.View{Node: v})
	r.Now.Window = e.next - 1
	r.Neighbours = e.influences(v, &r.Now)
	return r, true
}

// Served returns every head's prediction for a node as served, nil if the node is not in
// the graph or not pending.
func (e *Engine) Served(id event.ID) *serve.Opinion {
	v, known := e.nodes.Number(id)
	if !known {
		return nil
	}
	return e.predictor.Served(v, id)
}

// className returns the name of a class, "" of none.
func (e *Engine) className(class int32) string {
	if class == none {
		return ""
	}
	return e.model.Classes[class]
}

// influences predicts v without each of its latest neighbours in turn.
func (e *Engine) influences(v int32, now *serve.Opinion) []influence {
	graph, c := e.nodes.Graph, e.model.Prior.Classes
	near := slices.Clone(graph.Neighbours(v)) // the graph's own list changes meanwhile
	cost := len(near)
	for _, u := range near {
		cost += graph.Degree(u)
	}
	most := min(len(near), maxInfluences, influenceBudget/max(cost, 1))
	if e.model.Encoder.Depth() > 2 { // cost counts two hops only
		most = min(most, maxInfluences/4)
	}
	near = near[len(near)-most:]
	list := make([]influence, len(near))
	z, p := make([]float32, e.model.Prior.Dim), make([]float32, c)
	by := int(e.serving.ServingHead())
	for i, u := range near {
		graph.EmbedTrial(v, nil, []int32{u}, z)
		outputs, _ := e.predictor.PredictOne(z, heads.View{Node: v, Without: []int32{u}})
		e.serving.Probabilities(p, outputs[by*c:][:c])
		list[i] = influence{
			Node: e.nodes.ID(u), Label: e.className(e.nodes.Class(u)),
			Gain:    float64(now.Probabilities[now.ClassIndex]) - float64(p[now.ClassIndex]),
			Without: e.model.Classes[serve.MostProbable(p)],
		}
	}
	slices.SortStableFunc(list, func(a, b influence) int { return cmp.Compare(math.Abs(b.Gain), math.Abs(a.Gain)) })
	return list
}

// Supposed is the prediction for a node that has not arrived.
type Supposed struct {
	serve.Opinion
	Unknown []event.ID // neighbours that are not in the graph
	Degree  int        // edges that the node would have
}

// Suppose returns the prediction that would be served if the node arrived now, in a
// window of its own. The node is not added. If its event would be refused, s is nil and
// reason and detail explain that; if the node is in the graph already, s is nil and known
// is true.
func (e *Engine) Suppose(node *event.Node) (s *Supposed, known bool, reason event.Reason, detail string) {
	x, known, reason, detail := e.nodes.Suppose(node)
	if x == nil {
		return nil, known, reason, detail
	}
	e.queue.Settle()
	s = &Supposed{Unknown: x.Unknown, Degree: len(x.Near)}
	z := make([]float32, e.model.Prior.Dim)
	e.nodes.Graph.EmbedArrival(e.model.Normalizer.Apply(gnn.Vector{}, x.Features), x.Near, x.Weighed, z)
	s.Opinion = e.predictor.Opinion(node.ID, z, heads.View{Node: none, Features: &x.Features, Neighbours: x.Near, Weighed: x.Weighed})
	s.Window, s.Time = e.next, node.Time
	return s, false, "", ""
}
