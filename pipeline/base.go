package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// base is what an [Engine] and a [Shard] have in common: a graph, the predictions served
// on it, and the labels joined to these. A shard's is a slice of the whole, see [share].
type base struct {
	model *model.Model
	cfg   Config

	nodes     *structure.Nodes
	pending   *pending
	serving   serving
	predictor *predictor
	labels    *labels

	next   int64      // number of the next window
	chain  event.Hash // of everything served and learned
	buffer []byte     // scratch of the chain

	now *entered // the window that enters, of an engine until it is learned; nil between windows

	snapshot *Snapshot // the open one, or nil
}

func newBase(m *model.Model, cfg Config, of owner, parts int, graph *gnn.Graph, s serving) base {
	b := base{model: m, cfg: cfg, serving: s, pending: newPending(m.Prior.Dim, s.width(), cfg)}
	b.pending.reserve(cfg.Reserve / parts)
	b.nodes = structure.New(structure.Config{Encoder: m.Encoder, Normalizer: m.Normalizer, Classes: len(m.Classes), MaxWaitingEdges: cfg.MaxWaitingEdges}, graph, b.pending)
	b.predictor = &predictor{model: m, nodes: b.nodes, pending: b.pending, owns: of, serving: s}
	b.labels = &labels{model: m, nodes: b.nodes, pending: b.pending, unmatched: newUnmatched(cfg.MaxWaitingLabels)}
	return b
}

// Config returns the settings, with defaults filled in.
func (e *base) Config() Config { return e.cfg }

// Model returns the model, of a shard with its slice of the encoder.
func (e *base) Model() *model.Model { return e.model }

// Next returns the number of the next window.
func (e *base) Next() int64 { return e.next }

// Chain returns the hash of everything served and learned so far, see extendChain; of a
// shard, of what it served and reported, and with which heads.
func (e *base) Chain() event.Hash { return e.chain }

// isOwn reports whether this slice predicts node v.
func (e *base) isOwn(v int32) bool { return e.predictor.owns.owns(e.nodes.ID(v)) }

// enter begins a window: it applies its node events to the graph and encodes the arrivals. x is
// what is known of the window from here on.
func (e *base) enter(w *event.Window, x *entered) {
	if w.Number != e.next {
		panic(fmt.Sprintf("pipeline: window %d, but %d is next", w.Number, e.next))
	}
	e.now = x
	x.window, x.out = w, &event.Outcome{Window: w.Number, Model: e.model.ID, Refused: append([]event.Refusal(nil), w.Refused...)}
	e.labels.prefetch(w.Labels)
	e.nodes.Enter(w.Nodes, x.out)
}

// end ends what a window changes of the structure. The caller completes the outcome.
func (e *base) end() {
	e.nodes.DropWindow()
	e.now.out.Levels = event.Levels{
		Nodes: e.nodes.Len(), Edges: e.nodes.Graph.Edges(),
		Pending: e.pending.nodes.Len(), WaitingLabels: e.labels.unmatched.queue.Len(), WaitingEdges: e.nodes.WaitingEdges(),
	}
	e.next++
	e.now = nil
}

// Err returns the first error of Config.Blocks, nil for none. After an error the state is
// lost, and outcomes are not to be used.
func (e *base) Err() error {
	if err := e.pending.rows.err; err != nil {
		return fmt.Errorf("predictions that wait for their label: %w", err)
	}
	return nil
}

// decline refuses a command that is not supported here. It is called after the chain
// is extended, since a model's chain must not depend on commands.
func decline(c *event.Command, out *event.Outcome) {
	out.Refuse(c.Origin, event.ImpossibleCommand, fmt.Sprintf("%s: nothing here can do that", c.Name))
}
