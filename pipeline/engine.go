package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/snapshots"
	"github.com/gvbll/gvbll/pipeline/structure"
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
	model *model.Model
	cfg   Config

	nodes     *structure.Nodes
	pending   *serve.Pending
	serving   heads.Serving
	predictor *serve.Predictor
	labels    *serve.Labels
	scorer    *serve.Scorer
	observers serve.Observers
	asker     *parts.Asker // among the observers, nil if there is none
	actor     *parts.Actor // likewise
	cohorts   *parts.Cohorts
	queue     *heads.LearnQueue

	next     int64       // number of the next window
	chain    serve.Chain // of everything served and learned
	stage    stage
	now      *serve.Entered      // the window that is stepped, nil between windows
	entered  serve.Entered       // its memory
	snapshot *snapshots.Snapshot // the open one, or nil
	recycled []event.Labelled    // from Recycle, for the next outcome; nil if there is none
}

// New returns an engine whose next window is 0, with an empty graph and the
// posterior (M*, Σ*) that Phase 1 trained. It fails if cfg is invalid, or if it asks
// for something that the model does not support, such as a pool that it lacks.
func New(m *model.Model, cfg Config) (*Engine, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{}
	graph := gnn.NewGraph(m.Encoder, cfg.graphOptions()...)
	if cfg.servesPool(m) {
		p, err := heads.NewPool(m, cfg.heads(), graph)
		if err != nil {
			return nil, err
		}
		e.assemble(m, cfg, graph, p)
		e.nodes.Follow(p.Follower())
		if err := e.rate(); err != nil {
			return nil, err
		}
	} else if cfg.LabelRates != "" {
		return nil, fmt.Errorf("label-rates %s: the paper's head knows none: leave it out, or serve with a pool", cfg.LabelRates)
	} else {
		p := heads.NewPaper(m, cfg.heads())
		e.assemble(m, cfg, graph, p)
		if cfg.Fallback >= 0 {
			e.observers.Add(parts.NewFallback(cfg.Fallback, p, e.pending))
		}
	}
	if cfg.Coverage.Target > 0 {
		s, err := parts.NewSets(cfg.Coverage, m, e.pending, e.scorer)
		if err != nil {
			return nil, err
		}
		e.observers.Add(s.Observer())
	}
	if cfg.Act != "" {
		if e.actor, err = parts.NewActor(cfg.Act, m, e.pending); err != nil {
			return nil, err
		}
		e.observers.Add(e.actor.Observer())
	}
	if cfg.Reasons != "" {
		r, err := parts.NewReasoner(cfg.Reasons, cfg.Act, m, e.nodes, e.predictor)
		if err != nil {
			return nil, err
		}
		e.observers.Add(r.Observer())
	}
	requests := parts.NewRequests(e.nodes, e.pending, e.predictor)
	if cfg.Rescore.On() {
		r := parts.NewRescorer(cfg.Rescore, len(m.Classes), requests, e.scorer)
		e.observers.Add(r.Observer())
		e.nodes.Follow(r.Follower())
	}
	e.observers.Add(requests.Observer())
	e.nodes.Follow(requests.Follower())
	if cfg.Ask != (parts.Asking{}) {
		e.asker = parts.NewAsker(cfg.Ask, m, e.pending)
		e.observers.Add(e.asker.Observer())
	}
	if !cfg.Local.Unwatched {
		e.observers.Add(parts.NewDetectors(m, &e.predictor.Rows))
	}
	if cfg.By != "" {
		by, err := parts.ParseBy(cfg.By)
		if err != nil {
			return nil, err
		}
		if e.cohorts, err = parts.NewCohorts(by, cfg.Watches(), m, e.pending); err != nil {
			return nil, err
		}
		if by.Attribute != "" {
			e.observers.Add(e.cohorts.Observer())
		}
	}
	return e, nil
}

// rate has the pool learn with the rates of labels, if any are set.
func (e *Engine) rate() error {
	switch e.cfg.LabelRates {
	case "":
	case CountedRates:
		e.observers.Add(parts.NewCountedRates(e.queue, len(e.model.Classes)))
	default:
		by, err := e.cfg.LabelRates.Of(e.model.Classes)
		if err != nil {
			return err
		}
		e.queue.SetRates(by)
	}
	return nil
}

// assemble creates the parts that every engine has.
func (e *Engine) assemble(m *model.Model, cfg Config, graph *gnn.Graph, s heads.Serving) {
	e.model, e.cfg, e.serving = m, cfg, s
	e.pending = serve.NewPending(m.Prior.Dim, s.Width(), cfg.waiting())
	e.pending.Reserve(cfg.Local.Reserve)
	e.nodes = structure.New(cfg.structure(m), graph, e.pending)
	e.predictor = serve.NewPredictor(m, e.nodes, e.pending, s)
	e.predictor.Embeddings = cfg.Local.Embeddings
	e.labels = serve.NewLabels(e.predictor, cfg.Bounds.Labels, cfg.Labels, cfg.Reading.First)
	e.queue = heads.NewLearnQueue(s, cfg.heads())
	e.scorer = serve.NewScorer(m, cfg.Bins, s, &e.labels.Batch, cfg.Watches())
}

// Config returns the settings, with defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Model returns the model.
func (e *Engine) Model() *model.Model { return e.model }

// Next returns the number of the next window.
func (e *Engine) Next() int64 { return e.next }

// Chain returns the hash of everything served and learned so far.
func (e *Engine) Chain() event.Hash { return e.chain.Hash }

// Err returns the first error of Config.Blocks, nil for none. After an error the state is
// lost, and outcomes are not to be used.
func (e *Engine) Err() error { return e.pending.Err() }

// Posterior returns the posterior of the online head, now and as trained. The online
// head is the paper's, or the first such head of a pool; for a pool without one, both
// results are equal. They belong to the engine: the caller must not write to them,
// and now changes with every window.
func (e *Engine) Posterior() (now, trained *posterior.Gaussian) {
	e.queue.Settle()
	return e.serving.Online().Posterior(), &e.model.Prior
}

// Summaries returns the prequential scores so far: those of every head, in the order
// of [event.Outcome.Heads], and, if nodes are predicted again, those of the last
// published predictions, under the name "revised".
func (e *Engine) Summaries() []serve.Summary { return e.scorer.All() }

// Cohorts returns the scores so far by the values of an attribute, none without [Config.By]. They belong to the engine.
func (e *Engine) Cohorts() (none serve.Cohorts) {
	if e.cohorts == nil {
		return none
	}
	return e.cohorts.Scores()
}

// Pool returns the pool of heads, nil if the paper's heads serve. It belongs to the engine.
func (e *Engine) Pool() *pool.Pool {
	e.queue.Settle()
	return e.serving.PoolOfHeads()
}

// Pooled returns the weights and other learned state of the pool, or nil if the
// paper's heads serve.
func (e *Engine) Pooled() *heads.Pooled {
	e.queue.Settle()
	l := e.serving.Learned()
	if l != nil {
		l.LabelRates = e.queue.Rates()
	}
	return l
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
	if w.Number != e.next {
		panic(fmt.Sprintf("pipeline: window %d, but %d is next", w.Number, e.next))
	}
	e.now = &e.entered
	e.now.Begin(w, e.model.ID)
	e.labels.Prefetch(w.Labels)
	e.nodes.Enter(w.Nodes, e.now.Out)
	e.entered.Out.Labelled, e.recycled = e.recycled, nil
}

// embeddings returns the embeddings of the window's arrivals, n × d_e, as Enter computed them: Serve
// predicts what it finds there. They are valid until the next Enter.
func (e *Engine) embeddings() []float32 { return e.nodes.Embeddings() }

// Serve predicts the arrivals with every head. Nothing of the window has been learned
// yet, so predictions may be published before Learn is called. The slice that Serve
// returns is the Predictions of the outcome that Learn will return.
func (e *Engine) Serve() []event.Prediction {
	e.turn(serves)
	e.queue.Settle()
	x := e.now
	e.predictor.Embedded(e.embeddings())
	e.predictor.Await(x)
	e.predictor.Serve(x, func(outputs []float32, split []posterior.Uncertainty) {
		e.serving.Serve(e.nodes.ToPredict(), e.predictor.Rows, outputs, split)
	})
	e.observers.Served(x)
	if e.cfg.LearnLag > 0 {
		e.queue.Begin(e.next)
	}
	return x.Out.Predictions
}

// Learn ends the window. It joins labels to the predictions served for their nodes,
// scores these predictions, and only then updates the heads (the paper's by Algorithm
// 1): scores are prequential. If no label is joined, the heads do not change; in
// particular the past is not discounted by λ. With [Config.LearnLag] the heads learn the
// labels later.
func (e *Engine) Learn() *event.Outcome {
	e.turn(learning)
	x := e.now
	w, out := x.Window, x.Out
	e.labels.Join(x)
	e.labels.Collect(x, &e.observers)
	if b := &e.labels.Batch; !b.Empty() {
		e.queue.Put(e.next, func(to *pool.Batch) { e.serving.Prepare(b, to) })
	}
	atOnce, counted := e.cfg.LearnLag == 0, e.cfg.LabelRates == CountedRates
	if atOnce && !counted { // beside the scores, which are of what was served
		e.queue.Begin(e.next)
	}
	e.scorer.Score(out)
	e.observers.Scored(out)
	if atOnce && counted { // with the rates that this window has counted
		e.queue.Begin(e.next)
	}
	e.nodes.DropWindow()
	e.labels.Levels(out)
	if atOnce {
		e.queue.Settle()
	}
	e.queue.Report(out)
	e.next++
	e.now = nil
	e.pending.Release()
	x.Forget()
	e.chain.Extend(out)
	for i := range w.Commands {
		out.Decline(&w.Commands[i])
	}
	return out
}

// Recycle gives an outcome of this engine back, so that the next ones reuse the memory
// of its predictions, labels and scores. The caller must not read it afterwards.
func (e *Engine) Recycle(out *event.Outcome) {
	e.predictor.Recycle(out)
	e.scorer.Recycle(out)
	if cap(out.Labelled) > cap(e.recycled) {
		e.recycled = out.Labelled[:0]
	}
}
