package pipeline

import "github.com/gvbll/gvbll/gnn/kernel"

// pending keeps what was served, as it was served, until the label comes or
// until it is the oldest and room is needed. Embeddings and probabilities lie
// in tables that are indexed by the queue's slots.
type pending struct {
	nodes *queue[int32, served]
	bound int
	z     *kernel.Table[float32] // d_e a row
	probs *kernel.Table[float32] // heads × classes
}

// served is what is noted of one prediction beside its numbers.
type served struct {
	window int64
	time   int64
	tau    float64
	by     uint8 // the place of the head that served
}

func newPending(dim, width, bound int) *pending {
	return &pending{nodes: newNodeQueue[served](), bound: bound, z: kernel.NewTable[float32](dim), probs: kernel.NewTable[float32](width)}
}

// reserve takes the memory of what is kept of so many nodes, as far as so many are
// kept at once. The tables are empty.
func (p *pending) reserve(nodes int) {
	nodes = min(nodes, p.bound)
	p.z.Reserve(nodes)
	p.probs.Reserve(nodes)
}

// put keeps the prediction of node v, and returns the node whose older one was
// forgotten for it, if any was.
func (p *pending) put(v int32, s served, z, probs []float32) (old int32, expired bool) {
	if p.nodes.len() == p.bound {
		old, _ = p.nodes.oldest()
		expired = true
	}
	i := p.nodes.put(v, s)
	if int(i) == p.z.Len() {
		p.z.Grow(1)
		p.probs.Grow(1)
	}
	copy(p.z.Row(i), z)
	copy(p.probs.Row(i), probs)
	return old, expired
}

// take gives back what was served for node v and forgets it. The slices hold
// until the next put.
func (p *pending) take(v int32) (s served, z, probs []float32, ok bool) {
	i, ok := p.nodes.place(v)
	if !ok {
		return s, nil, nil, false
	}
	s, _ = p.nodes.take(v)
	return s, p.z.Row(i), p.probs.Row(i), true
}
