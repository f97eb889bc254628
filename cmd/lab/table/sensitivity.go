package table

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/posterior"
)

// Parameters lists what [Sensitivity] can vary: the number of steps, and with it the
// size of a batch; the share of training nodes; and the update's forgetting λ, step
// size η and anchor strength β.
var Parameters = []string{"steps", "train-share", "lambda", "eta", "beta"}

// Sweep is a parameter and the values to try.
type Sweep struct {
	Param  string
	Values []float64
}

// Point holds the scores of GVBLL-Online with one value of one parameter. The other
// parameters have the plan's values.
type Point struct {
	Param    string  `json:"param"`
	Value    float64 `json:"value"`
	Dataset  string  `json:"dataset"`
	Protocol string  `json:"protocol"`
	Estimate
}

// Sensitivity varies one parameter of GVBLL-Online at a time, on the plan's data sets,
// protocols and seeds. It ignores the plan's Systems. It trains once for every data set,
// seed and share of training nodes. Points are ordered by sweep, value, data set and
// protocol.
//
// An invalid value is an error before anything is trained, except for a share or a number
// of steps that only a particular data set refuses. progress, unless it is nil, is called
// after each data set and seed; calls do not overlap.
func Sensitivity(ctx context.Context, plan Plan, sweeps []Sweep, progress func(dataset string, seed uint64)) ([]Point, error) {
	plan, err := plan.withDefaults()
	if err != nil {
		return nil, err
	}
	var variants []variant
	for _, s := range sweeps {
		for _, x := range s.Values {
			v, err := vary(plan.Settings.Update, s.Param, x)
			if err != nil {
				return nil, fmt.Errorf("table: %w", err)
			}
			variants = append(variants, v)
		}
	}
	// means[source][seed][variant][protocol]
	seeds := len(plan.Seeds)
	means := make([][][]Scores, len(plan.Sources)*seeds)
	var mu sync.Mutex // held while progress runs
	err = each(ctx, plan.Parallel, len(means), func(ctx context.Context, i int) error {
		source, seed := &plan.Sources[i/seeds], plan.Seeds[i%seeds]
		var err error
		if means[i], err = sweep(ctx, source, seed, plan, variants); err != nil {
			return fmt.Errorf("table: %s, seed %d: %w", source.Name, seed, err)
		}
		if progress != nil {
			mu.Lock()
			defer mu.Unlock()
			progress(source.Name, seed)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var points []Point
	for v, variant := range variants {
		for s := range plan.Sources {
			for p, protocol := range plan.Protocols {
				var runs []Scores
				for k := range seeds {
					runs = append(runs, means[s*seeds+k][v][p])
				}
				points = append(points, Point{
					Param: variant.param, Value: variant.value, Dataset: plan.Sources[s].Name, Protocol: protocol, Estimate: estimate(runs),
				})
			}
		}
	}
	return points, nil
}

// variant is one value of one parameter.
type variant struct {
	param  string
	value  float64
	cut    dataset.Cut // without the seed
	update posterior.Config
}

// vary returns the variant in which param has value x, and all else is as in update and
// the source's own cut.
func vary(update posterior.Config, param string, x float64) (variant, error) {
	v := variant{param: param, value: x, update: update}
	switch param {
	case "steps":
		if v.cut.Steps = int(x); x < 1 || float64(v.cut.Steps) != x {
			return v, fmt.Errorf("steps %v: give a whole number from 1", x)
		}
	case "train-share":
		if v.cut.Share = x; !(x > 0 && x < 1) {
			return v, fmt.Errorf("train-share %v: give a share between 0 and 1, such as 0.1", x)
		}
	case "lambda":
		v.update.Lambda = x
	case "eta":
		v.update.Eta = x
	case "beta":
		v.update.Beta = x
	default:
		return v, fmt.Errorf("parameter %q: give one of %v", param, Parameters)
	}
	return v, v.update.Validate()
}

// sweep runs all variants on one data set and seed. It returns their means over steps,
// by variant and protocol.
func sweep(ctx context.Context, source *Source, seed uint64, plan Plan, variants []variant) ([][]Scores, error) {
	means := make([][]Scores, len(variants))
	// Variants with the same training nodes are run one after the other, and among them
	// those with the same stream, so that both are computed once.
	order := make([]int, len(variants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := variants[a].cut, variants[b].cut
		return cmp.Or(cmp.Compare(x.Share, y.Share), cmp.Compare(x.Steps, y.Steps))
	})
	var tr *trainer
	var stream *replay
	var at dataset.Cut
	for _, i := range order {
		v := variants[i]
		v.cut.Seed = seed
		if stream == nil || v.cut != at {
			d, cut, err := source.Open(v.cut)
			if err != nil {
				return nil, err
			}
			if tr == nil || v.cut.Share != at.Share {
				if tr, err = newTrainer(ctx, d, cut, plan.Settings, seed); err != nil {
					return nil, err
				}
			}
			stream, at = newReplay(d, cut, tr.normalizer), v.cut
		}
		for _, protocol := range plan.Protocols {
			mean, err := runOnline(tr, stream, protocol, v.update)
			if err != nil {
				return nil, err
			}
			means[i] = append(means[i], mean)
		}
	}
	return means, nil
}

// runOnline runs GVBLL-Online with the given constants, and returns its means over
// steps.
func runOnline(tr *trainer, stream *replay, protocol string, update posterior.Config) (Scores, error) {
	g, err := newOnline(tr, stream, protocol, update)
	if err != nil {
		return Scores{}, err
	}
	var r Result
	err = prequential(tr.ctx, g, stream, len(tr.data.Classes), tr.settings.Bins, tr.settings.Delay, &r)
	return r.Mean, err
}
