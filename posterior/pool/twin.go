package pool

// Twin returns a pool that predicts with what p has learned and will learn, but with scratch
// memory of its own: both may predict at once, as long as neither p learns. Only p learns.
// After SetState of p it is of no more use.
func (p *Pool) Twin() *Pool {
	t := *p
	t.onlyPredicts, t.logp, t.scratch = true, nil, softmaxScratch{}
	t.said = newOpinions(p.said.heads, p.said.classes, p.said.floor)
	t.heads = make([]classifier, len(p.heads))
	for k, h := range p.heads {
		t.heads[k] = h.twin()
	}
	t.weights = make([]*weights, len(p.weights))
	for j, w := range p.weights {
		t.weights[j] = &weights{heads: w.heads, classes: w.classes, theta: w.theta, said: t.said}
	}
	if p.mixture != nil {
		t.mixture = &mixture{mixtureConfig: p.mixture.mixtureConfig, classes: p.mixture.classes, logShare: p.mixture.logShare, learned: p.mixture.learned}
	}
	return &t
}
