package table

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// Validation scores a system with one of several settings on training nodes that were
// held out. For each seed every training node is predicted once.
type Validation struct {
	Setting int    `json:"setting"` // index in the list
	Dataset string `json:"dataset"`
	System  string `json:"system"`
	Estimate
}

// CrossValidate compares settings on the training nodes alone, under the strict
// protocol, so that settings can be chosen without looking at the stream. It divides the
// training nodes into k folds. Each fold is streamed to systems that are trained on the
// others, in at least minSteps steps that are no larger than the data set's. The plan's
// Protocols and Settings are ignored. Validations are ordered by setting, data set and
// system.
func CrossValidate(ctx context.Context, plan Plan, k int, settings []Settings) ([]Validation, error) {
	if k < 2 || len(settings) == 0 {
		return nil, fmt.Errorf("table: %d folds and %d settings: give at least 2 folds and 1 setting", k, len(settings))
	}
	for i := range settings {
		plan.Settings = settings[i]
		if _, err := plan.withDefaults(); err != nil {
			return nil, fmt.Errorf("%w (setting %d)", err, i)
		}
	}
	plan, err := plan.withDefaults()
	if err != nil {
		return nil, err
	}
	seeds := len(plan.Seeds)
	perSetting := len(plan.Sources) * seeds
	scores := make([][]Scores, len(settings)*perSetting) // by system
	err = each(ctx, plan.Parallel, len(scores), func(ctx context.Context, i int) error {
		source, seed := &plan.Sources[i%perSetting/seeds], plan.Seeds[i%seeds]
		var err error
		if scores[i], err = crossValidate(ctx, source, seed, k, plan.Systems, settings[i/perSetting]); err != nil {
			return fmt.Errorf("table: setting %d, %s, seed %d: %w", i/perSetting, source.Name, seed, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var all []Validation
	for c := range settings {
		for s := range plan.Sources {
			for j, name := range plan.Systems {
				var runs []Scores
				for e := range seeds {
					runs = append(runs, scores[c*perSetting+s*seeds+e][j])
				}
				all = append(all, Validation{Setting: c, Dataset: plan.Sources[s].Name, System: name, Estimate: estimate(runs)})
			}
		}
	}
	return all, nil
}

// minSteps is the least number of steps in a fold: an online system needs some to
// learn from.
const minSteps = 4

// crossValidate returns each system's scores on one cut: means over its training nodes.
func crossValidate(ctx context.Context, source *Source, seed uint64, k int, systems []string, settings Settings) ([]Scores, error) {
	d, cut, err := source.Open(dataset.Cut{Seed: seed})
	if err != nil {
		return nil, err
	}
	whole, err := newTrainer(ctx, d, cut, settings, seed)
	if err != nil {
		return nil, err
	}
	others, folds, err := whole.folds(k)
	if err != nil {
		return nil, err
	}
	sum := make([]Scores, len(systems))
	for f, fold := range folds {
		// From here on only training nodes of the cut are used.
		inner, err := newTrainer(ctx, d, dataset.Stream{Train: others[f], Ordered: cut.Ordered}, settings, mix(seed, uint64(f)+1))
		if err != nil {
			return nil, err
		}
		stream := newReplay(d, dataset.Stream{Train: others[f], Steps: pieces(fold, len(cut.Steps[0]))}, inner.normalizer)
		for j, name := range systems {
			r, err := evaluate(name, inner, stream, strict)
			if err != nil {
				return nil, err
			}
			n := float64(r.Stream.N)
			sum[j].N += r.Stream.N
			sum[j].Acc += n * r.Stream.Acc
			sum[j].NLL += n * r.Stream.NLL
			sum[j].ECE += n * r.Stream.ECE
		}
	}
	for j := range sum {
		sum[j].divide(sum[j].N)
	}
	return sum, nil
}

// pieces cuts a fold into steps of at most size nodes: at least minSteps steps, if there
// are as many nodes.
func pieces(fold []int32, size int) (steps [][]int32) {
	n := len(fold)
	count := min(n, max(minSteps, (n+size-1)/size))
	for t := range count {
		steps = append(steps, fold[t*n/count:(t+1)*n/count])
	}
	return steps
}
