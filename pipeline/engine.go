package pipeline

import (
	"crypto/sha256"
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
)

// Version changes whenever the same windows would give other bits, so that a
// ledger is never replayed by an engine that cannot agree with it.
const Version = 4

// The bounds on what waits hold in bytes, too: ids may be a kilobyte long, and a
// label's record, which is kept for its dead letter, megabytes. These are what
// the entries may take on average.
const (
	waitingEdgeBytes  = 256     // of the id that an edge names
	waitingLabelBytes = 1 << 10 // of a label's record
)

// Config bounds what the engine keeps and says how it predicts and learns. It
// is part of what the outcome depends on: a ledger is bound to one Config.
type Config struct {
	// Update holds λ, η, β, δ and ε of the paper's Proposition 1.
	Update posterior.Config
	// Samples is the number of posterior samples behind the uncertainty split.
	// Zero means 16.
	Samples int
	// Bins is the number of equal-mass bins of a window's ECE. Zero means 10.
	Bins int
	// MaxPending bounds the served nodes that are kept for their label; beyond
	// it the oldest is forgotten. Zero means 262,144.
	MaxPending int
	// MaxWaitingLabels bounds the labels kept for a node that has not come;
	// beyond it, or where their records take more than 1 KiB each on average,
	// the oldest is refused as an orphan. Zero means 65,536.
	MaxWaitingLabels int
	// MaxWaitingEdges bounds the edges kept for a node that has not come;
	// beyond it, or where the ids waited for take more than 256 bytes an edge
	// on average, the oldest are dropped. Zero means 262,144.
	MaxWaitingEdges int
	// BFloat16 keeps the graph's rows in half the memory, see [gnn.BFloat16].
	BFloat16 bool
	// Workers is how many goroutines share a window's products, with the same
	// bits: a ledger is not bound to it. Zero means 1.
	Workers int
}

// String is the canonical form that the ledger binds.
func (c Config) String() string {
	u := c.Update
	rows := ""
	if c.BFloat16 {
		rows = " rows=bfloat16"
	}
	return fmt.Sprintf("engine=%d lambda=%g eta=%g beta=%g clip=%g epsilon=%g gradient=%v samples=%d bins=%d pending=%d waiting-labels=%d waiting-edges=%d",
		Version, u.Lambda, u.Eta, u.Beta, u.Clip, u.Epsilon, u.Gradient, c.Samples, c.Bins, c.MaxPending, c.MaxWaitingLabels, c.MaxWaitingEdges) + rows
}

// WithDefaults fills what is zero and validates the rest.
func (c Config) WithDefaults() (Config, error) {
	if c.Update == (posterior.Config{}) {
		c.Update = posterior.DefaultConfig()
	}
	for _, d := range []struct {
		name  string
		value *int
		def   int
	}{
		{"samples", &c.Samples, 16},
		{"bins", &c.Bins, 10},
		{"max-pending", &c.MaxPending, 1 << 18},
		{"max-waiting-labels", &c.MaxWaitingLabels, 1 << 16},
		{"max-waiting-edges", &c.MaxWaitingEdges, 1 << 18},
		{"workers", &c.Workers, 1},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < 0 {
			return c, fmt.Errorf("%s %d is negative: give a positive number, or 0 for the default of %d", d.name, *d.value, d.def)
		}
	}
	return c, c.Update.Validate()
}

func (c Config) graphOptions() []gnn.Option {
	options := []gnn.Option{gnn.Workers(c.Workers)}
	if c.BFloat16 {
		options = append(options, gnn.BFloat16())
	}
	return options
}

// Engine is the state machine. Its state is the graph, what waits, and the
// pool of heads.
type Engine struct {
	model *model.Model
	cfg   Config

	graph   *gnn.Graph
	roster  *roster
	fate    []fate // by node number
	pending *pending
	early   *queue[event.ID, early] // labels whose node has not come
	// earlyBytes is the size of the records in early.
	earlyBytes int

	// The pool. heads[0] serves.
	heads       []posterior.Head
	serving     *posterior.Online
	uncertainty *posterior.Predictive
	summary     []Summary

	next      int64 // number of the next window
	posterior event.Hash
	chain     event.Hash

	// What a step works with and the next reuses: the arrivals …
	accepted []accepted
	features []gnn.Vector          // of the new nodes, normalised
	again    map[int32]*event.Node // the last event of each node that was there
	update   gnn.Vector            // of one of these
	links    []int32
	asked    []int32        // numbers of the arrivals to serve
	arrived  posterior.Rows // their embeddings and temperatures
	probs    []float64
	split    []posterior.Uncertainty
	row      []float32 // one node's probabilities, heads × classes
	// … and the batch of labels.
	labelled posterior.Rows // as served
	labels   []int32
	said     []float32 // labels × heads × classes, as served
	state    []byte

	snapshot *Snapshot // under way, or nil
	taken    taken     // with room from the last one
}

// fate is what is known of a node beside its place in the graph.
type fate struct {
	label   int32 // class told, none before
	context bool
}

// New makes an engine at window 0: an empty graph and the posterior that
// Phase 1 left (M*, Σ*).
func New(m *model.Model, cfg Config) (*Engine, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	online := posterior.NewOnline(m.Prior, cfg.Update)
	e := &Engine{
		model:       m,
		cfg:         cfg,
		graph:       gnn.NewGraph(m.Encoder, cfg.graphOptions()...),
		roster:      newRoster(cfg.MaxWaitingEdges),
		early:       newQueue[event.ID, early](),
		heads:       []posterior.Head{online, posterior.NewStatic(m.Prior)},
		serving:     online,
		uncertainty: posterior.NewPredictive(m.Prior.Classes, cfg.Samples),
		again:       make(map[int32]*event.Node),
	}
	e.pending = newPending(m.Prior.Dim, len(e.heads)*m.Prior.Classes, cfg.MaxPending)
	for _, h := range e.heads {
		e.summary = append(e.summary, Summary{Head: h.Name()})
	}
	e.hashPosterior()
	return e, nil
}

// Config returns the settings in force, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Next returns the number of the next window.
func (e *Engine) Next() int64 { return e.next }

// Chain returns the hash of everything served and learned so far.
func (e *Engine) Chain() event.Hash { return e.chain }

// Posterior returns the posterior that serves and the one that training left.
// They are the engine's own: they must not be written, and the first changes with
// Step.
func (e *Engine) Posterior() (now, trained *posterior.Gaussian) {
	return e.serving.Posterior(), &e.model.Prior
}

// Summaries returns the prequential scores so far, one per head, the serving
// head first.
func (e *Engine) Summaries() []Summary { return append([]Summary(nil), e.summary...) }

func (e *Engine) hashPosterior() {
	b := e.state[:0]
	for _, h := range e.heads {
		b = h.AppendState(b)
	}
	e.state = b
	e.posterior = sha256.Sum256(b)
}
