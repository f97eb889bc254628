package pipeline

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
)

// Engine is the state machine. Its state is that of its parts: nodes (the graph),
// pending (what was served), labels (those that wait), the serving's heads, the
// scores, and the observers that the settings ask for.
type Engine struct {
	model *model.Model
	cfg   Config

	nodes     *nodes
	pending   *pending
	serving   serving
	predictor *predictor
	labels    *labels
	scorer    *scorer
	observers []observer

	next      int64      // number of the next window
	posterior event.Hash // of the heads' state
	chain     event.Hash // of everything served and learned
	buffer    []byte     // scratch of the chain

	// Of the window in hand, between Enter and Learn:
	stage  stage
	window *event.Window
	out    *event.Outcome
	// spare are the labels of an outcome that was recycled.
	spare []event.Labelled

	snapshot *Snapshot // under way, or nil
}

// New makes an engine at window 0: an empty graph and the posterior that Phase 1
// left (M*, Σ*).
func New(m *model.Model, cfg Config) (*Engine, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{model: m, cfg: cfg}
	graph := gnn.NewGraph(m.Encoder, cfg.graphOptions()...)
	if cfg.Head == HeadPool || cfg.Head == "" && m.Pool != nil {
		p, err := newPooled(m, cfg, graph)
		if err != nil {
			return nil, err
		}
		e.assemble(graph, p)
		e.nodes.followers = append(e.nodes.followers, p)
	} else {
		p := newPaper(m, cfg)
		e.assemble(graph, p)
		if cfg.Fallback >= 0 {
			e.observers = append(e.observers, &fallback{threshold: cfg.Fallback, heads: p, pending: e.pending})
		}
	}
	if cfg.Coverage.Target > 0 {
		s, err := newSets(cfg.Coverage, e.nodes, e.pending, e.scorer)
		if err != nil {
			return nil, err
		}
		e.observers = append(e.observers, s)
	}
	if cfg.Rescore.on() {
		r := newRescoring(cfg, e.predictor, e.scorer)
		e.observers = append(e.observers, r)
		e.nodes.followers = append(e.nodes.followers, r)
	}
	if !cfg.Unwatched {
		d, err := newDetectors(e.nodes)
		if err != nil {
			return nil, err
		}
		e.observers = append(e.observers, d)
	}
	e.posterior, e.buffer = hashOf(e.serving.heads(), e.buffer)
	return e, nil
}

// assemble makes the parts that every engine has.
func (e *Engine) assemble(graph *gnn.Graph, s serving) {
	m, cfg := e.model, e.cfg
	e.serving = s
	e.pending = newPending(m.Prior.Dim, s.width(), cfg.MaxPending)
	e.pending.reserve(cfg.Reserve)
	e.nodes = newNodes(m, graph, cfg, e.pending)
	e.predictor = &predictor{model: m, nodes: e.nodes, pending: e.pending, serving: s}
	e.labels = &labels{classes: m.Classes, nodes: e.nodes, pending: e.pending, unmatched: newUnmatched(cfg.MaxWaitingLabels)}
	e.scorer = &scorer{classes: m.Classes, serving: s, batch: &e.labels.batch, bins: cfg.Bins}
	for _, h := range e.serving.heads() {
		e.scorer.summaries = append(e.scorer.summaries, Summary{Head: h.Name()})
	}
}

// Config returns the settings in force, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Model returns the model that the engine was made of.
func (e *Engine) Model() *model.Model { return e.model }

// Next returns the number of the next window.
func (e *Engine) Next() int64 { return e.next }

// Chain returns the hash of everything served and learned so far.
func (e *Engine) Chain() event.Hash { return e.chain }

// Posterior returns the posterior of the online head, which serves or is one of
// the pool's, and the one that training left. Of a pool without such a head both
// are equal. They belong to the engine: they must not be written, and the first
// changes with Step.
func (e *Engine) Posterior() (now, trained *posterior.Gaussian) {
	return e.serving.online().Posterior(), &e.model.Prior
}

// Summaries returns the prequential scores so far, one for each head, the serving
// head first; and, where nodes are predicted again, last those of the newest
// predictions.
func (e *Engine) Summaries() []Summary {
	all := slices.Clone(e.scorer.summaries)
	for _, s := range e.scorer.extra {
		all = append(all, *s)
	}
	return all
}

// Pooled returns what the pool has learned of its heads; nil where the paper's
// heads serve.
func (e *Engine) Pooled() *Pooled { return e.serving.learned() }

// stage is the call that comes next in a window.
type stage uint8

const (
	entering stage = iota
	serves
	learning
)

func (s stage) String() string { return [...]string{"Enter", "Serve", "Learn"}[s] }

// turn panics unless it is the given stage's turn, and moves on to the next one.
func (e *Engine) turn(s stage) {
	if e.stage != s {
		panic(fmt.Sprintf("pipeline: %v where %v is next", s, e.stage))
	}
	e.stage = (s + 1) % 3
}

// Step takes the next window and returns what was served and learned: it is
// [Engine.Enter], [Engine.Serve] and [Engine.Learn].
func (e *Engine) Step(w *event.Window) *event.Outcome {
	e.Enter(w)
	e.Serve()
	return e.Learn()
}

// Enter begins the next window: it brings the graph up to date with the window's
// node events and encodes the arrivals on it, z_v = g(x_v, G_t). The window must
// carry the next number. It must not change before Learn has returned; none of its
// events' memory is kept after that.
func (e *Engine) Enter(w *event.Window) {
	if w.Number != e.next {
		panic(fmt.Sprintf("pipeline: window %d where %d is next", w.Number, e.next))
	}
	e.turn(entering)
	e.window = w
	e.out = &event.Outcome{Window: w.Number, Model: e.model.ID, Refused: append([]event.Refusal(nil), w.Refused...)}
	e.out.Labelled, e.spare = e.spare, nil
	e.nodes.enter(w.Nodes, e.out)
}

// Serve predicts the arrivals with every head, before anything is learned from the
// window. It returns the predictions of the outcome that Learn will return.
func (e *Engine) Serve() []event.Prediction {
	e.turn(serves)
	e.predictor.serve(e.out)
	for _, o := range e.observers {
		o.served(e.out)
	}
	return e.out.Predictions
}

// Learn ends the window: it joins labels to what was served for their nodes, scores
// them, and updates the heads, the paper's by Algorithm 1. In a window without
// labels nothing is learned, and nothing forgotten either.
func (e *Engine) Learn() *event.Outcome {
	e.turn(learning)
	w, out := e.window, e.out
	e.labels.join(w.Labels, e.observers, out)
	e.scorer.score(out)
	for _, o := range e.observers {
		o.scored(out)
	}
	if b := &e.labels.batch; len(b.labels) > 0 {
		e.serving.learn(b, out.Heads)
		e.posterior = e.serving.hash(e.posterior)
	}
	for h, head := range e.serving.heads() {
		out.Heads[h].Version = head.Version()
	}
	e.nodes.release()
	out.Levels = event.Levels{
		Nodes: e.nodes.len(), Edges: e.nodes.graph.Edges(),
		Pending: e.pending.nodes.len(), WaitingLabels: e.labels.unmatched.queue.len(), WaitingEdges: e.nodes.index.edges,
	}
	out.Posterior = e.posterior
	e.extendChain(out)
	out.Chain = e.chain
	for i := range w.Commands {
		decline(&w.Commands[i], out)
	}
	e.next++
	e.window, e.out = nil, nil
	return out
}

// Recycle gives back an outcome of this engine that nobody reads any more: the next
// outcome reuses the memory of its predictions, labels and scores.
func (e *Engine) Recycle(out *event.Outcome) {
	if cap(out.Predictions) > cap(e.predictor.spare) { // a window may have had none
		e.predictor.spare = out.Predictions[:0]
	}
	if cap(out.Labelled) > cap(e.spare) {
		e.spare = out.Labelled[:0]
	}
	for _, h := range out.Heads {
		if cap(h.Scores) > 0 {
			e.scorer.spare = append(e.scorer.spare, h.Scores)
		}
	}
}

// refuse adds a refusal to the outcome.
func refuse(out *event.Outcome, o *event.Origin, why event.Reason, detail string) {
	out.Refused = append(out.Refused, event.Refusal{Origin: o, Reason: why, Detail: detail})
}

// decline refuses a command that this engine cannot carry out. That is no part of
// the chain: what a model makes of the stream does not depend on commands.
func decline(c *event.Command, out *event.Outcome) {
	refuse(out, c.Origin, event.ImpossibleCommand, fmt.Sprintf("%s: nothing here can do that", c.Name))
}
