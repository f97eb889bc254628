package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Engine predicts the nodes of a stream and learns from their labels, one window
// after the other. It is deterministic: after windows 0 to t, its state and all its
// outcomes are a function of the model, the [Config] and these windows.
//
// The methods of a window are called in the order Enter, Serve, Learn; Step calls
// all three. A call out of turn panics. All other methods may be called between
// windows only, and change neither state nor outcomes.
//
// Invariants between windows:
//
//   - A node number is below graph.Len(). Its node is in the graph, or has left
//     while its prediction is pending, or the number is free.
//   - A node is pending exactly while it has been served, has no label, and its
//     prediction has not expired. A context node is never pending.
//   - No label waits in labels.unmatched, and no edge in nodes.waiting, for a node
//     that is in the graph.
//   - chain covers all windows below next and no later one.
//
// Memory: the engine reads a window until Learn returns and keeps none of it. An
// [event.Outcome] belongs to the caller, until it is given to Recycle; it refers to
// ids and origins in its window. The model is shared and never written.
//
// An Engine is used by one goroutine at a time.
type Engine struct {
	base
	scorer    *scorer
	observers []observer
	lessons   *lessons
	stage     stage
	entered   entered          // the memory of base.now
	recycled  []event.Labelled // from Recycle, for the next outcome; nil if there is none
}

// New returns an engine whose next window is 0, with an empty graph and the
// posterior (M*, Σ*) that Phase 1 trained. It fails if cfg is invalid, or if it asks
// for something that the model does not support, such as a pool that it lacks.
func New(m *model.Model, cfg Config) (*Engine, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Shards > 1 {
		return nil, fmt.Errorf("shards %d: an engine has the whole graph, give 1", cfg.Shards)
	}
	e := &Engine{}
	graph := gnn.NewGraph(m.Encoder, cfg.graphOptions()...)
	if cfg.servesPool(m) {
		p, err := newPooled(m, cfg, graph)
		if err != nil {
			return nil, err
		}
		e.assemble(m, cfg, graph, p)
		e.nodes.Follow(p)
	} else {
		p := newPaper(m, cfg)
		e.assemble(m, cfg, graph, p)
		if cfg.Fallback >= 0 {
			e.observers = append(e.observers, &fallback{threshold: cfg.Fallback, heads: p, pending: e.pending})
		}
	}
	if cfg.Coverage.Target > 0 {
		s, err := newSets(cfg.Coverage, m, e.pending, e.scorer)
		if err != nil {
			return nil, err
		}
		e.observers = append(e.observers, s)
	}
	if cfg.Rescore.on() {
		r := newRescoring(cfg, e.predictor, e.scorer)
		e.observers = append(e.observers, r)
		e.nodes.Follow(r)
	}
	if !cfg.Unwatched {
		d, err := newDetectors(m, &e.predictor.rows)
		if err != nil {
			return nil, err
		}
		e.observers = append(e.observers, d)
	}
	return e, nil
}

// assemble creates the parts that every engine has.
func (e *Engine) assemble(m *model.Model, cfg Config, graph *gnn.Graph, s serving) {
	e.base = newBase(m, cfg, everything{}, 1, graph, s)
	e.lessons = newLessons(s, cfg)
	e.scorer = newScorer(m, cfg, s, s.width(), &e.labels.batch)
}

// Posterior returns the posterior of the online head, now and as trained. The online
// head is the paper's, or the first such head of a pool; for a pool without one, both
// results are equal. They belong to the engine: the caller must not write to them,
// and now changes with every window.
func (e *Engine) Posterior() (now, trained *posterior.Gaussian) {
	e.lessons.settle()
	return e.serving.online().Posterior(), &e.model.Prior
}

// Summaries returns the prequential scores so far: those of every head, in the order
// of [event.Outcome.Heads], and, if nodes are predicted again, those of the last
// published predictions, under the name "revised".
func (e *Engine) Summaries() []Summary { return e.scorer.all() }

// Pool returns the pool of heads, nil if the paper's heads serve. It belongs to the engine.
func (e *Engine) Pool() *pool.Pool {
	e.lessons.settle()
	return e.serving.poolOfHeads()
}

// Pooled returns the weights and other learned state of the pool, or nil if the
// paper's heads serve.
func (e *Engine) Pooled() *Pooled {
	e.lessons.settle()
	return e.serving.learned()
}

// stage is the method of a window that must be called next.
type stage uint8

const (
	entering stage = iota
	serves
	learning
)

func (s stage) String() string { return [...]string{"Enter", "Serve", "Learn"}[s] }

// turn panics unless s is the next stage, and advances to the one after it.
func (e *Engine) turn(s stage) {
	if e.stage != s {
		panic(fmt.Sprintf("pipeline: %v called, but %v is next", s, e.stage))
	}
	e.stage = (s + 1) % 3
}

// Step processes the next window: [Engine.Enter], [Engine.Serve], [Engine.Learn]. It
// returns the outcome, which belongs to the caller.
func (e *Engine) Step(w *event.Window) *event.Outcome {
	e.Enter(w)
	e.Serve()
	return e.Learn()
}

// Enter begins window w, whose number must be Next. It applies all node events to the
// graph, giving G_t, and then encodes the arrivals, z_v = g(x_v, G_t), so that the
// order of nodes within a window does not matter to their neighbours. The caller must
// not change w until Learn has returned.
func (e *Engine) Enter(w *event.Window) {
	e.turn(entering)
	e.enter(w, &e.entered)
	e.entered.out.Labelled, e.recycled = e.recycled, nil
	e.predictor.embedded(e.nodes.Embeddings())
}

// Serve predicts the arrivals with every head. Nothing of the window has been learned
// yet, so predictions may be published before Learn is called. The slice that Serve
// returns is the Predictions of the outcome that Learn will return.
func (e *Engine) Serve() []event.Prediction {
	e.turn(serves)
	e.lessons.settle()
	x := e.now
	e.predictor.await(x)
	e.predictor.serve(x, func(outputs []float32, split []posterior.Uncertainty) {
		e.serving.serve(e.nodes.ToPredict(), e.predictor.rows, outputs, split)
	})
	for _, o := range e.observers {
		o.served(x)
	}
	if e.cfg.LearnLag > 0 {
		e.lessons.begin(e.next)
	}
	return x.out.Predictions
}

// Learn ends the window. It joins labels to the predictions served for their nodes,
// scores these predictions, and only then updates the heads (the paper's by Algorithm
// 1): scores are prequential. If no label is joined, the heads do not change; in
// particular the past is not discounted by λ. With [Config.LearnLag] the heads learn the
// labels later.
func (e *Engine) Learn() *event.Outcome {
	e.turn(learning)
	x := e.now
	w, out := x.window, x.out
	e.labels.join(x)
	e.labels.collect(x, e.observers)
	e.scorer.score(out)
	for _, o := range e.observers {
		o.scored(out)
	}
	if b := &e.labels.batch; len(b.labels) > 0 {
		e.lessons.put(e.next, func(to *pool.Batch) { e.serving.prepare(b, to) })
	}
	if e.cfg.LearnLag == 0 {
		e.lessons.begin(e.next)
		e.lessons.settle()
	}
	e.lessons.report(out)
	e.end()
	e.pending.releaseRemoved()
	x.forget()
	e.extendChain(out)
	for i := range w.Commands {
		decline(&w.Commands[i], out)
	}
	return out
}

// Recycle gives an outcome of this engine back, so that the next ones reuse the memory
// of its predictions, labels and scores. The caller must not read it afterwards.
func (e *Engine) Recycle(out *event.Outcome) {
	e.predictor.recycle(out)
	e.scorer.recycle(out)
	if cap(out.Labelled) > cap(e.recycled) {
		e.recycled = out.Labelled[:0]
	}
}
