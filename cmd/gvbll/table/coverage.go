package table

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// Covering asks how the sets of the engine keep their promise: on every source
// and seed, with labels that come so many steps late, for each way to make sets.
type Covering struct {
	Sources  []Source
	Seeds    []uint64
	Settings Settings
	Delays   []int
	Sets     []pipeline.Coverage
	Head     string // what serves: pipeline.HeadPaper, or the pool
	Parallel int    // (source, seed) pairs worked on at once; 0 for 1
}

// Covered is what became of the sets of one stream's second half. The first is
// what thresholds are learned on.
type Covered struct {
	Dataset string             `json:"dataset"`
	Seed    uint64             `json:"seed"`
	Delay   int                `json:"delay"` // steps
	Score   string             `json:"score"`
	Method  string             `json:"method"`
	Per     string             `json:"per"`
	Target  float64            `json:"target"`
	Sets    conformal.Coverage `json:"sets"`
	Correct int                `json:"correct"` // of these, whose most probable class was right
	Worst   float64            `json:"worst"`   // the least coverage of a class of 20 labels or more; 1 where there is none
	Abstain int                `json:"abstain"` // of the second half's predictions
	Served  int                `json:"served"`  // predictions of the second half
}

// Cover trains a model for every source and seed and steps the engine through
// each stream for every delay and way to make sets. Calls of sink do not overlap.
func Cover(ctx context.Context, c Covering, sink func(Covered) error) error {
	if err := c.Settings.validate(); err != nil {
		return fmt.Errorf("coverage: %w", err)
	}
	var turn sync.Mutex
	return each(ctx, max(c.Parallel, 1), len(c.Sources)*len(c.Seeds), func(ctx context.Context, i int) error {
		source, seed := c.Sources[i/len(c.Seeds)], c.Seeds[i%len(c.Seeds)]
		d, cut, err := source.Open(Cut{Seed: seed})
		if err != nil {
			return fmt.Errorf("coverage: %s, seed %d: %w", source.Name, seed, err)
		}
		s, err := newSchool(ctx, d, cut.Train, c.Settings, seed)
		if err != nil {
			return fmt.Errorf("coverage: seed %d: %w", seed, err)
		}
		m, err := s.bayesian()
		if err != nil {
			return fmt.Errorf("coverage: %s, seed %d: %w", source.Name, seed, err)
		}
		if c.Head != pipeline.HeadPaper {
			if err := m.AddPool(s.data, model.DefaultPool(s.data)); err != nil {
				return fmt.Errorf("coverage: %s, seed %d: %w", source.Name, seed, err)
			}
		}
		for _, delay := range c.Delays {
			stream := windows(d, cut, delay)
			for _, sets := range c.Sets {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				engine, err := pipeline.New(m, pipeline.Config{Update: c.Settings.Update, Bins: c.Settings.Bins, Coverage: sets, Unwatched: true})
				if err != nil {
					return fmt.Errorf("coverage: %s: %w", source.Name, err)
				}
				r := secondHalf(engine, stream, len(cut.Steps))
				r.Dataset, r.Seed, r.Delay = source.Name, seed, delay
				r.Score, r.Method, r.Per, r.Target = sets.Score.String(), sets.Method.String(), sets.Per.String(), sets.Target
				turn.Lock()
				err = sink(r)
				turn.Unlock()
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// stepWindow is a window of a stream.
type stepWindow struct {
	event.Window
	step int // whose nodes come, -1 for none
}

// windows are the context, and then in turn a step's nodes and the labels of the
// step that many before it; at last the labels that are left.
func windows(d *dataset.Dataset, cut dataset.Stream, delay int) (w []stepWindow) {
	nothing := &event.Origin{}
	context := append(append([]int32(nil), cut.Train...), cut.Warmup...)
	neighbours := d.Arrivals(append([][]int32{context}, cut.Steps...))
	add := func(step int, nodes []event.Node, labels []event.Label) {
		w = append(w, stepWindow{event.Window{Number: int64(len(w)), Nodes: nodes, Labels: labels}, step})
	}
	nodes := func(batch []int32, context bool) (list []event.Node) {
		for _, v := range batch {
			x := d.Features[v]
			n := event.Node{Origin: nothing, ID: event.ID{Num: int64(v)}, Dense: x.Dense, Index: x.Index, Value: x.Value, Context: context}
			for _, u := range neighbours[v] {
				n.Neighbours = append(n.Neighbours, event.ID{Num: int64(u)})
			}
			list = append(list, n)
		}
		return list
	}
	labels := func(batch []int32) (list []event.Label) {
		for _, v := range batch {
			list = append(list, event.Label{Origin: nothing, Node: event.ID{Num: int64(v)}, Class: d.Classes[d.Labels[v]]})
		}
		return list
	}
	add(-1, nodes(context, true), nil)
	add(-1, nil, labels(cut.Train)) // what trained is known
	for t := range len(cut.Steps) + delay {
		if t < len(cut.Steps) {
			add(t, nodes(cut.Steps[t], false), nil)
		}
		if t < delay {
			continue
		}
		add(-1, nil, labels(cut.Steps[t-delay]))
	}
	return w
}

// leastLabels is of how many a class's coverage is looked at.
const leastLabels = 20

// secondHalf steps the engine through the stream and counts the sets that were
// served in the second half of its steps.
func secondHalf(e *pipeline.Engine, stream []stepWindow, steps int) (r Covered) {
	from := int64(math.MaxInt64)
	byClass := map[int32]*conformal.Coverage{}
	for i := range stream {
		w := &stream[i]
		if w.step == steps/2 {
			from = w.Number
		}
		out := e.Step(&w.Window)
		if w.Number >= from {
			for k := range out.Predictions {
				r.Served++
				if out.Predictions[k].Set.Abstain != "" {
					r.Abstain++
				}
			}
		}
		for k, l := range out.Labelled {
			if l.Served < from {
				continue
			}
			held := &out.Coverage.Labels[k]
			c := conformal.Coverage{Rows: 1, Classes: uint64(held.Size)}
			if held.Held {
				c.Covered = 1
			}
			r.Sets.Merge(c)
			if byClass[l.Class] == nil {
				byClass[l.Class] = &conformal.Coverage{}
			}
			byClass[l.Class].Merge(c)
			if out.Heads[l.By].Scores[k].Correct {
				r.Correct++
			}
		}
	}
	r.Worst = 1
	for _, c := range byClass { // a minimum: in any order
		if c.Rows >= leastLabels {
			r.Worst = min(r.Worst, c.Rate())
		}
	}
	return r
}
