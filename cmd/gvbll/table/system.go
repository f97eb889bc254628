package table

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/gnn"
)

// system classifies a stream step by step.
type system interface {
	// predict writes the class probabilities of step t's nodes to probs.
	predict(t int, probs []float64)
	// learn may look at the labels of step t. It is called once, after the
	// step's predictions were scored.
	learn(t int)
}

// unchanging systems learn nothing from the stream.
type unchanging struct{}

func (unchanging) learn(int) {}

// newSystem returns the system of that name, trained.
func newSystem(name string, s *trainer, stream *replay, protocol string) (system, error) {
	switch name {
	case "graphsage":
		return newStandalone(s, stream, protocol, gnn.KindSAGE)
	case "gcn":
		return newStandalone(s, stream, protocol, gnn.KindGCN)
	case "gat":
		return newStandalone(s, stream, protocol, gnn.KindGAT)
	case "gin":
		return newStandalone(s, stream, protocol, gnn.KindGIN)
	case "mc-dropout":
		return newDropout(s, stream, protocol)
	case "deep-ensemble":
		return newEnsemble(s, stream, protocol)
	case "temp-scale":
		return newScaled(s, stream, protocol)
	case "gp-sage":
		return newProcess(s, stream, protocol, gnn.KindSAGE)
	case "gp-gcn":
		return newProcess(s, stream, protocol, gnn.KindGCN)
	case "gp-gat":
		return newProcess(s, stream, protocol, gnn.KindGAT)
	case "gvbll-static":
		return newStatic(s, stream, protocol)
	case "gvbll-online":
		return newOnline(s, stream, protocol, s.settings.Update)
	}
	if name == "pool" || slices.Contains(Ablations, name) {
		return newPooled(s, stream, protocol, name)
	}
	return nil, fmt.Errorf("system %q: it is one of %v", name, Known)
}

// play streams a system: it predicts each step, is scored, and is then told the
// step's labels (Algorithm 1's order of things), or those of delay steps ago.
func prequential(ctx context.Context, sys system, stream *replay, classes, bins, delay int, r *Result) error {
	score := tally{classes: classes, mass: bins, result: r}
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
		if g, ok := sys.(interface{ drift() (float64, float64) }); ok {
			distance, variance := g.drift()
			r.AnchorDistance = append(r.AnchorDistance, distance)
			r.Variance = append(r.Variance, variance)
		}
	}
	score.done()
	if g, ok := sys.(*pooled); ok {
		r.Heads = g.headScores()
	}
	return nil
}

// perform trains a system and plays it.
func evaluate(name string, s *trainer, stream *replay, protocol string) (Result, error) {
	var r Result
	s.spent, stream.spent = 0, 0
	sys, err := newSystem(name, s, stream, protocol)
	if err != nil {
		return r, err
	}
	begin := time.Now()
	if err := prequential(s.ctx, sys, stream, len(s.data.Classes), s.settings.Bins, s.settings.Delay, &r); err != nil {
		return r, err
	}
	r.Seconds = (s.spent + stream.spent + time.Since(begin)).Seconds()
	return r, nil
}
