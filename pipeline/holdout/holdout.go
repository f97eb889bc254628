// Package holdout learns from the training nodes how a pool of heads weighs them when the
// stream begins.
//
// The heads' fit to the nodes that they were trained on says nothing of how they do on new
// ones. So a fifth of the training nodes is held out: the latest where nodes have an order,
// or else a part of each class. A model that is trained on the others streams them: they
// are served and then learned, batch after batch, as in any stream. What its pool has
// learned by then of weights and experts is what the pool of the model proper, which is
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
	// heldShare is the share of the training nodes that is held out.
	heldShare = 0.2
	// fewest is the number of nodes held out from which on they say something, and their
	// training is worth its time.
	fewest = 20
	// trust is n₀, the number of nodes held out that count as much as the defaults. It was
	// chosen on Cora, on the web graphs and on generated graphs of 100 to 1800 training
	// nodes; docs/adr/0017-pool-of-blocks.md has the figures.
	trust = 30
)

// Held is a model of the training nodes that are not held out, and the stream of those that
// are.
type Held struct {
	model   *model.Model // without a pool
	fit     model.Data   // what it was trained on
	nodes   int          // held out
	context event.Window // nodes of fit, with their labels
	stream  []window
}

// window is a batch of nodes and then their labels.
type window struct {
	nodes  []event.Node
	labels []event.Label
}

// Train trains a model as [model.Train] does, after one on a part of the nodes from which a
// pool learns its start. progress, unless nil, is called after every epoch of either.
func Train(ctx context.Context, d model.Data, cfg model.Config, progress func(what string, p train.Progress)) (*model.Model, error) {
	return TrainScored(ctx, d, cfg, progress, nil)
}

// TrainScored is Train that shows the outcomes of the stream of nodes held out, of which there is none without a pool or of few
// nodes. They are valid during the call.
func TrainScored(
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

// New holds out a part of the training nodes and trains a model on the others. It returns
// nil if there are too few nodes to hold any out.
func New(ctx context.Context, d model.Data, cfg model.Config, progress func(train.Progress)) (*Held, error) {
	fit, held := split(d, cfg.Seed)
	if len(held) < fewest {
		return nil, nil
	}
	cfg.Pool, cfg.Start = false, nil
	d.IDs = nil // those of the stream below are others
	h := &Held{fit: d.Part(fit), nodes: len(held)}
	var err error
	if h.model, err = model.Train(ctx, h.fit, cfg, progress); err != nil {
		return nil, err
	}
	if d.Graphs != nil { // their vectors are the features of nodes
		d = h.model.ReadOut(d)
		h.fit, h.model.Readout = d.Part(fit), nil
	}
	h.cut(d, fit, held)
	return h, nil
}

// split returns the nodes to fit, and those to hold out in the order in which they stream.
func split(d model.Data, seed uint64) (fit, held []int32) {
	if d.Ordered {
		n := int32(float64((1 - heldShare) * float64(len(d.Labels))))
		for v := range int32(len(d.Labels)) {
			if v < n {
				fit = append(fit, v)
			} else {
				held = append(held, v)
			}
		}
		return fit, held
	}
	fit, held = d.HoldOut(heldShare, seed)
	rng := rand.New(rand.NewPCG(seed, 0x68656c64)) // "held" in ASCII
	rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	return fit, held
}

// cut makes windows: one of the nodes to fit, and then batches of those held out, at least
// ten where there are ten nodes. A node names its neighbours that came before it.
func (h *Held) cut(d model.Data, fit, held []int32) {
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
	h.context = event.Window{Nodes: first.nodes, Labels: first.labels}
	size := min(fullBatch, max(len(held)/10, 1))
	for len(held) > 0 {
		n := min(size, len(held))
		h.stream = append(h.stream, batch(held[:n], false))
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
	m := *h.model
	if err := m.AddPool(h.fit, spec); err != nil {
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
	step(h.context)
	for _, w := range h.stream {
		step(event.Window{Nodes: w.nodes})
		step(event.Window{Labels: w.labels})
	}
	return e.Pool().Start(float64(h.nodes) / float64(h.nodes+trust)), nil
}
