package pipeline

// pending keeps what was served, as it was served, until the label comes or
// until it is the oldest and room is needed. Embeddings and probabilities lie
// in flat arrays that are indexed by the queue's slots.
type pending struct {
	nodes *queue[int32, served]
	bound int
	dim   int // of an embedding
	width int // heads × classes
	z     []float32
	probs []float32
}

// served is what is noted of one prediction beside its numbers.
type served struct {
	window int64
	time   int64
	tau    float64
}

func newPending(dim, width, bound int) *pending {
	return &pending{nodes: newQueue[int32, served](), bound: bound, dim: dim, width: width}
}

// put keeps the prediction of node v, and tells whether an older one was
// forgotten for it.
func (p *pending) put(v int32, s served, z, probs []float32) (expired bool) {
	if p.nodes.len() == p.bound {
		p.nodes.oldest()
		expired = true
	}
	p.nodes.put(v, s)
	i := int(p.nodes.slot[v])
	if i*p.dim == len(p.z) {
		p.z = append(p.z, z...)
		p.probs = append(p.probs, probs...)
		return expired
	}
	copy(p.z[i*p.dim:], z)
	copy(p.probs[i*p.width:], probs)
	return expired
}

// take gives back what was served for node v and forgets it. The slices hold
// until the next put.
func (p *pending) take(v int32) (s served, z, probs []float32, ok bool) {
	i, ok := p.nodes.slot[v]
	if !ok {
		return s, nil, nil, false
	}
	s, _ = p.nodes.take(v)
	lo := int(i)
	return s, p.z[lo*p.dim : (lo+1)*p.dim], p.probs[lo*p.width : (lo+1)*p.width], true
}
