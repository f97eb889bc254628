package table

import (
	"context"
	"fmt"
	"math"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// Plan configures a comparison.
type Plan struct {
	Sources   []Source
	Protocols []string
	Systems   []string
	Seeds     []uint64
	Settings  Settings
	Parallel  int // pairs of data set and seed that run at once; 0 for 1
}

// Run runs the jobs of the plan that are missing. It passes each result to sink as soon as the job is
// done. Calls of sink do not overlap. With Parallel above 1 their order varies; the results do not.
//
// Run ends at the first error: of a data set, a training, or sink, or ctx's cause. The
// results passed to sink before are valid, and another Run can continue from them.
func Run(ctx context.Context, plan Plan, missing []*group, sink func(Result) error) error {
	if err := plan.Settings.validate(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	var mu sync.Mutex    // held while sink runs
	var sinkFailed error // sink is not called again after an error
	return each(ctx, plan.Parallel, len(missing), func(ctx context.Context, i int) error {
		return missing[i].run(ctx, plan.Settings, func(r Result) error {
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if sinkFailed == nil {
				sinkFailed = sink(r)
			}
			return sinkFailed
		})
	})
}

// Missing returns the jobs of the plan that have no result of the same settings among the existing ones,
// and the results of the others.
func (p Plan) Missing(existing []Result) (groups []*group, have []Result) {
	type done struct {
		Job
		settings string
	}
	known := make(map[done]*Result, len(existing))
	for i := range existing {
		known[done{existing[i].Job, existing[i].Settings}] = &existing[i]
	}
	for s := range p.Sources {
		source := &p.Sources[s]
		hash := p.Settings.hash(source)
		for _, seed := range p.Seeds {
			g := &group{source: source, seed: seed, hash: hash}
			for _, protocol := range p.Protocols {
				for _, name := range p.Systems {
					job := Job{Dataset: source.Name, Protocol: protocol, System: name, Seed: seed}
					r, there := known[done{job, hash}]
					switch {
					case !there:
						g.Jobs = append(g.Jobs, job)
					case r != nil:
						have = append(have, *r)
					}
					known[done{job, hash}] = nil // a job that is named twice counts once
				}
			}
			if len(g.Jobs) > 0 {
				groups = append(groups, g)
			}
		}
	}
	return groups, have
}

// group is the jobs of one data set and seed. They share trainings.
type group struct {
	source *Source
	seed   uint64
	hash   string // of the settings
	Jobs   []Job
}

// run runs the jobs one after the other.
func (g *group) run(ctx context.Context, settings Settings, sink func(Result) error) error {
	d, cut, err := g.source.Open(dataset.Cut{Seed: g.seed})
	if err != nil {
		return fmt.Errorf("table: %s, seed %d: %w", g.source.Name, g.seed, err)
	}
	rates, err := settings.Rates.Of(d.Classes)
	if err != nil {
		return fmt.Errorf("table: %s: %w", g.source.Name, err)
	}
	type run struct {
		tr     *trainer
		stream *replay
	}
	runs := memo{} // by whether training sees the whole graph
	for _, job := range g.Jobs {
		on, err := recall(runs, job.Protocol == transductive, func() (r run, err error) {
			if r.tr, err = newTrainer(ctx, d, cut, settings, g.seed); err != nil {
				return r, err
			}
			if job.Protocol == transductive {
				if err := r.tr.seeWhole(newReplay(d, cut, r.tr.normalizer)); err != nil {
					return r, err
				}
			}
			r.stream = newReplay(d, cut, r.tr.normalizer)
			r.stream.withhold(settings.Withheld, rates, g.seed)
			return r, nil
		})
		if err != nil {
			return fmt.Errorf("table: seed %d: %w", g.seed, err)
		}
		r, err := evaluate(job.System, on.tr, on.stream, job.Protocol)
		if err != nil {
			return fmt.Errorf("table: %s, %s, %s, seed %d: %w", job.Dataset, job.Protocol, job.System, job.Seed, err)
		}
		if x := r.Stream.NLL; math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("table: %s, %s, %s, seed %d: the probabilities are not finite", job.Dataset, job.Protocol,
				job.System, job.Seed)
		}
		r.Job, r.Settings, r.Ordered = job, g.hash, g.source.Ordered
		if err := sink(r); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for every i below n, on the given number of goroutines, at least one. The first error
// cancels the context of the other calls, and is returned.
func each(ctx context.Context, parallel, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(parallel, 1))
	for i := range n {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return do(ctx, i)
		})
	}
	return g.Wait()
}
