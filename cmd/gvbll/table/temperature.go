package table

import (
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// scaled is temperature scaling (Guo et al. 2017): the trained GraphSAGE with its
// logits divided by one number T, the one with the least NLL on nodes that the
// training did not see.
//
// With a few dozen training nodes none can be spared, so T is fitted to the
// logits of all of them, each from a GraphSAGE trained without its fold, and then
// serves the GraphSAGE that was trained on all. Of more than manyNodes training
// nodes one fold is held out and enough.
type scaled struct {
	*standalone
	temperature float64
}

const manyNodes = 10_000

func newScaled(s *trainer, stream *replay, protocol string) (*scaled, error) {
	plain, err := newStandalone(s, stream, protocol, gnn.KindSAGE)
	if err != nil {
		return nil, err
	}
	temperature, err := s.temperature()
	if err != nil {
		return nil, err
	}
	return &scaled{standalone: plain, temperature: temperature}, nil
}

func (s *scaled) predict(t int, probs []float64) {
	s.head.scores(s.z[t], probs)
	for i := range probs {
		probs[i] /= s.temperature
	}
	for lo := 0; lo < len(probs); lo += s.head.classes {
		softmax(probs[lo : lo+s.head.classes])
	}
}

// temperature is T of the school's GraphSAGE.
func (s *trainer) temperature() (float64, error) {
	type key struct{}
	return recall(&s.memo, key{}, func() (float64, error) {
		others, folds, err := s.folds(s.settings.Folds)
		if err != nil {
			return 0, err
		}
		if len(s.nodes) > manyNodes {
			others, folds = others[:1], folds[:1]
		}
		var logits []float64
		var labels []int32
		for f, fold := range folds {
			inner, err := newTrainer(s.ctx, s.graph, others[f], s.settings, mix(s.seed, uint64(f)+1))
			if err != nil {
				return 0, err
			}
			c, err := inner.classifier(member{kind: gnn.KindSAGE})
			if err != nil {
				return 0, err
			}
			stream := newReplay(s.graph, dataset.Stream{Train: others[f], Steps: [][]int32{fold}}, inner.normalizer)
			a := make([]float64, len(fold)*c.head.classes)
			c.head.scores(stream.embeddings(c.encoder, Strict)[0], a)
			logits, labels = append(logits, a...), append(labels, stream.stepLabels(0)...)
		}
		return fitTemperature(logits, len(s.data.Classes), labels), nil
	})
}

// The temperatures that fitTemperature returns lie between these: logits that
// separate the classes would have T = 0, and those that know nothing T = ∞.
const (
	leastTemperature = 0.05
	mostTemperature  = 100
)

// fitTemperature returns the T that minimises the NLL of softmax(a/T). In s = 1/T
// it is convex: with p = softmax(s·a) its derivative is the mean of
// Σ p_c a_c - a_y, and its curvature that of the variance of a under p. Newton's
// steps are taken where they stay between the bounds known of the root, and
// halves of the interval elsewhere.
func fitTemperature(logits []float64, classes int, labels []int32) float64 {
	p := make([]float64, classes)
	slope := func(s float64) (first, second float64) {
		for i, y := range labels {
			a := logits[i*classes : (i+1)*classes]
			for c, x := range a {
				p[c] = s * x
			}
			softmax(p)
			mean := dot(p, a)
			first += mean - a[y]
			for c, x := range a {
				second += p[c] * (x - mean) * (x - mean)
			}
		}
		return first, second
	}
	lo, hi := 1/float64(mostTemperature), 1/leastTemperature
	if first, _ := slope(lo); first >= 0 {
		return mostTemperature
	}
	if first, _ := slope(hi); first <= 0 {
		return leastTemperature
	}
	s := 1.0
	for range 100 { // halving alone needs fewer
		first, second := slope(s)
		if first > 0 {
			hi = s
		} else {
			lo = s
		}
		next := s - first/second
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		if math.Abs(next-s) <= 1e-12*s {
			return 1 / next
		}
		s = next
	}
	return 1 / s
}
