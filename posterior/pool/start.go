package pool

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// Start is what another pool of the same heads has learned of how to weigh them, such as
// one that was trained on a part of the training rows and streamed the others. The products
// forget towards its weights; its scores are forgotten as those of labels are.
type Start struct {
	// Weights are the prior means of the weights, by product and then by member, in place
	// of Weights.Total/K.
	Weights [][]float64 `json:"weights"`
	// Scores are the first scores L of the mixture's experts, in nats below the best.
	Scores []float64 `json:"scores,omitempty"`
}

// Start returns what p has learned, moved towards the defaults: of what differs from them,
// the given share in [0, 1] is left. Biases are left out, as class shares change.
func (p *Pool) Start(share float64) *Start {
	s := &Start{}
	for _, w := range p.weights {
		means := defaultMeans(p.cfg.Weights.Total, p.members, p.fitted)
		for k, def := range means {
			means[k] = def + float64(share*(w.theta[k]-def))
		}
		s.Weights = append(s.Weights, means)
	}
	if p.mixture != nil {
		s.Scores = slices.Clone(p.mixture.score)
		best := slices.Max(s.Scores)
		for e, x := range s.Scores {
			s.Scores[e] = float64(share * (x - best))
		}
	}
	return s
}

// defaultMeans returns those of members without a start, which share a total. A fitted head begins with none: it is an expert by itself.
func defaultMeans(total float64, members []int, fitted int) []float64 {
	means, others := make([]float64, len(members)), len(members)
	if slices.Contains(members, fitted) {
		others--
	}
	for k, i := range members {
		if i != fitted {
			means[k] = total / float64(others)
		}
	}
	return means
}

// maxStart bounds the numbers of a Start, so that logits stay finite.
const maxStart = 1e6

func (s *Start) validate(c Config) (r check.Remedies) {
	if s == nil {
		return nil
	}
	members := 0
	for _, h := range c.Heads {
		if h.isMember() {
			members++
		}
	}
	n, experts := 1, 0
	if c.Mixture != nil {
		n, experts = products, products+members
		if c.Fits() {
			experts += 2
		}
	}
	r.Unless(len(s.Weights) == n, "start: weights of %d products: give those of %d", len(s.Weights), n)
	r.Unless(len(s.Scores) == experts, "start: %d scores: give %d", len(s.Scores), experts)
	for _, list := range s.Weights {
		r.Unless(len(list) == members, "start: %d weights of a product: give %d, one for each head that is not a shadow",
			len(list), members)
	}
	for _, list := range append(slices.Clone(s.Weights), s.Scores) {
		for _, x := range list {
			r.Unless(math.Abs(x) <= maxStart, "start: %v: give numbers up to ±%v", x, maxStart)
		}
	}
	return r
}
