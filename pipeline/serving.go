package pipeline

import (
	"crypto/sha256"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
)

// serving is what predicts and learns: the paper's two heads ([paper]) or the
// model's pool ([pooled]). The engine chooses one when it is made, and from there
// on does not know which it is.
//
// Of every served node it keeps width numbers until the label comes: C numbers for
// each head, in the order of heads, and perhaps more behind them.
type serving interface {
	// heads are the classifiers that are scored. The one in place by serves.
	heads() []head
	by() uint8
	width() int
	// serve predicts nodes with these embeddings and temperatures. It writes width
	// numbers of each node to kept, and the uncertainty of what is served to split.
	serve(nodes []int32, rows posterior.Rows, kept []float32, split []posterior.Uncertainty)
	// suppose predicts one node as the view has it, whose embedding is rows' only
	// one, and writes what serve would keep.
	suppose(v view, rows posterior.Rows, kept []float32) posterior.Uncertainty
	// probabilities writes the C probabilities that a head's C kept numbers stand
	// for.
	probabilities(dst, kept []float32)
	// learn updates the heads by a batch of labels, at least one, and writes what
	// that did to each head's outcome.
	learn(b *batch, heads []event.Head)
	// hash returns the hash of the state of all heads after learn, where last is the
	// one before it.
	hash(last event.Hash) event.Hash
	// online is the paper's head: the one that learns, the first such head of a
	// pool, or where a pool has none, one that never changes.
	online() *posterior.Online
	// learned is what a pool has learned of its heads, nil otherwise.
	learned() *Pooled

	// state declares what is kept beside the heads' states.
	part
	// keptName is the name of the tensor of the kept numbers, and valid reports
	// whether a number may be one of them.
	keptName() string
	valid(kept float32) bool
	// matches reports whether the heads, whose states were restored, can have this
	// hash.
	matches(hash event.Hash) bool
}

// head is a classifier as the engine's books know it.
type head interface {
	Name() string
	Version() uint64 // updates learned
	AppendState(b []byte) []byte
	SetState(b []byte) error
}

// view is one way to look at a node: as it is, without one of its edges, or, of one
// that is not in the graph, as it would be if it came.
type view struct {
	node    int32 // its number, or none
	without int32 // the neighbour whose edge is left out, or none

	// Of one that is not in the graph:
	features   gnn.Vector
	neighbours []int32 // distinct
}

// hashOf is the hash of the whole state of heads; b is scratch memory, which it
// returns.
func hashOf(heads []head, b []byte) (event.Hash, []byte) {
	b = b[:0]
	for _, h := range heads {
		b = h.AppendState(b)
	}
	return sha256.Sum256(b), b
}
