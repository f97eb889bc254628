package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
)

// system classifies the nodes of a stream step by step.
type system interface {
	// predict computes the class probabilities of step t's nodes into probs,
	// n × classes. It is called once for each step, in order.
	predict(t int, probs []float64)
	// learn may learn from the labels of step t. It is called at most once for each
	// step, in order, after predict of the same step.
	learn(t int)
}

// unchanging is embedded in systems that learn nothing from the stream.
type unchanging struct{}

func (unchanging) learn(int) {}

// newSystem returns the named system, trained.
func newSystem(name string, tr *trainer, stream *replay, protocol string) (system, error) {
	switch name {
	case "graphsage", "gcn", "gat", "gin":
		return newStandalone(tr, stream, protocol, member{kind: gnn.Kind(name)})
	case "mc-dropout":
		return newDropout(tr, stream, protocol)
	case "deep-ensemble":
		return newEnsemble(tr, stream, protocol)
	case "temp-scale":
		return newScaled(tr, stream, protocol)
	case "gvbll-static":
		return newStatic(tr, stream, protocol)
	case "gvbll-online":
		return newOnline(tr, stream, protocol, tr.settings.Update)
	case "logistic":
		return newLogistic(tr, stream, protocol)
	case "online-logistic":
		return newOnlineLogistic(tr, stream), nil
	case "label-propagation":
		return newPropagation(tr, stream, protocol), nil
	}
	if name == "pool" || slices.Contains(ablations, name) || name == poolRates || name == poolCounted {
		return newPooled(tr, stream, protocol, name)
	}
	return nil, fmt.Errorf("system %q: give one of %v", name, Known)
}

// prequential runs a system through the stream in the order of Algorithm 1: predict a
// step, score the predictions, then learn from the labels of the step delay steps
// before. It fills in the scores of r.
func prequential(ctx context.Context, sys system, stream *replay, classes, bins, delay int, r *Result) error {
	score := tally{classes: classes, bins: bins, result: r}
	for t := range stream.steps {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		labels := stream.stepLabels(t)
		probs := make([]float64, len(labels)*classes)
		sys.predict(t, probs)
		score.step(probs, labels)
		if past := t - delay; past >= 0 {
			sys.learn(past)
		}
	}
	score.done()
	if p, ok := sys.(*pooled); ok {
		r.Heads = p.headScores()
	}
	return nil
}

// evaluate trains a system and runs it through the stream.
func evaluate(name string, tr *trainer, stream *replay, protocol string) (Result, error) {
	var r Result
	sys, err := newSystem(name, tr, stream, protocol)
	if err != nil {
		return r, err
	}
	return r, prequential(tr.ctx, sys, stream, len(tr.data.Classes), tr.settings.Bins, tr.settings.Delay, &r)
}
