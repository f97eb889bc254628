// Package backtest replays a data set as a stream: each node is scored as it was served, before its label was learned, and
// labels come when they would have. What the engine serves stands beside simple rivals, which learn from the same labels, and
// beside scores of somebody's own. The rivals are those of the paper's comparison (cmd/lab/table), too.
package backtest

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Names of systems: what gvbll serves; the shares of the classes among the labels that have come; and [Logistic].
const (
	Served   = "gvbll"
	Majority = "majority"
	logistic = "logistic"
)

// Config says what is tested.
type Config struct {
	Set      *flags.DataSet
	Model    *model.Model
	Settings pipeline.Config
	Late     int // steps by which labels come late where they have no times
	Own      []*Own
	Capacity Capacity
	Progress func(step int) // called after each step of the engine
}

// run is what the systems share.
type run struct {
	Config
	due   [][]int32            // nodes whose labels come: see dataset.Due
	probs map[string][]float64 // by system, nodes × classes, of the nodes that were served
}

// Run runs all systems through the stream, and scores them.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	r := &run{Config: cfg, due: cfg.Set.Due(cfg.Set.Split, cfg.Late), probs: make(map[string][]float64)}
	systems := []string{Served, Majority, logistic}
	for _, name := range systems {
		r.probs[name] = make([]float64, len(cfg.Set.Labels)*len(cfg.Set.Classes))
	}
	for _, own := range cfg.Own {
		systems, r.probs[own.Name] = append(systems, own.Name), own.Probs
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.serve(ctx) })
	g.Go(func() error { return r.rivals(ctx) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return r.result(systems), nil
}

// row returns where the probabilities of a node are.
func (r *run) row(system string, v int32) []float64 {
	classes := len(r.Set.Classes)
	return r.probs[system][int(v)*classes : (int(v)+1)*classes]
}

// contextWindow bounds a window of context.
const contextWindow = 10_000

// serve runs the engine: a window has the nodes of a step, and the next the labels that come before the step after.
func (r *run) serve(ctx context.Context) error {
	e, err := pipeline.New(r.Model, r.Settings)
	if err != nil {
		return err
	}
	number := make(map[event.ID]int32, len(r.Set.Labels))
	for v := range r.Set.Labels {
		number[r.Set.ID(int32(v))] = int32(v)
	}
	origin := &event.Origin{}
	step := func(nodes []event.Node, labels []int32) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		w := event.Window{Number: e.Next(), Nodes: nodes}
		for _, v := range labels {
			w.Labels = append(w.Labels, event.Label{Origin: origin, Node: r.Set.ID(v), Class: r.Set.ClassOf(v)})
		}
		if len(nodes)+len(labels) == 0 {
			return nil
		}
		out := e.Step(&w)
		for _, x := range out.Refused {
			return fmt.Errorf("the model refuses an event: %s: %s: is it trained on such data?", x.Reason, x.Detail)
		}
		for i := range out.Predictions {
			to := r.row(Served, number[out.Predictions[i].Node])
			for c, p := range out.Predictions[i].Probabilities {
				to[c] = float64(p)
			}
		}
		return nil
	}
	stream := r.Set.Stream()
	for at, items := 0, stream.Context; at < len(items); at += contextWindow {
		var nodes []event.Node
		for _, x := range items[at:min(at+contextWindow, len(items))] {
			x.Node.Origin = origin
			nodes = append(nodes, x.Node)
		}
		if err := step(nodes, nil); err != nil {
			return err
		}
	}
	if err := step(nil, r.due[0]); err != nil {
		return err
	}
	for t, items := range stream.Steps {
		var nodes []event.Node
		for _, x := range items {
			x.Node.Origin = origin
			nodes = append(nodes, x.Node)
		}
		if err := step(nodes, nil); err != nil {
			return err
		}
		if err := step(nil, r.due[t+1]); err != nil {
			return err
		}
		r.Progress(t + 1)
	}
	return nil
}

// folds are those of the cross-validation of [Logistic].
const folds = 5

// rivals runs the shares of classes and the logistic regression.
func (r *run) rivals(ctx context.Context) error {
	s, classes := r.Set, len(r.Set.Classes)
	var known *Known
	var regression *Logistic
	return walk(s, r.due, func(k *Known, _ []int32) (err error) {
		known = k
		regression, err = NewLogistic(ctx, known, s.Dim, classes, folds, s.Seed)
		return err
	}, func(_ int, nodes []int32) error {
		labels, probs := make([]int32, len(nodes)), make([]float64, len(nodes)*classes)
		for i, v := range nodes {
			if labels[i] = s.Labels[v]; s.LabelTime != nil && s.LabelTime[v] == dataset.Never {
				labels[i] = dataset.Unlabelled
			}
		}
		regression.Predict(nodes, labels, probs)
		shares := known.Shares(classes)
		for i, v := range nodes {
			copy(r.row(logistic, v), probs[i*classes:(i+1)*classes])
			copy(r.row(Majority, v), shares)
		}
		return nil
	}, func(due []int32) error { return regression.Learn(due) })
}

// walk goes through a stream as a system without an encoder sees it: begin has what is known before it, and the nodes that
// are there, step the nodes of each step once they are linked, and learn the labels that came after one, once revealed.
func walk(
	s *flags.DataSet, due [][]int32, begin func(*Known, []int32) error, step func(t int, nodes []int32) error,
	learn func(due []int32) error,
) error {
	_, n, err := model.Prepare(s.Training(), nil, "")
	if err != nil {
		return err
	}
	known := NewKnown(make([]gnn.Vector, len(s.Features)))
	for v, x := range s.Features {
		known.X[v] = n.Apply(gnn.Vector{}, x)
	}
	before := append(append([]int32(nil), s.Split.Train...), s.Split.Warmup...)
	links := s.Arrivals(append([][]int32{before}, s.Split.Steps...))
	reveal := func(nodes []int32) {
		for _, v := range nodes {
			known.Reveal(v, s.Labels[v])
		}
	}
	for _, v := range before {
		known.Link(v, links[v])
	}
	reveal(due[0])
	if err := begin(known, before); err != nil {
		return err
	}
	for t, nodes := range s.Split.Steps {
		for _, v := range nodes {
			known.Link(v, links[v])
		}
		if err := step(t, nodes); err != nil {
			return err
		}
		if due := due[t+1]; len(due) > 0 && t+1 < len(s.Split.Steps) {
			reveal(due)
			if err := learn(due); err != nil {
				return err
			}
		}
	}
	return nil
}
