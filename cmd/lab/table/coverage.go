package table

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/conformal"
	"github.com/gvbll/gvbll/posterior/pool"
)

// CoveragePlan configures a measurement of how well the engine's conformal sets keep
// their target coverage, for every combination of source, seed, delay and kind of set.
type CoveragePlan struct {
	Sources  []Source
	Seeds    []uint64
	Settings Settings
	Delays   []int // of labels, in steps
	Sets     []pipeline.Coverage
	Head     string // pipeline.HeadPaper for the paper's heads; otherwise the pool serves
	Parallel int    // (source, seed) pairs worked on at once; 0 for 1
}

// CoverageResult counts the sets that were served in the second half of one stream's
// steps. In the first half the thresholds are learned.
type CoverageResult struct {
	Dataset string             `json:"dataset"`
	Seed    uint64             `json:"seed"`
	Delay   int                `json:"delay"` // steps
	Per     string             `json:"per"`
	Target  float64            `json:"target"`
	Sets    conformal.Coverage `json:"sets"`    // of nodes whose label came
	Correct int                `json:"correct"` // of these nodes, those whose most probable class was right
	// coverage of the class of minClassLabels labels that is covered least; 1 if there is none
	Lowest float64 `json:"lowest"`
	Served int     `json:"served"` // all predictions
}

// Coverage trains a model for every source and seed, and steps the engine through
// each stream once for every delay and kind of set. Calls of sink do not overlap.
func Coverage(ctx context.Context, plan CoveragePlan, sink func(CoverageResult) error) error {
	if err := plan.Settings.validate(); err != nil {
		return fmt.Errorf("coverage: %w", err)
	}
	var mu sync.Mutex // held while sink runs
	return each(ctx, plan.Parallel, len(plan.Sources)*len(plan.Seeds), func(ctx context.Context, i int) error {
		source, seed := plan.Sources[i/len(plan.Seeds)], plan.Seeds[i%len(plan.Seeds)]
		m, stream, err := plan.train(ctx, source, seed)
		if err != nil {
			return fmt.Errorf("coverage: %s, seed %d: %w", source.Name, seed, err)
		}
		for _, delay := range plan.Delays {
			for _, sets := range plan.Sets {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				cfg := pipeline.Config{Head: plan.Head, Update: plan.Settings.Update, Coverage: sets}
				e, err := newEngine(m, cfg, stream, strict, stream.context.nodes)
				if err != nil {
					return fmt.Errorf("coverage: %s: %w", source.Name, err)
				}
				r := e.countSets(delay, sets.Target)
				r.Dataset, r.Seed, r.Delay = source.Name, seed, delay
				r.Per = sets.Per.String()
				mu.Lock()
				err = sink(r)
				mu.Unlock()
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// train returns the model and the stream of a source and seed.
func (plan *CoveragePlan) train(ctx context.Context, source Source, seed uint64) (*model.Model, *replay, error) {
	d, cut, err := source.Open(dataset.Cut{Seed: seed})
	if err != nil {
		return nil, nil, err
	}
	tr, err := newTrainer(ctx, d, cut, plan.Settings, seed)
	if err != nil {
		return nil, nil, err
	}
	m, err := tr.gvbll()
	if err == nil && plan.Head != pipeline.HeadPaper {
		var spec pool.Config
		if spec, err = tr.start(model.DefaultPool(tr.data)); err == nil {
			err = m.AddPool(tr.data, spec)
		}
	}
	return m, newReplay(d, cut, tr.normalizer), err
}

// minClassLabels is the number of labels from which the coverage of a class is reported.
const minClassLabels = 50

// countSets steps the engine through its stream with labels that are delay steps late,
// and counts the sets that were served in the second half.
func (e *engine) countSets(delay int, target float64) CoverageResult {
	r := CoverageResult{Target: target, Lowest: 1}
	classes := make([]conformal.Coverage, len(e.Model().Classes))
	from, steps := int64(math.MaxInt64), len(e.stream.steps) // the first window that counts
	for t := range steps + delay {
		if t == steps/2 {
			from = e.Next()
		}
		if t < steps {
			if out := e.serve(e.stream.span(t)); out.Window >= from {
				r.Served += len(out.Predictions)
			}
		}
		if t < delay {
			continue
		}
		out := e.label(e.stream.span(t - delay))
		for i, l := range out.Labelled {
			if l.Served < from {
				continue
			}
			set := conformal.Coverage{Rows: 1, Classes: uint64(out.Coverage.Labels[i].Size)}
			if out.Coverage.Labels[i].Held {
				set.Covered = 1
			}
			r.Sets.Merge(set)
			classes[l.Class].Merge(set)
			if out.Heads[l.By].Scores[i].Correct {
				r.Correct++
			}
		}
	}
	for _, sets := range classes {
		if sets.Rows >= minClassLabels {
			r.Lowest = min(r.Lowest, sets.Rate())
		}
	}
	return r
}
