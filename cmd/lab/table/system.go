package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// system classifies the nodes of a stream step by step.
type system interface {
	// predict computes the class probabilities of step t's nodes into probs,
	// n × classes. It is called once for each step, in order.
	predict(t int, probs []float64)
	// learn may learn from the labels of nodes that predict had. It is called at most once for each.
	learn(nodes []int32)
}

// unchanging is embedded in systems that learn nothing from the stream.
type unchanging struct{}

func (unchanging) learn([]int32) {}

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
	case "label-propagation":
		return newPropagation(tr, stream, protocol), nil
	}
	if name == "pool" || slices.Contains(ablations, name) || name == poolRates || name == poolCounted {
		return newPooled(tr, stream, protocol, name)
	}
	return nil, fmt.Errorf("system %q: give one of %v", name, Known)
}

// evaluate trains a system and runs it through the stream in the order of Algorithm 1: it predicts a
// step, its predictions are scored, and then it learns from the labels that come: see [replay.due].
// Probabilities are rounded to float32, as the engine rounds what it publishes. Nodes without a label are
// not scored, and a step without labels does not count.
func evaluate(name string, tr *trainer, stream *replay, protocol string) (r Result, err error) {
	sys, err := newSystem(name, tr, stream, protocol)
	if err != nil {
		return r, err
	}
	classes := len(tr.data.Classes)
	var scores calibration.Prequential
	var served []float64 // probabilities of all nodes with a label
	var known []int32    // their labels
	for t := range stream.steps {
		if tr.ctx.Err() != nil {
			return r, context.Cause(tr.ctx)
		}
		labels := stream.stepLabels(t)
		probs := make([]float64, len(labels)*classes)
		sys.predict(t, probs)
		if probs, labels = labelled(probs, classes, labels); len(labels) > 0 {
			for i, p := range probs {
				probs[i] = float64(float32(p))
			}
			r.Steps = append(r.Steps, scoresOf(len(labels), scores.AddWindow(calibration.ScoreRows(probs, classes,
				labels), tr.settings.Bins)))
			served, known = append(served, probs...), append(known, labels...)
		}
		if nodes := stream.due(t, tr.settings); len(nodes) > 0 {
			sys.learn(nodes)
		}
	}
	total := scores.Total()
	r.Mean, r.Stream, r.Bins = scoresOf(total.Labels, scores.WindowMeans()), scoresOf(total.Labels, total.Means()), total.Bins
	r.Ranks = backtest.Ranks(served, tr.data.Classes, known)
	overall, of := backtest.Overall(r.Ranks)
	r.AUC, r.AP, r.Ranked = overall.AUC, overall.AP, of
	if p, ok := sys.(*pooled); ok {
		r.Heads = p.headScores()
	}
	return r, nil
}
