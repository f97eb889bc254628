package table

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// scaled is temperature scaling (Guo et al. 2017): the trained GraphSAGE with its
// logits divided by one number T, which is fitted to minimise the NLL on nodes that the
// training did not see: the labelled nodes of the warm-up, the validation part of splits
// in time.
//
// Where there is no warm-up, the training nodes are too few to hold some out. Then T is
// fitted to the logits of all training nodes, each computed by a GraphSAGE that was
// trained without the node's fold. With more than manyNodes training nodes, one held-out
// fold is enough.
type scaled struct {
	*standalone
	temperature float64
}

const manyNodes = 10_000

func newScaled(tr *trainer, stream *replay, protocol string) (*scaled, error) {
	plain, err := newStandalone(tr, stream, protocol, member{kind: gnn.KindSAGE})
	if err != nil {
		return nil, err
	}
	temperature, err := tr.temperature(stream)
	if err != nil {
		return nil, err
	}
	return &scaled{standalone: plain, temperature: temperature}, nil
}

func (s *scaled) predict(t int, probs []float64) {
	probabilities(s.logits[t], s.classes, s.temperature, probs)
}

// temperature returns T for the trainer's GraphSAGE on a stream.
func (tr *trainer) temperature(stream *replay) (float64, error) {
	c, err := tr.classifier(member{kind: gnn.KindSAGE})
	if err != nil {
		return 0, err
	}
	type key struct{}
	return recall(tr.kept, key{}, func() (float64, error) {
		a, labels := stream.warmup(c)
		if len(labels) == 0 {
			if a, labels, err = tr.heldOut(); err != nil {
				return 0, err
			}
		}
		return fitTemperature(a, len(tr.data.Classes), labels), nil
	})
}

// heldOut returns GraphSAGE's logits of training nodes that it was not trained on, and
// their labels.
func (tr *trainer) heldOut() (a []float64, labels []int32, err error) {
	others, folds, err := tr.folds(tr.settings.Folds)
	if err != nil {
		return nil, nil, err
	}
	if len(tr.nodes) > manyNodes {
		others, folds = others[:1], folds[:1]
	}
	for f, fold := range folds {
		inner, err := newTrainer(tr.ctx, tr.graph, dataset.Stream{Train: others[f]}, tr.settings, mix(tr.seed, uint64(f)+1))
		if err != nil {
			return nil, nil, err
		}
		c, err := inner.classifier(member{kind: gnn.KindSAGE})
		if err != nil {
			return nil, nil, err
		}
		stream := newReplay(tr.graph, dataset.Stream{Train: others[f], Steps: [][]int32{fold}}, inner.normalizer)
		for _, x := range stream.embeddings(c, strict)[0] {
			a = append(a, float64(x))
		}
		labels = append(labels, stream.stepLabels(0)...)
	}
	return a, labels, nil
}

// The bounds of fitTemperature: logits that separate the classes would give T = 0, and
// logits without information T = ∞.
const (
	leastTemperature = 0.05
	mostTemperature  = 100
)

// fitTemperature returns the T that minimises the NLL of softmax(a/T) for logits a,
// n × classes. The NLL is convex in s = 1/T: with p = softmax(s·a), its derivative is
// the mean of Σ p_c a_c - a_y, whose root is found by bisection.
func fitTemperature(logits []float64, classes int, labels []int32) float64 {
	p := make([]float64, classes)
	slope := func(s float64) (sum float64) {
		for i, y := range labels {
			a := logits[i*classes : (i+1)*classes]
			floats.ScaleTo(p, s, a)
			backtest.Softmax(p)
			sum += floats.Dot(p, a) - a[y]
		}
		return sum
	}
	lo, hi := 1/float64(mostTemperature), 1/leastTemperature
	switch {
	case slope(lo) >= 0:
		return mostTemperature
	case slope(hi) <= 0:
		return leastTemperature
	}
	for range 60 {
		if s := (lo + hi) / 2; slope(s) > 0 {
			hi = s
		} else {
			lo = s
		}
	}
	return 2 / (lo + hi)
}
