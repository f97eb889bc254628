package pipeline

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
)

// Version changes whenever the same windows would give other bits, so that a
// ledger is never replayed by an engine that cannot agree with it.
const Version = 5

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
	// Head says what serves: [HeadPool], [HeadPaper], or, empty, the model's pool
	// if it has one and else the paper's head.
	Head string
	// Update holds λ, η, β, δ and ε of the paper's Proposition 1, for the paper's
	// head: those of a pool's heads are the model's.
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
	// Fallback is θ, in nats: the static head serves in place of the online one
	// where it is ahead by so much log likelihood, until it no longer is. Zero
	// means 20, a negative number that the online head always serves.
	Fallback float64
	// Coverage asks for sets of classes; none when it is zero.
	Coverage Coverage
	// Unwatched leaves out the drift detectors. They have no part in what is
	// served: a ledger is not bound to it.
	Unwatched bool
	// Rescore says when nodes are predicted again.
	Rescore Rescoring
	// Reserve is for how many nodes memory is taken at the start, and not while they
	// come, which where a system gives it slowly is longer than all else that an
	// arrival takes. A ledger is not bound to it.
	Reserve int
	// Workers is how many goroutines share a window's products, with the same
	// bits: a ledger is not bound to it. Zero means 1.
	Workers int
}

// String is the canonical form that the ledger binds.
func (c Config) String() string {
	u := c.Update
	rows := "" // and what else is off by default
	if c.BFloat16 {
		rows = " rows=bfloat16"
	}
	if c.Head == HeadPaper {
		rows += " head=paper"
	}
	if r := c.Rescore; r.on() {
		rows += fmt.Sprintf(" rescore-after=%d rescore-confidence=%g rescore-limit=%d", r.After, r.Confidence, r.Limit)
	}
	if u.Walk > 0 {
		rows += fmt.Sprintf(" walk=%g", u.Walk)
	}
	return fmt.Sprintf("engine=%d lambda=%g eta=%g beta=%g clip=%g epsilon=%g gradient=%v samples=%d bins=%d pending=%d waiting-labels=%d waiting-edges=%d",
		Version, u.Lambda, u.Eta, u.Beta, u.Clip, u.Epsilon, u.Gradient, c.Samples, c.Bins, c.MaxPending, c.MaxWaitingLabels, c.MaxWaitingEdges) + rows + newFallback(c).String() + c.Coverage.String()
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
		{"reserve", &c.Reserve, 0},
		{"rescore-after", &c.Rescore.After, 0},
		{"rescore-limit", &c.Rescore.Limit, 100},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < 0 {
			return c, fmt.Errorf("%s %d is negative: give a positive number, or 0 for the default of %d", d.name, *d.value, d.def)
		}
	}
	if p := c.Rescore.Confidence; !(p >= 0 && p < 1) {
		return c, fmt.Errorf("rescore-confidence %v: give a probability below 1, or 0 for none", p)
	}
	if c.Fallback == 0 {
		c.Fallback = defaultFallback
	}
	if math.IsNaN(c.Fallback) {
		return c, errors.New("fallback NaN: give a number of nats such as 20, or a negative one for none")
	}
	return c, errors.Join(c.Update.Validate(), c.Coverage.validate())
}

func (c Config) graphOptions() []gnn.Option {
	options := []gnn.Option{gnn.Workers(c.Workers), gnn.Reserve(c.Reserve)}
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

	graph     *gnn.Graph
	roster    *roster
	fate      chunked[fate] // by node number
	context   marks         // of fate's nodes, those that are not asked about
	gone      departed
	pending   *pending
	rescoring *rescoring              // nil where nothing is predicted again
	early     *queue[event.ID, early] // labels whose node has not come
	// earlyBytes is the size of the records in early.
	earlyBytes int

	// The heads, of which the first serves: the paper's, or a pool and its own.
	heads       []head
	paper       []posterior.Head
	pooled      *pooled           // nil unless it serves
	online      *posterior.Online // the paper's head, or the first such head of the pool
	uncertainty *posterior.Predictive
	summary     []Summary
	width       int       // numbers kept of a node that was served
	fallback    *fallback // nil where there is none
	drift       *watch    // nil when nothing watches
	sets        *sets     // nil when none are asked for

	next      int64 // number of the next window
	posterior event.Hash
	chain     event.Hash

	// What a step works with and the next reuses: the arrivals …
	accepted []accepted
	features []gnn.Vector          // of the new nodes, normalised
	again    map[int32]*event.Node // the last event of each node that was there
	update   gnn.Vector            // of one of these
	named    []int32               // numbers of the neighbours that the accepted name
	links    []int32               // those whom they are linked to, one after the other …
	near     [][]int32             // … and of each
	asked    []int32               // numbers of the arrivals to serve
	arrived  posterior.Rows        // their embeddings and temperatures
	embedded bool                  // the embeddings are there
	probs    []float64
	split    []posterior.Uncertainty
	row      []float32 // one node's probabilities
	kept     []float32 // what is kept of each, width numbers
	// … and the batch of labels.
	labelled posterior.Rows // as they were served
	labels   []int32
	said     []float32 // labels × width, as served
	by       []uint8   // whose were served, by label
	state    []byte

	spare    spare     // for the next outcome
	snapshot *Snapshot // under way, or nil
	taken    taken     // with room from the last one
}

// fate is what is known of a node beside its place in the graph.
type fate struct {
	label int32 // class told, none before
	gone  bool  // it left, and no other has its number
	waits bool  // edges that it named may wait, see [roster.withdraw]
}

// marks are a bit for each node, by number, so that those of a million nodes lie
// in a near cache: whoever has a label is asked about all of its neighbours.
type marks []uint64

// set sets the bit of node v, which may be a node more than there were.
func (m *marks) set(v int32, on bool) {
	if int(v>>6) == len(*m) {
		*m = append(*m, 0)
	}
	bit := uint64(1) << (v & 63)
	(*m)[v>>6] &^= bit
	if on {
		(*m)[v>>6] |= bit
	}
}

// at is 1 for a node that is marked and 0 for one that is not.
func (m marks) at(v int32) int { return int(m[v>>6] >> (v & 63) & 1) }

func (m marks) has(v int32) bool { return m.at(v) == 1 }

// head is a classifier as the engine's books know it.
type head interface {
	Name() string
	Version() uint64 // updates taken
	AppendState(b []byte) []byte
	SetState(b []byte) error
}

// New makes an engine at window 0: an empty graph and the posterior that
// Phase 1 left (M*, Σ*).
func New(m *model.Model, cfg Config) (*Engine, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{
		model:       m,
		cfg:         cfg,
		graph:       gnn.NewGraph(m.Encoder, cfg.graphOptions()...),
		roster:      newRoster(cfg.MaxWaitingEdges),
		early:       newQueue[event.ID, early](),
		uncertainty: posterior.NewPredictive(m.Prior.Classes, cfg.Samples),
		again:       make(map[int32]*event.Node),
	}
	if err := e.setServing(); err != nil {
		return nil, err
	}
	e.pending = newPending(m.Prior.Dim, e.width, cfg.MaxPending)
	e.pending.reserve(cfg.Reserve)
	e.gone = newDeparted()
	e.rescoring = newRescoring(cfg.Rescore, m.Prior.Classes)
	if e.pooled == nil { // a pool does it by its weights
		e.fallback = newFallback(cfg)
	}
	for _, h := range e.heads {
		e.summary = append(e.summary, Summary{Head: h.Name()})
	}
	if !cfg.Unwatched {
		if e.drift, err = newWatch(m.Prior.Dim, m.Prior.Classes); err != nil {
			return nil, err
		}
	}
	if cfg.Coverage.Target > 0 {
		if e.sets, err = newSets(cfg.Coverage, m.Prior.Dim, m.Prior.Classes); err != nil {
			return nil, err
		}
	}
	e.startHash()
	return e, nil
}

// setServing makes the heads that the settings ask for.
func (e *Engine) setServing() (err error) {
	m := e.model
	head, err := servable(m, e.cfg.Head)
	if err != nil {
		return err
	}
	if head == HeadPool {
		if e.pooled, err = newPooled(m, e.graph); err != nil {
			return err
		}
		e.heads, e.width = e.pooled.heads(), e.pooled.width()
		e.online = e.pooled.online(m, e.cfg.Update)
		return nil
	}
	e.online = posterior.NewOnline(m.Prior, e.cfg.Update)
	e.paper = []posterior.Head{e.online, posterior.NewStatic(m.Prior)}
	for _, h := range e.paper {
		e.heads = append(e.heads, h)
	}
	e.width = len(e.heads) * m.Prior.Classes
	return nil
}

// Config returns the settings in force, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Model returns the model that it was made of.
func (e *Engine) Model() *model.Model { return e.model }

// Next returns the number of the next window.
func (e *Engine) Next() int64 { return e.next }

// Chain returns the hash of everything served and learned so far.
func (e *Engine) Chain() event.Hash { return e.chain }

// Posterior returns the posterior of the online head, which serves or is one of
// the pool's, and the one that training left; a pool without such a head stays
// there.
// They are the engine's own: they must not be written, and the first changes with
// Step.
func (e *Engine) Posterior() (now, trained *posterior.Gaussian) {
	return e.online.Posterior(), &e.model.Prior
}

// Summaries returns the prequential scores so far, one per head, the serving
// head first; and, where nodes are predicted again, last of what was last said.
func (e *Engine) Summaries() []Summary {
	all := append([]Summary(nil), e.summary...)
	if e.rescoring != nil {
		all = append(all, e.rescoring.summary)
	}
	return all
}

// startHash is the hash of the state of all heads.
func (e *Engine) startHash() {
	b := e.state[:0]
	for _, h := range e.heads {
		b = h.AppendState(b)
	}
	e.state = b
	e.posterior = sha256.Sum256(b)
}

// hashPosterior brings the hash up to date after a batch. That of a pool is of
// the last one and of what the batch changed: its state may be large.
func (e *Engine) hashPosterior() {
	if e.pooled == nil {
		e.startHash()
		return
	}
	e.state = e.pooled.pool.AppendChange(append(e.state[:0], e.posterior[:]...))
	e.posterior = sha256.Sum256(e.state)
}
