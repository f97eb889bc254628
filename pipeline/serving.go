package pipeline

import (
	"crypto/sha256"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// serving is the model's predictive half: [paper], the paper's two heads, or [pooled],
// the model's pool of heads. The engine chooses one in [New] and never asks which.
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
// learn and hash are called one after the other for each batch, at any time when no method
// but heads, probabilities and prepare is called: [lessons] may run them beside the engine.
// So these three use neither the heads' state nor scratch memory of the others.
//
// Slices that are passed in belong to the caller and are not kept.
type serving interface {
	learner
	// servingHead is the index in heads of the head whose probabilities are served.
	servingHead() uint8
	// width is the number of outputs per node.
	width() int
	// serve predicts n nodes, given their embeddings (n × d_e) and temperatures. It
	// writes n × width outputs, and to split the n uncertainties of the serving head.
	serve(nodes []int32, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty)
	// predictOne predicts a single node as serve would, on the graph that v describes.
	// rows has its one embedding; width outputs are written.
	predictOne(v view, rows posterior.Rows, outputs []float32) posterior.Uncertainty
	// probabilities converts outputs, C for a head, to probabilities.
	probabilities(dst, outputs []float32)
	// prepare writes what the heads learn from a batch to another one, whose memory it
	// reuses. The result depends on the graph as it is now, and on nothing afterwards.
	prepare(b *batch, to *pool.Batch)

	// part declares state other than that of heads.
	part
	// outputsName is the name of the tensor of pending outputs in a snapshot.
	outputsName() string
	// valid reports whether a restored number may be an output.
	valid(output float32) bool
}

// learner is the heads of a serving as far as they learn. It knows no graph: its state is
// a function of the batches learned.
type learner interface {
	// heads returns the classifiers that are scored, in the order of
	// [event.Outcome.Heads]. It must not be changed.
	heads() []head
	// layout is that of prepared batches. LogProbs is the number of outputs of a node that
	// scores need: C for each head, its first ones.
	layout() pool.Layout
	// learn updates the heads by a prepared batch of at least one label. It writes each
	// head's clipped entries and step norm to heads.
	learn(b *pool.Batch, heads []event.Head)
	// hash returns the hash of the heads' state after learn; last is the one before.
	hash(last event.Hash) event.Hash
	// matches reports whether restored heads may have this hash.
	matches(hash event.Hash) bool
	// online returns the paper's online head: the one that learns, or the first such
	// head of a pool. For a pool without one it is a head that stays as trained.
	online() *posterior.Online
	// poolOfHeads returns the pool, nil for the paper's heads.
	poolOfHeads() *pool.Pool
	// learned returns the learned state of a pool, nil for the paper's heads.
	learned() *Pooled
}

// head is a classifier with a name and a state that can be saved.
type head interface {
	Name() string
	Version() uint64 // number of batches learned
	AppendState(b []byte) []byte
	SetState(b []byte) error
}

// view describes the node that predictOne predicts: a node of the graph as it is, one
// without one of its edges, or a node that has not arrived.
type view struct {
	node    int32 // its number, none if it has not arrived
	without int32 // the neighbour whose edge is left out, or none

	// Of a node that has not arrived:
	features   gnn.Vector // as received
	neighbours []int32    // distinct
}

// hashOf returns the hash of the whole state of heads. b is scratch memory; hashOf
// returns it for the next call.
func hashOf(heads []head, b []byte) (event.Hash, []byte) {
	b = b[:0]
	for _, h := range heads {
		b = h.AppendState(b)
	}
	return sha256.Sum256(b), b
}
