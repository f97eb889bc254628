package table

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/posterior/pool"
)

// pooled is the pool of heads, or one with a part taken away, made of what the
// engine is made of: the graph, the vicinity and the pool itself. A test holds
// its scores to those of the engine.
type pooled struct {
	pool    *pool.Pool
	spec    pool.Spec
	mixture *mixture // nil for the product
	classes int

	protocol string
	stream   *stage
	raw      []gnn.Vector
	graph    *gnn.Graph // its adjacency alone is used
	around   *neighbourhood.Vicinity
	rows     []posterior.Rows // embeddings by step

	bins   int
	served []servedStep
	heads  []Scores // sums over steps
}

// servedStep is what is kept of a step until its labels come.
type servedStep struct {
	said             []float32
	labelled, second []float32
}

// Ablations are the pool with a part taken away, or with another rule in its
// place: the mixture of the heads' probabilities by their discounted likelihoods
// instead of the product.
var Ablations = []string{"pool-no-labels", "pool-no-wide", "pool-no-bayes", "pool-no-gnn", "pool-no-refresh", "pool-mixture"}

// without takes the part that a system's name says off a spec. It reports
// whether there was any.
func without(s pool.Spec, system string) (pool.Spec, bool) {
	before := len(s.Heads)
	drop := func(is func(pool.Head) bool) bool {
		s.Heads = slices.DeleteFunc(slices.Clone(s.Heads), is)
		return len(s.Heads) < before
	}
	switch strings.TrimPrefix(system, "pool-no-") {
	case "labels":
		return s, drop(func(h pool.Head) bool { return h.Label != nil || h.Vote != nil || h.Joint != nil })
	case "wide":
		return s, drop(func(h pool.Head) bool { return h.Wide != nil })
	case "bayes":
		return s, drop(func(h pool.Head) bool { return h.Bayes != nil })
	case "gnn":
		return s, drop(func(h pool.Head) bool { return h.Static != nil || h.Online != nil || h.Full != nil || h.Joint != nil })
	case "refresh":
		was := s.Refreshes()
		s.Heads = slices.Clone(s.Heads)
		for i, h := range s.Heads {
			if h.Wide != nil {
				w := *h.Wide
				w.Refresh = false
				s.Heads[i].Wide = &w
			}
		}
		return s, was
	}
	return s, true
}

func newPooled(s *school, stream *stage, protocol, system string) (*pooled, error) {
	m, err := s.bayesian()
	if err != nil {
		return nil, err
	}
	spec, _ := without(model.DefaultPool(s.data), system)
	g, err := playedBy(*m, s.data, spec, stream, protocol, s.settings.Bins)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", system, err)
	}
	if system == "pool-mixture" {
		g.mixture = newMixture(spec)
	}
	g.warm(m)
	return g, nil
}

// playedBy returns the pool of that spec beside a trained model, before the
// warm-up.
func playedBy(m model.Model, data model.Data, spec pool.Spec, stream *stage, protocol string, bins int) (*pooled, error) {
	if err := m.AddPool(data, spec); err != nil {
		return nil, err
	}
	p, err := m.NewPool()
	if err != nil {
		return nil, err
	}
	g := &pooled{
		pool: p, spec: spec, classes: len(m.Classes), protocol: protocol, stream: stream, raw: stream.raw,
		graph: gnn.NewGraph(m.Encoder), served: make([]servedStep, len(stream.steps)), heads: make([]Scores, len(spec.Heads)), bins: bins,
	}
	g.around = neighbourhood.New(g.graph, spec, m.Shape())
	for _, z := range stream.embeddings(m.Encoder, protocol) {
		rows := posterior.Rows{Z: z, Tau: make([]float64, len(z)/m.Prior.Dim)}
		for i := range rows.Tau {
			rows.Tau[i] = m.Temperature.At(z[i*m.Prior.Dim : (i+1)*m.Prior.Dim])
		}
		g.rows = append(g.rows, rows)
	}
	g.grow(stream.train)
	if protocol == Full {
		g.grow(len(stream.x))
	}
	for v, y := range stream.labels[:stream.train] {
		g.around.Label(int32(v), y)
	}
	return g, nil
}

// warm plays the warm-up as the stream is played, unscored.
func (g *pooled) warm(m *model.Model) {
	size := len(g.stream.targets(0))
	for lo := g.stream.train; lo < g.stream.context.nodes; lo += size {
		hi := min(lo+size, g.stream.context.nodes)
		nodes := numbers(lo, hi)
		if hi > g.graph.Len() {
			g.grow(hi)
		}
		rows := posterior.Rows{Z: make([]float32, len(nodes)*m.Prior.Dim), Tau: make([]float64, len(nodes))}
		g.graph.Embed(nodes, rows.Z)
		for i := range rows.Tau {
			rows.Tau[i] = m.Temperature.At(rows.Z[i*m.Prior.Dim : (i+1)*m.Prior.Dim])
		}
		g.teach(nodes, g.stream.labels[lo:hi], rows, g.say(nodes, rows))
	}
}

// grow lets nodes arrive up to the given number.
func (g *pooled) grow(upto int) {
	lo := g.graph.Len()
	g.graph.Add(g.stream.x[lo:upto])
	for v := lo; v < upto; v++ {
		g.around.Put(int32(v), g.raw[v])
	}
	for v := int32(lo); v < int32(upto); v++ {
		added := g.graph.LinkAll(v, g.stream.links[v])
		near := g.graph.Neighbours(v)
		g.around.Link(v, near[len(near)-added:])
	}
}

func (g *pooled) predict(t int, probs []float64) {
	_, hi := g.stream.span(t)
	if hi > g.graph.Len() {
		g.grow(hi)
	}
	g.served[t] = g.say(g.stream.targets(t), g.rows[t])
	said := g.served[t].said
	g.score(t)
	if g.mixture != nil {
		g.mixture.predict(said, g.classes, probs)
		return
	}
	g.probabilities(probs, said, 0)
}

// probabilities writes those of head k, 0 for the pool.
func (g *pooled) probabilities(probs []float64, said []float32, k int) {
	for i := range len(probs) / g.classes {
		for c, x := range said[i*g.pool.SaidPerRow()+k*g.classes:][:g.classes] {
			probs[i*g.classes+c] = posterior.Exp(float64(x))
		}
	}
}

// score adds up how each head does by itself.
func (g *pooled) score(t int) {
	labels := g.stream.stepLabels(t)
	probs := make([]float64, len(labels)*g.classes)
	for k := range g.heads {
		g.probabilities(probs, g.served[t].said, 1+k)
		s := calibration.Measure(probs, g.classes, labels, g.bins)
		g.heads[k].N += s.N
		g.heads[k].Acc += s.Acc
		g.heads[k].NLL += s.NLL
		g.heads[k].ECE += s.ECE
	}
}

// headScores are the means over steps.
func (g *pooled) headScores() (list []HeadScores) {
	weights, _ := g.pool.Weights()
	for k, s := range g.heads {
		s.divide(len(g.stream.steps))
		list = append(list, HeadScores{Name: g.spec.Heads[k].Name, Weight: weights[k], Scores: s})
	}
	return list
}

// say predicts nodes with the given embeddings.
func (g *pooled) say(nodes []int32, embedded posterior.Rows) servedStep {
	var rows pool.Rows
	g.around.Reset(&rows)
	for _, v := range nodes {
		g.around.Append(&rows, v)
	}
	rows.Embedded = embedded
	said := make([]float32, rows.N*g.pool.SaidPerRow())
	g.pool.Predict(rows, said)
	return servedStep{said: said, labelled: rows.Labelled, second: rows.Second}
}

func (g *pooled) learn(t int) {
	g.teach(g.stream.targets(t), g.stream.stepLabels(t), g.rows[t], g.served[t])
	g.served[t] = servedStep{}
}

// teach gives the pool the labels of nodes that were served.
func (g *pooled) teach(nodes, labels []int32, embedded posterior.Rows, served servedStep) {
	b := pool.Batch{Labels: labels, Said: served.said}
	g.around.Reset(&b.Rows)
	for i, v := range nodes {
		g.around.AppendFeatures(&b.Rows, v)
		g.around.Label(v, labels[i])
	}
	b.Labelled, b.Second, b.Embedded = served.labelled, served.second, embedded
	g.around.Meet(&b, nodes, g.spec.Refreshes())
	if g.mixture != nil {
		g.mixture.learn(served.said, g.classes, labels)
	}
	g.pool.Learn(b)
}

// mixture is Σ_k ω_k p_k with ω_k ∝ exp(Σ_i γ^age log p_k[y_i]): Bayesian model
// averaging that forgets.
type mixture struct {
	members []int // the heads with a part in it
	score   []float64
	keep    float64 // γ, a batch
}

func newMixture(s pool.Spec) *mixture {
	m := &mixture{keep: s.Weights.Lambda, score: make([]float64, len(s.Heads))}
	for k, h := range s.Heads {
		if !h.Shadow {
			m.members = append(m.members, k)
		}
	}
	return m
}

func (m *mixture) predict(said []float32, classes int, probs []float64) {
	most := m.score[m.members[0]]
	for _, k := range m.members {
		most = max(most, m.score[k])
	}
	var all float64
	for _, k := range m.members {
		all += posterior.Exp(m.score[k] - most)
	}
	width := (1 + len(m.score)) * classes
	clear(probs)
	for _, k := range m.members {
		share := posterior.Exp(m.score[k]-most) / all
		for i := range len(said) / width {
			for c, x := range said[i*width+(1+k)*classes:][:classes] {
				probs[i*classes+c] += float64(share * posterior.Exp(float64(x)))
			}
		}
	}
}

func (m *mixture) learn(said []float32, classes int, labels []int32) {
	width := (1 + len(m.score)) * classes
	for k := range m.score {
		m.score[k] *= m.keep
		for i, y := range labels {
			m.score[k] += float64(said[i*width+(1+k)*classes+int(y)])
		}
	}
}
