package serve

import (
	"iter"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Predictor makes predictions out of the serving's outputs: for a window's arrivals, and
// for single nodes that are queried or predicted again.
type Predictor struct {
	model   *model.Model
	nodes   *structure.Nodes
	pending *Pending
	serving heads.Serving

	Embeddings bool // whether predictions carry their embeddings

	// Rows are the embeddings and temperatures of the arrivals that were served last, or are
	// about to be.
	Rows posterior.Rows

	static   int                     // index in the serving's heads of the one named Static, none without one
	outputs  []float32               // of the window's arrivals, serving.width numbers each
	split    []posterior.Uncertainty // of the same
	again    []float32               // embeddings of nodes that are predicted again
	tried    []float32               // outputs of those on trial
	recycled []event.Prediction      // from Engine.Recycle
}

// Opinion is the prediction of every head for one node.
type Opinion struct {
	event.Prediction            // of the serving head
	Heads            []estimate // of every head, in their order
}

// estimate is one head's prediction of one node.
type estimate struct {
	Head          string
	Class         string // the most probable, the first on a tie
	Confidence    float32
	Probabilities []float32
}

// NewPredictor returns a predictor of an empty graph, with a store of predictions that wait.
func NewPredictor(m *model.Model, n *structure.Nodes, p *Pending, s heads.Serving) *Predictor {
	static := slices.IndexFunc(s.Heads(), func(h heads.Head) bool { return h.Name() == Static })
	return &Predictor{model: m, nodes: n, pending: p, serving: s, static: static}
}

// Static is the name of the head that is the model as trained: it never learns.
const Static = "static"

// Await lists the arrivals of a window that enters, and makes the predictions of all pending.
func (p *Predictor) Await(x *Entered) {
	x.Arrivals = x.Arrivals[:0]
	for _, a := range p.nodes.Accepted() {
		if !a.ToPredict {
			continue
		}
		slot, old, expired := p.pending.Put(a.Number, Served{window: x.Out.Window, Time: a.Node.Time})
		if expired {
			x.Out.Figures.Count(event.PredictionsExpired, 1)
			p.nodes.Expired(old)
		}
		x.Arrivals = append(x.Arrivals, awaited{Node: a.Node, Number: a.Number, Slot: slot})
	}
}

// Embedded gives the embeddings, n × d_e, of the arrivals. One that
// is not finite is set to 0.
func (p *Predictor) Embedded(z []float32) {
	p.Rows.Z, p.Rows.Tau = z, temperatures(p.Rows.Tau, z, p.model)
}

// temperatures returns those of embeddings, in the memory of dst. An embedding that is not finite
// is set to 0.
func temperatures(dst []float64, z []float32, m *model.Model) []float64 {
	d := m.Prior.Dim
	dst = kernel.Room(dst, len(z)/d)
	for i := range dst {
		z := z[i*d : (i+1)*d]
		if !finite(z) {
			clear(z)
		}
		dst[i] = m.Temperature.At(z)
	}
	return dst
}

// finite reports whether all elements of the embedding z are finite. An embedding that
// overflowed float32 is replaced by z = 0: learned, it would make the posterior NaN for
// all later nodes.
func finite(z []float32) bool {
	for _, x := range z {
		if float32(x-x) != 0 { // NaN and the infinities
			return false
		}
	}
	return true
}

// Serve predicts the arrivals of a window that has entered, given their embeddings. predict writes the outputs of all
// heads, and the uncertainties of the serving one.
func (p *Predictor) Serve(x *Entered, predict func(outputs []float32, split []posterior.Uncertainty)) {
	n, d, c, width := len(x.Arrivals), p.model.Prior.Dim, p.model.Prior.Classes, p.serving.Width()
	if n == 0 {
		return
	}
	p.outputs, p.split = kernel.Room(p.outputs, n*width), kernel.Room(p.split, n)
	predict(p.outputs, p.split)
	head := p.serving.ServingHead()
	version := p.serving.Heads()[head].Version()

	out := x.Out
	out.Predictions = p.blank(n)
	var embeddings []float32
	if p.Embeddings {
		embeddings = slices.Clone(p.Rows.Z[:n*d])
	}
	if p.static != none {
		out.AsTrained = make([]int32, c)
	}
	for i, a := range x.Arrivals {
		outputs := p.outputs[i*width : (i+1)*width]
		probs := out.Predictions[i].Probabilities
		p.serving.Probabilities(probs, outputs[int(head)*c:][:c])
		best := MostProbable(probs)
		u := p.split[i]
		out.Predictions[i] = event.Prediction{
			Node: a.Node.ID, Class: p.model.Classes[best], ClassIndex: int32(best), Confidence: probs[best],
			Probabilities: probs, Classes: p.model.Classes, Total: float32(u.Total), Aleatoric: float32(u.Aleatoric),
			Epistemic: float32(u.Epistemic),
			Window:    out.Window, PosteriorVersion: version, Time: a.Node.Time, Model: p.model.ID,
			Origin: a.Node.Origin,
		}
		if embeddings != nil {
			out.Predictions[i].Embedding = embeddings[i*d : (i+1)*d]
		}
		if p.static != none {
			class, _ := calibration.Top(outputs[p.static*c:][:c])
			out.AsTrained[class]++
		}
		p.pending.fill(a.Slot, p.Rows.Tau[i], head, p.Rows.Z[i*d:(i+1)*d], outputs)
	}
}

// Recycle reuses the memory of an outcome's predictions.
func (p *Predictor) Recycle(out *event.Outcome) {
	if cap(out.Predictions) > cap(p.recycled) { // keep the larger
		p.recycled = out.Predictions[:0]
	}
}

// blank returns n predictions with slices for their probabilities, reusing the memory of
// a recycled outcome.
func (p *Predictor) blank(n int) []event.Prediction {
	list, c := kernel.Room(p.recycled, n), p.model.Prior.Classes
	p.recycled = nil
	var block []float32
	for i := range list {
		probs := &list[i].Probabilities
		if len(*probs) == c {
			continue
		}
		if block == nil {
			block = make([]float32, (n-i)*c)
		}
		*probs, block = block[:c:c], block[c:]
	}
	return list
}

// Served returns the predictions of node v as they were served, nil if v is not pending.
func (p *Predictor) Served(v int32, id event.ID) *Opinion {
	slot, waits := p.pending.Nodes.SlotOf(v)
	if !waits {
		return nil
	}
	s, _, outputs := p.pending.at(slot)
	o := &Opinion{Heads: p.estimates(outputs)}
	o.Prediction = p.prediction(o, id, s.Head)
	o.Window, o.Time = s.window, s.Time
	return o
}

// Opinion predicts one node with embedding z, as serve predicts an arrival. If z is not
// finite, it is set to 0.
func (p *Predictor) Opinion(id event.ID, z []float32, v heads.View) Opinion {
	outputs, u := p.PredictOne(z, v)
	o := Opinion{Heads: p.estimates(outputs)}
	head := p.serving.ServingHead()
	o.Prediction = p.prediction(&o, id, head)
	o.Total, o.Aleatoric, o.Epistemic = float32(u.Total), float32(u.Aleatoric), float32(u.Epistemic)
	o.PosteriorVersion = p.serving.Heads()[head].Version()
	if p.Embeddings {
		o.Embedding = slices.Clone(z)
	}
	return o
}

// Again predicts nodes of the graph as it is, for revisions. Each is yielded with its place in the list.
func (p *Predictor) Again(nodes []int32) iter.Seq2[int, event.Prediction] {
	d := p.model.Prior.Dim
	p.again = kernel.Room(p.again, len(nodes)*d)
	p.nodes.Graph.Embed(nodes, p.again)
	return func(yield func(int, event.Prediction) bool) {
		for i, v := range nodes {
			view := heads.View{Node: v}
			if !yield(i, p.Opinion(p.nodes.ID(v), p.again[i*d:(i+1)*d], view).Prediction) {
				return
			}
		}
	}
}

// PredictOne returns the outputs and the uncertainty of a node with embedding z.
func (p *Predictor) PredictOne(z []float32, v heads.View) ([]float32, posterior.Uncertainty) {
	rows := posterior.Rows{Z: z, Tau: temperatures(nil, z, p.model)}
	outputs := make([]float32, p.serving.Width())
	return outputs, p.serving.PredictOne(v, rows, outputs)
}

// leastProbability bounds log odds: beyond it they say nothing that could be compared.
const leastProbability = 1e-12

// LogOdds returns the log odds of a class each, in the memory of dst, that would be served for nodes of the graph on trial.
func (p *Predictor) LogOdds(trials []heads.View, classes []int32, dst []float64) []float64 {
	d, c, width := p.model.Prior.Dim, p.model.Prior.Classes, p.serving.Width()
	p.again = kernel.Room(p.again, len(trials)*d)
	for i, v := range trials {
		x := v.Features
		if x != nil {
			normalised := p.model.Normalizer.Apply(gnn.Vector{}, *x)
			x = &normalised
		}
		p.nodes.Graph.EmbedTrial(v.Node, x, v.Without, p.again[i*d:(i+1)*d])
	}
	p.tried = kernel.Room(p.tried, len(trials)*width)
	outputs, probs := p.tried, make([]float32, c)
	p.serving.PredictTrials(trials, posterior.Rows{Z: p.again, Tau: temperatures(nil, p.again, p.model)}, outputs)
	dst = kernel.Room(dst, len(trials))
	for i := range dst {
		p.serving.Probabilities(probs, outputs[i*width+int(p.serving.ServingHead())*c:][:c])
		others := 0.0 // 1 less the probability would have lost what is next to 1
		for k, q := range probs {
			if k != int(classes[i]) {
				others += float64(q)
			}
		}
		dst[i] = double.Log(max(float64(probs[classes[i]]), leastProbability)) - double.Log(max(others, leastProbability))
	}
	return dst
}

// estimates returns each head's prediction, given a node's outputs.
func (p *Predictor) estimates(outputs []float32) []estimate {
	c := p.model.Prior.Classes
	list := make([]estimate, len(p.serving.Heads()))
	for h, head := range p.serving.Heads() {
		probs := make([]float32, c)
		p.serving.Probabilities(probs, outputs[h*c:(h+1)*c])
		best := MostProbable(probs)
		list[h] = estimate{Head: head.Name(), Class: p.model.Classes[best], Confidence: probs[best], Probabilities: probs}
	}
	return list
}

// prediction returns the prediction of a head. Fields that do not follow from its
// probabilities are zero.
func (p *Predictor) prediction(o *Opinion, id event.ID, place uint8) event.Prediction {
	head := &o.Heads[place]
	return event.Prediction{
		Node: id, Class: head.Class, ClassIndex: int32(MostProbable(head.Probabilities)), Confidence: head.Confidence,
		Probabilities: head.Probabilities, Classes: p.model.Classes, Model: p.model.ID,
	}
}

// MostProbable returns the lowest index of the largest probability. The bits of floats ≥ 0 are
// ordered as the floats are, and the largest of integers needs no branch, which would be mispredicted.
func MostProbable(p []float32) int {
	var most uint32
	for _, x := range p {
		most = max(most, math.Float32bits(x))
	}
	return slices.Index(p, math.Float32frombits(most))
}

// State declares the graph, and what was served on it. next is the number of the next window.
func (p *Predictor) State(s *snapshot.Schema, next int64) {
	p.nodes.Graph.State(s)
	p.serving.State(s)
	p.nodes.State(s)
	p.pending.state(s, p.nodes.Numbers(), next, p.serving, p.model.Prior.Classes, p.model.Temperature.At)
	s.Check(func() error { return p.nodes.CheckWaiting(p.pending.all()) })
	p.nodes.WaitingState(s)
}
