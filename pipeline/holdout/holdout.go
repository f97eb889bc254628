// Package holdout learns from the training nodes how a pool of heads weighs them when the
// stream begins.
//
// The heads' fit to the nodes that they were trained on says nothing of how they do on new
// ones. So a fifth of the training nodes is held out: the latest where nodes have an order,
// or else a part of each class. A model that is trained on the others streams them: they
// are served and then learned, batch after batch, as in any stream. Where training nodes are few, each
// fifth is held out in turn, by a model of its own, and each pool begins with what the one before it learned.
// What the last has learned of weights and experts is what the pool of the model proper, which is
// trained on all nodes, starts with ([pool.Start]): moved towards the defaults by the number
// of nodes held out,
//
//	w = (n w_learned + n₀ w_default)/(n + n₀),
//
// as few nodes say little, and heads that are fitted to four fifths of few are not those
// that are fitted to all.
package holdout

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
)

// What is trained, as a progress says.
const (
	rehearsal = "model that weighs the heads" // on four fifths of the nodes
	Model     = "model"                       // on all
)

const (
	// heldShare is the share of the training nodes that is held out, 1/folds.
	heldShare = 0.2
	folds     = 5
	// few is the number of training nodes up to which each fold is held out.
	few = 300
	// From fewest nodes held out on they say something, unless there are fewer than least in all: heads that are
	// fitted to four fifths of them are others.
	fewest = 20
	least  = 60
	// trust is n₀, the number of nodes held out that count as much as the defaults. It was
	// chosen on Cora, on the web graphs and on generated graphs of 100 to 1800 training
	// nodes; docs/adr/0017-pool-of-blocks.md has the figures.
	trust = 30
)

// Held is what is held out.
type Held struct {
	parts []part
	nodes int // in all parts
}

// part is a model of the training nodes that are not held out, and the stream of those that
// are.
type part struct {
	model   *model.Model // without a pool
	fit     model.Data   // what it was trained on
	context event.Window // nodes of fit, with their labels
	stream  []window
}

// window is a batch of nodes and then their labels.
type window struct {
	nodes  []event.Node
	labels []event.Label
}

// Train trains a model as [model.Train] does, after one on a part of the nodes from which a pool learns its start. progress,
// unless nil, is called after every epoch of either; scored, unless nil, with the outcomes of the stream of nodes held out, of
// which there is none without a pool or of few nodes. They are valid during the call.
func Train(
	ctx context.Context, d model.Data, cfg model.Config, progress func(what string, p train.Progress), scored func(*event.Outcome),
) (*model.Model, error) {
	report := func(what string) func(train.Progress) {
		return func(p train.Progress) {
			if progress != nil {
				progress(what, p)
			}
		}
	}
	if cfg.Pool {
		h, err := New(ctx, d, cfg, report(rehearsal))
		if err != nil {
			return nil, err
		}
		if cfg.Start, err = h.start(model.DefaultPool(d), scored); err != nil {
			return nil, err
		}
	}
	return model.Train(ctx, d, cfg, report(Model))
}

// New holds out parts of the training nodes and trains models on the others. It returns
// nil if there are too few nodes to hold any out.
func New(ctx context.Context, d model.Data, cfg model.Config, progress func(train.Progress)) (*Held, error) {
	h := &Held{}
	cfg.Pool, cfg.Start = false, nil
	d.IDs = nil // those of the streams are others
	splits := split(d, cfg.Seed)
	for _, s := range splits {
		h.nodes += len(s.held)
	}
	if h.nodes < fewest || len(d.Labels) < least {
		return nil, nil
	}
	for _, s := range splits {
		p, err := newPart(ctx, d, s, cfg, progress)
		if err != nil {
			return nil, err
		}
		h.parts = append(h.parts, p)
	}
	return h, nil
}

func newPart(ctx context.Context, d model.Data, s sides, cfg model.Config, progress func(train.Progress)) (p part, err error) {
	p.fit = d.Part(s.fit)
	if p.model, err = model.Train(ctx, p.fit, cfg, progress); err != nil {
		return p, err
	}
	if d.Graphs != nil { // their vectors are the features of nodes
		d = p.model.ReadOut(d)
		p.fit, p.model.Readout = d.Part(s.fit), nil
	}
	p.cut(d, s.fit, s.held)
	return p, nil
}

// sides are the nodes to fit, and those to hold out in the order in which they stream.
type sides struct{ fit, held []int32 }

// split returns the nodes to fit and to hold out: once, or where nodes are few once for each fold, the latest last.
func split(d model.Data, seed uint64) (list []sides) {
	rows := len(d.Labels)
	rng := rand.New(rand.NewPCG(seed, 0x68656c64)) // "held" in ASCII
	if !d.Ordered && rows > few {
		fit, held := d.HoldOut(heldShare, seed)
		rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		return []sides{{fit, held}}
	}
	order, fold, first := rng.Perm(rows), make([]int, rows), 0
	if d.Ordered {
		slices.Sort(order)
	}
	if rows > few {
		first = folds - 1
	}
	left := make([]int, len(d.Classes))
	for _, y := range d.Labels {
		left[y]++
	}
	for y := range left {
		left[y] -= left[y] % folds
	}
	for i, v := range order {
		switch y := d.Labels[v]; {
		case d.Ordered:
			for fold[v] < folds-1 && i >= int(float64(fold[v]+1)/folds*float64(rows)) {
				fold[v]++
			}
		case left[y] > 0:
			fold[v] = left[y] % folds
			left[y]--
		default:
			fold[v] = folds // in none, so that each has as many of a class
		}
	}
	for k := first; k < folds; k++ {
		var s sides
		for v := range fold {
			if fold[v] != k {
				s.fit = append(s.fit, int32(v))
			}
		}
		for _, v := range order {
			if fold[v] == k {
				s.held = append(s.held, int32(v))
			}
		}
		list = append(list, s)
	}
	return list
}

// cut makes windows: one of the nodes to fit, and then batches of those held out, at least
// ten where there are ten nodes. A node names its neighbours that came before it.
func (p *part) cut(d model.Data, fit, held []int32) {
	order := make([]int32, len(d.X))
	for i, v := range fit {
		order[v] = int32(i)
	}
	for i, v := range held {
		order[v] = int32(len(fit) + i)
	}
	neighbours, marks := make([][]event.ID, len(d.X)), make([][]event.Mark, len(d.X))
	for e, u := range d.Src {
		if v := d.Dst[e]; order[u] < order[v] {
			neighbours[v] = append(neighbours[v], event.ID{Num: int64(order[u])})
			if d.Kinds != nil {
				kind, in := d.Kinds.At(int(d.Mean[e]))
				marks[v] = append(marks[v], event.Mark{Kind: kind.Name, Weight: d.Weight[e], In: in})
			}
		}
	}
	origin := &event.Origin{}
	batch := func(nodes []int32, context bool) (w window) {
		for _, v := range nodes {
			id, x := event.ID{Num: int64(order[v])}, d.X[v]
			w.nodes = append(w.nodes, event.Node{
				Origin: origin, ID: id, Dense: x.Dense, Index: x.Index, Value: x.Value,
				Neighbours: neighbours[v], Marks: marks[v], Context: context,
			})
			w.labels = append(w.labels, event.Label{Origin: origin, Node: id, Index: d.Labels[v]})
		}
		return w
	}
	first := batch(fit, true)
	p.context = event.Window{Nodes: first.nodes, Labels: first.labels}
	size := min(fullBatch, max(len(held)/10, 1))
	for len(held) > 0 {
		n := min(size, len(held))
		p.stream = append(p.stream, batch(held[:n], false))
		held = held[n:]
	}
}

// fullBatch is the largest batch of nodes held out: the number of labels of a pool's full
// one.
const fullBatch = 50

// Start returns what a pool of that configuration starts with. If h is nil, nothing was
// learned: the start is nil, which stands for the defaults.
func (h *Held) Start(spec pool.Config) (*pool.Start, error) {
	return h.start(spec, nil)
}

func (h *Held) start(spec pool.Config, scored func(*event.Outcome)) (*pool.Start, error) {
	if h == nil {
		return nil, nil
	}
	var learned *pool.Pool
	var err error
	for i := range h.parts {
		if learned, err = h.parts[i].learn(spec, scored); err != nil {
			return nil, err
		}
		spec.Start = learned.Start(1)
	}
	return learned.Start(float64(h.nodes) / float64(h.nodes+trust)), nil
}

// learn returns a pool that has learned from the stream.
func (p *part) learn(spec pool.Config, scored func(*event.Outcome)) (*pool.Pool, error) {
	m := *p.model
	if err := m.AddPool(p.fit, spec); err != nil {
		return nil, err
	}
	e, err := pipeline.New(&m, pipeline.Config{Head: pipeline.HeadPool, Local: pipeline.Local{Unwatched: true}, Samples: 1})
	if err != nil {
		return nil, err
	}
	step := func(w event.Window) {
		w.Number = e.Next()
		out := e.Step(&w)
		if w.Number > 0 && scored != nil { // the first has what the model was trained on
			scored(out)
		}
		e.Recycle(out)
	}
	step(p.context)
	for _, w := range p.stream {
		step(event.Window{Nodes: w.nodes})
		step(event.Window{Labels: w.labels})
	}
	return e.Pool(), nil
}
