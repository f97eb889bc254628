package pipeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// The questions of this file may be asked between steps. They change nothing: the
// engine gives the same bits afterwards, and pays nothing while nobody asks.

// Opinion is what the pool says of one node.
type Opinion struct {
	event.Prediction            // of the serving head
	Heads            []Estimate // of every head, in the order of the pool
}

// Estimate is one head's view of one node.
type Estimate struct {
	Head          string
	Class         string // the most probable, the first on a tie
	Confidence    float32
	Probabilities []float32
}

// Report is what is known of a node of the graph.
type Report struct {
	Node    event.ID
	Context bool   // it was not asked about when it came
	Label   string // the class that was told, "" for none
	Degree  int
	// Served is what was served, as far as it is kept: until the label comes, and
	// without its uncertainties and the posterior's version. It is nil if there is
	// nothing.
	Served *Opinion
	// Now is what would be served on the graph and with the posterior as they are.
	Now Opinion
	// Neighbours are those that matter most to it, at most [Weighed] of them, the
	// weightiest first.
	Neighbours []Influence
}

// Influence is how much a neighbour matters: what becomes of the prediction
// without the edge to it.
type Influence struct {
	Node  event.ID
	Label string // the class that was told of it, "" for none
	// Gain is the probability of the node's class now, less what it would be
	// without the edge: positive for a neighbour that speaks for the class.
	Gain float64
	// Without is the class that would be the most probable without the edge.
	Without string
}

// Weighed is the most neighbours of a node that are weighed: the ones it got
// last. Hubs, whose embeddings take longer, get fewer, and at last none.
const Weighed = 64

// weighing bounds what the weighing of neighbours may take, in neighbours that
// are read for all of the embeddings: a few milliseconds.
const weighing = 1 << 16

// Node returns what is known of a node, if it is in the graph.
func (e *Engine) Node(id event.ID) (*Report, bool) {
	v, known := e.roster.number(id)
	if !known {
		return nil, false
	}
	f := e.fate.at(v)
	r := &Report{Node: id, Context: e.context.has(v), Label: e.className(f.label), Degree: e.graph.Degree(v), Served: e.served(v, id)}
	z := make([]float32, e.model.Prior.Dim)
	e.graph.Embed([]int32{v}, z)
	r.Now = e.opinion(id, z, func(a *neighbourhood.Vicinity, rows *pool.Rows) { a.Append(rows, v) })
	r.Neighbours = e.influences(v, &r.Now)
	return r, true
}

// Served returns what every head said of a node when it was served, nil where it
// was not or that is no longer kept.
func (e *Engine) Served(id event.ID) *Opinion {
	v, known := e.roster.number(id)
	if !known {
		return nil
	}
	return e.served(v, id)
}

// className returns the name of a class, "" of none.
func (e *Engine) className(class int32) string {
	if class == none {
		return ""
	}
	return e.model.Classes[class]
}

// served returns what waits for the node's label.
func (e *Engine) served(v int32, id event.ID) *Opinion {
	slot, waits := e.pending.nodes.place(v)
	if !waits {
		return nil
	}
	s := &e.pending.nodes.entries.at(slot).value
	o := &Opinion{Heads: e.estimates(e.pending.probs.Row(slot))}
	o.Prediction = o.prediction(e, id, s.by)
	o.Window, o.Time = s.window, s.time
	return o
}

// around adds the row of the node that is asked about, for a pool.
type around func(*neighbourhood.Vicinity, *pool.Rows)

// opinion predicts a node with the given embedding as serve does.
func (e *Engine) opinion(id event.ID, z []float32, row around) Opinion {
	kept, u := e.predict(z, row)
	o := Opinion{Heads: e.estimates(kept)}
	by := e.servedBy()
	o.Prediction = o.prediction(e, id, by)
	o.Total, o.Aleatoric, o.Epistemic = float32(u.Total), float32(u.Aleatoric), float32(u.Epistemic)
	o.Window, o.PosteriorVersion = e.next-1, e.heads[by].Version()
	return o
}

// predict returns what serve would keep, and the uncertainty.
func (e *Engine) predict(z []float32, row around) ([]float32, posterior.Uncertainty) {
	if !finite(z) {
		clear(z)
	}
	rows := posterior.Rows{Z: z, Tau: []float64{e.model.Temperature.At(z)}}
	kept := make([]float32, e.width)
	if p := e.pooled; p != nil {
		p.around.Reset(&p.rows)
		row(p.around, &p.rows)
		p.rows.Embedded = rows
		p.say(kept)
		return kept, p.split(kept)
	}
	split := make([]posterior.Uncertainty, 1)
	e.predictPaper(rows, kept, split)
	return kept, split[0]
}

// estimates are those of each head, of what is kept of a node.
func (e *Engine) estimates(kept []float32) []Estimate {
	c := e.model.Prior.Classes
	list := make([]Estimate, len(e.heads))
	for h, head := range e.heads {
		p := make([]float32, c)
		e.asServed(p, kept[h*c:(h+1)*c])
		best := mostProbable(p)
		list[h] = Estimate{Head: head.Name(), Class: e.model.Classes[best], Confidence: p[best], Probabilities: p}
	}
	return list
}

// prediction is that of the head that serves, or served, as far as probabilities tell it.
func (o *Opinion) prediction(e *Engine, id event.ID, by uint8) event.Prediction {
	first := &o.Heads[by]
	return event.Prediction{
		Node: id, Class: first.Class, ClassIndex: int32(mostProbable(first.Probabilities)), Confidence: first.Confidence,
		Probabilities: first.Probabilities, Model: e.model.ID,
	}
}

// influences weighs v's last neighbours by leaving out each in turn.
func (e *Engine) influences(v int32, now *Opinion) []Influence {
	near := slices.Clone(e.graph.Neighbours(v)) // the graph's own change meanwhile
	cost := len(near)
	for _, u := range near {
		cost += e.graph.Degree(u)
	}
	most := min(len(near), Weighed, weighing/max(cost, 1))
	if e.model.Encoder.Depth() > 2 { // what further hops bring is not in the cost
		most = min(most, Weighed/4)
	}
	near = near[len(near)-most:]
	list := make([]Influence, len(near))
	z, p := make([]float32, e.model.Prior.Dim), make([]float32, e.model.Prior.Classes)
	for i, u := range near {
		e.graph.EmbedWithout(v, u, z)
		kept, _ := e.predict(z, func(a *neighbourhood.Vicinity, rows *pool.Rows) { a.AppendWithout(rows, v, u) })
		e.asServed(p, kept[int(e.servedBy())*len(p):][:len(p)])
		list[i] = Influence{
			Node: e.roster.came.at(u), Label: e.className(e.fate.at(u).label),
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
// own. Nothing of it is kept. Its features must be of the model's dimension and
// the node not in the graph: reason says of a node that would be refused why,
// and known that it is in the graph already.
func (e *Engine) Suppose(n *event.Node) (s *Supposed, known bool, reason event.Reason, detail string) {
	x := gnn.Vector{Dense: n.Dense, Index: n.Index, Value: n.Value}
	if detail := e.misfit(x); detail != "" {
		return nil, false, event.WrongDimension, detail
	}
	if _, known := e.roster.number(n.ID); known {
		return nil, true, "", ""
	}
	s = &Supposed{}
	var near []int32
	if waiting := e.roster.waiting.get(n.ID); waiting != nil {
		near = append(near, *waiting...)
	}
	for _, id := range n.Neighbours {
		switch u, known := e.roster.number(id); {
		case id == n.ID:
		case known:
			near = append(near, u)
		default:
			s.Unknown = append(s.Unknown, id)
		}
	}
	met := make(map[int32]bool, len(near))
	for _, u := range near {
		met[u] = true
	}
	s.Degree = len(met)
	z := make([]float32, e.model.Prior.Dim)
	e.graph.EmbedArrival(e.model.Normalizer.Apply(gnn.Vector{}, x), near, z)
	distinct := near[:0]
	for _, u := range near {
		if met[u] {
			met[u] = false
			distinct = append(distinct, u)
		}
	}
	s.Opinion = e.opinion(n.ID, z, func(a *neighbourhood.Vicinity, rows *pool.Rows) { a.AppendArrival(rows, x, distinct) })
	s.Window, s.Time = e.next, n.Time
	return s, false, "", ""
}

// Belief is the posterior that serves, beside the one it started from.
type Belief struct {
	Version   uint64
	Hash      event.Hash // of the state of all heads
	Posterior posterior.Gaussian
	Deviation []float64 // σ, d_e × C
	Classes   []ClassBelief
	Distance  float64 // ‖M - M*‖, Frobenius norm
	KL        float64 // of the posterior from the anchor, nats
}

// ClassBelief is what the posterior holds of one class's weights.
type ClassBelief struct {
	Class     string
	Precision float64 // mean of 1/σ²
	Variance  float64 // mean of σ²
	Distance  float64 // Euclidean, of the means from the anchor's
}

// Belief returns the posterior as it is now, in memory of its own.
func (e *Engine) Belief() *Belief {
	q, anchor := e.online.Posterior().Clone(), &e.model.Prior
	b := &Belief{Version: e.heads[0].Version(), Hash: e.posterior, Posterior: q, Deviation: make([]float64, len(q.Mean)), Classes: make([]ClassBelief, q.Classes)}
	for c := range b.Classes {
		b.Classes[c].Class = e.model.Classes[c]
	}
	n := float64(q.Dim)
	for i := range q.Mean {
		c := &b.Classes[i%q.Classes]
		moved := q.Mean[i] - anchor.Mean[i]
		c.Precision += q.Precision[i] / n
		c.Variance += q.Variance(i) / n
		b.Deviation[i] = math.Sqrt(q.Variance(i))
		c.Distance += float64(moved * moved)
	}
	b.Distance, _ = q.Distance(anchor)
	b.KL = q.KL(anchor)
	for c := range b.Classes {
		b.Classes[c].Distance = math.Sqrt(b.Classes[c].Distance)
	}
	return b
}
