package pipeline

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// outlierScorer scores how far an embedding lies outside those seen so far. Sets ask
// it for every prediction: it is a [*reference] if Coverage.MaxOutside is set, and
// noReference otherwise.
type outlierScorer interface {
	// learn adds nodes of the window to the embeddings seen so far.
	learn()
	// score scores the embedding z, of length d_e; see [conformal.Outside.Score].
	score(z []float32) float64

	part
}

// noReference scores every embedding 0, so that no prediction counts as an outlier.
type noReference struct{}

func (noReference) learn()                  {}
func (noReference) score([]float32) float64 { return 0 }
func (noReference) state(*snapshot.Schema)  {}

// reference scores embeddings by the first ones of the stream: context nodes, which
// the model was trained on, then arrivals, until [conformal.Outside] is full.
type reference struct {
	outside *conformal.Outside
	nodes   *nodes
	dim     int // d_e

	context []int32   // scratch: numbers of the window's context nodes
	z       []float32 // scratch: their embeddings
}

// maxReferenceDim bounds d_e: the reference's memory grows with d_e².
const maxReferenceDim = 1024

func newReference(n *nodes) *reference {
	dim := n.model.Prior.Dim
	return &reference{outside: conformal.NewOutside(dim), nodes: n, dim: dim}
}

// maxContext bounds the context nodes of one window that the reference learns:
// unlike arrivals, they have to be encoded for it.
const maxContext = 1024

// learn adds the window's context nodes, then its arrivals.
func (r *reference) learn() {
	if r.outside.Full() {
		return
	}
	arrivals := &r.nodes.arrivals
	r.context = r.context[:0]
	for _, a := range arrivals.accepted {
		if a.node.Context && len(r.context) < maxContext {
			r.context = append(r.context, a.number)
		}
	}
	r.z = kernel.Room(r.z, len(r.context)*r.dim)
	r.nodes.graph.Embed(r.context, r.z)
	for _, z := range [...][]float32{r.z, arrivals.rows.Z} {
		for ; len(z) > 0; z = z[r.dim:] {
			if finite(z[:r.dim]) {
				r.outside.Learn(z[:r.dim])
			}
		}
	}
}

func (r *reference) score(z []float32) float64 { return r.outside.Score(z) }

func (r *reference) state(s *snapshot.Schema) { snapshot.Bytes(s, "sets.outside", r.outside) }
