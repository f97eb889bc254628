package pipeline

import "github.com/gvbll/gvbll/gnn/kernel"

// pending keeps what was served, as it was served, until the label comes, or until
// it is the oldest and room is needed. Embeddings and the numbers that the serving
// keeps lie in tables indexed by the queue's slots, and so does what observers keep
// beside them.
type pending struct {
	nodes *queue[int32, served]  // by node number
	bound int                    // of nodes
	z     *kernel.Table[float32] // embeddings, d_e a row
	kept  *kernel.Table[float32] // see serving.width
}

// served is what is kept of one prediction beside the rows of the tables.
type served struct {
	window int64
	time   int64 // event time of the arrival
	tau    float64
	by     uint8 // the head that served, by place
}

func newPending(dim, width, bound int) *pending {
	return &pending{nodes: newNodeQueue[served](), bound: bound, z: kernel.NewTable[float32](dim), kept: kernel.NewTable[float32](width)}
}

// reserve preallocates the tables, which are empty, for this many nodes or for as
// many as are kept at once.
func (p *pending) reserve(nodes int) {
	nodes = min(nodes, p.bound)
	p.z.Reserve(nodes)
	p.kept.Reserve(nodes)
}

// put keeps the prediction of node v, and returns the node whose older one expired
// to make room, if one did.
func (p *pending) put(v int32, s served, z, kept []float32) (old int32, expired bool) {
	if p.nodes.len() == p.bound {
		old, _ = p.nodes.oldest()
		expired = true
	}
	i := p.nodes.put(v, s)
	if int(i) == p.z.Len() {
		p.z.Grow(1)
		p.kept.Grow(1)
	}
	copy(p.z.Row(i), z)
	copy(p.kept.Row(i), kept)
	return old, expired
}

// take removes and returns what was served for node v. The slices are valid until
// the next put.
func (p *pending) take(v int32) (s served, z, kept []float32, ok bool) {
	i, ok := p.nodes.place(v)
	if !ok {
		return s, nil, nil, false
	}
	s, _ = p.nodes.take(v)
	return s, p.z.Row(i), p.kept.Row(i), true
}
