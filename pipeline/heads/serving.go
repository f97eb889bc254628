package heads

import (
	"crypto/sha256"
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// none is no node and no class.
const none = -1

// Serving is the model's predictive half: [Paper], the paper's two heads, or [Pool],
// the model's pool of heads. The engine chooses one in [pipeline.New] and never asks which.
//
// The outputs of a served node are width numbers: C for each head, in the order of
// heads, then whatever else learning needs. They stay with the pending node and come back
// in the batch that has its label, so that scores and updates use exactly what was
// served, although graph and heads have changed since.
//
// The order of calls is, in a window, serve for all arrivals at once (none if there
// are none), then predictOne for each node that is predicted again, then prepare if a
// label was joined. Between windows, predictOne and probabilities may be called; they
// change no state. heads, width, layout and outputsName never change.
//
// Learning, its parts and Learnt are called one after the other for each batch, at any time when no method
// but heads, probabilities and prepare is called: [LearnQueue] may run them beside the engine.
// So those three use neither the heads' state nor scratch memory of the others.
//
// Slices that are passed in belong to the caller and are not kept.
type Serving interface {
	// Heads returns the classifiers that are scored, in the order of
	// [event.Outcome.Heads]. It must not be changed.
	Heads() []Head
	// ServingHead is the index in heads of the head whose probabilities are served.
	ServingHead() uint8
	// Width is the number of outputs per node.
	Width() int
	// Serve predicts n nodes, given their embeddings (n × d_e) and temperatures. It
	// writes n × width outputs, and to split the n uncertainties of the serving head.
	Serve(nodes []int32, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty)
	// PredictOne predicts a single node as serve would, on the graph that v describes.
	// rows has its one embedding; width outputs are written.
	PredictOne(v View, rows posterior.Rows, outputs []float32) posterior.Uncertainty
	// PredictTrials predicts as PredictOne does on the graphs that the views describe, all at once: rows has
	// an embedding for each.
	PredictTrials(trials []View, rows posterior.Rows, outputs []float32)
	// Probabilities converts outputs, C for a head, to probabilities.
	Probabilities(dst, outputs []float32)
	// Prepare writes what the heads learn from a batch to another one, whose memory it
	// reuses. The result depends on the graph as it is now, and on nothing afterwards.
	Prepare(b *Batch, to *pool.Batch)

	// Layout is that of prepared batches. LogProbs is the number of a node's outputs that
	// are learned from.
	Layout() pool.Layout
	// Learning returns the parts of an update by a prepared batch of at least one label, each to be done
	// once. They may be done at the same time.
	Learning(b *pool.Batch) (parts []func())
	// Learnt ends an update. It writes each head's clipped entries and step norm to heads, and returns the hash of
	// the heads' state; last is the one before.
	Learnt(last event.Hash, heads []event.Head) event.Hash
	// matches reports whether restored heads may have this hash.
	matches(hash event.Hash) bool
	// Online returns the paper's online head: the one that learns, or the first such
	// head of a pool. For a pool without one it is a head that stays as trained.
	Online() *posterior.Online
	// PoolOfHeads returns the pool, nil for the paper's heads.
	PoolOfHeads() *pool.Pool
	// Learned returns the learned state of a pool, nil for the paper's heads.
	Learned() *Pooled

	// State declares state other than that of heads.
	State(s *snapshot.Schema)
	// OutputsName is the name of the tensor of pending outputs in a snapshot.
	OutputsName() string
	// Valid reports whether a restored number may be an output.
	Valid(output float32) bool
}

// Config are the settings of heads.
type Config struct {
	Update  posterior.Config // of the online head
	Samples int              // of the paper's heads, for uncertainty
	Lag     int              // windows by which labels are learned late
	Beside  beside
}

// Head is a classifier with a name and a state that can be saved.
type Head interface {
	Name() string
	Version() uint64 // number of batches learned
	AppendState(b []byte) []byte
	SetState(b []byte) error
}

// View describes the node that PredictOne predicts: a node of the graph as it is, one on trial, or a node that has not
// arrived.
type View struct {
	Node     int32       // its number, none if it has not arrived
	Features *gnn.Vector // as received, of a node that has not arrived, or in place of a node's own; or nil

	// Of a node on trial:
	Without    []int32 // neighbours whose edges are left out
	Unlabelled bool    // no label around it is known

	// Of a node that has not arrived:
	Neighbours []int32           // distinct
	Weighed    []gnn.WeighedEdge // what its edges are, see [gnn.Graph.EmbedArrival]
}

// seesAll reports whether all edges and labels around the node are there.
func (v *View) seesAll() bool { return len(v.Without) == 0 && !v.Unlabelled }

// asItIs reports whether v is a node of the graph, and nothing is on trial.
func (v *View) asItIs() bool { return v.Node != none && v.Features == nil && v.seesAll() }

// hashOf returns the hash of the whole state of heads. b is scratch memory; hashOf
// returns it for the next call.
func hashOf(heads []Head, b []byte) (event.Hash, []byte) {
	b = b[:0]
	for _, h := range heads {
		b = h.AppendState(b)
	}
	return sha256.Sum256(b), b
}

// IsFinite and isProbability report whether a restored number may be a log probability, or a
// probability.
func IsFinite(x float32) bool { return math.Abs(float64(x)) <= math.MaxFloat32 }

// IsProbability reports whether a restored number may be a probability.
func IsProbability(p float32) bool { return p >= 0 && p <= 1 }

// DeclareHeads declares the whole state of heads, which have the given hash.
func DeclareHeads(s *snapshot.Schema, l Serving, hash *event.Hash) {
	for _, h := range l.Heads() {
		snapshot.Bytes(s, "heads."+h.Name(), h)
	}
	s.Check(func() error {
		if !l.matches(*hash) {
			return snapshot.Damaged("the heads have another hash than %x", *hash)
		}
		return nil
	})
}
