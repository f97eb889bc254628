package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"

	"github.com/gvbll/gvbll/cmd/gvbll/table"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// coverageFlags say which sets predictions carry.
type coverageFlags struct {
	Coverage      float64 `help:"Put a set of classes into every prediction that holds the node's with this probability, such as 0.9; 0 for none." default:"0"`
	SetScore      string  `help:"What decides who is in a set: lac (smallest sets), aps or raps (sets that grow with the node's difficulty)." enum:"lac,aps,raps" default:"lac" placeholder:"lac"`
	SetMethod     string  `help:"How thresholds follow the stream: aci, pid, or fixed after 500 labels." enum:"aci,pid,fixed" default:"aci" placeholder:"aci"`
	SetsPer       string  `help:"Which nodes have a threshold, and a coverage, of their own: each class, each slice by degree, or none." enum:"class,slice,none" default:"none" placeholder:"none"`
	MinConfidence float64 `help:"With --coverage: say abstain below this confidence; 0 for never."`
	MaxSetSize    int     `help:"With --coverage: say abstain when a set has more classes, or none at all; 0 for never."`
	MaxOutside    float64 `help:"With --coverage: say abstain when an embedding is further from the first nodes than so many times what 99 in 100 of them are, such as 2; 0 for never."`
}

func (f coverageFlags) coverage() pipeline.Coverage {
	return pipeline.Coverage{
		Target: f.Coverage, Score: scoreNamed(f.SetScore), Method: methodNamed(f.SetMethod), Per: perNamed(f.SetsPer),
		MinConfidence: f.MinConfidence, MaxSize: f.MaxSetSize, MaxOutside: f.MaxOutside,
	}
}

// The names were checked by the grammar.

func scoreNamed(name string) conformal.Kind {
	return valueNamed(name, conformal.LAC, conformal.APS, conformal.RAPS)
}

func methodNamed(name string) conformal.Method {
	return valueNamed(name, conformal.ACI, conformal.PID, conformal.Fixed)
}

func perNamed(name string) pipeline.Per {
	return valueNamed(name, pipeline.PerNone, pipeline.PerClass, pipeline.PerSlice)
}

// valueNamed returns the value of the name, the first where there is none.
func valueNamed[T fmt.Stringer](name string, values ...T) T {
	return values[max(slices.IndexFunc(values, func(v T) bool { return v.String() == name }), 0)]
}

type coverageCmd struct {
	Plan planFlags `embed:""`

	Target float64  `help:"Share of sets that are to hold the class." default:"0.9"`
	Head   string   `help:"What serves: pool, or paper, the paper's head." enum:"pool,paper" default:"pool" placeholder:"pool"`
	Delay  []int    `help:"Steps by which labels come late, comma-separated." default:"0,1,10"`
	Score  []string `help:"Scores: lac, aps, raps." enum:"lac,aps,raps" default:"lac" placeholder:"NAME"`
	Method []string `help:"Methods: aci, pid, fixed." enum:"aci,pid,fixed" default:"aci,fixed" placeholder:"NAME"`
	Per    []string `help:"Thresholds: none, class, slice." enum:"none,class,slice" default:"none" placeholder:"NAME"`
	JSON   bool     `help:"Print the results as JSON, a line for each stream." name:"json"`
	Limits struct {
		MaxOutside float64 `help:"Count predictions whose embedding is further away than so many times what 99 in 100 of the first nodes are; 0 for none."`
	} `embed:""`
}

// Help is shown by gvbll coverage --help.
func (coverageCmd) Help() string {
	return "Trains, streams and serves sets of classes through the worker's engine, with labels in time and late, and prints how many of the second half held their class, and how large they were, beside a threshold that stays fixed. Mean over seeds; the error is that of the mean."
}

// Run prints a table.
func (c coverageCmd) Run(ctx context.Context, s streams) error {
	plan, err := c.Plan.plan()
	if err != nil {
		return err
	}
	job := table.CoveragePlan{Sources: plan.Sources, Seeds: plan.Seeds, Settings: plan.Settings, Delays: c.Delay, Head: c.Head, Parallel: plan.Parallel}
	if c.Plan.Parallel == 0 {
		job.Parallel = runtime.GOMAXPROCS(0)
	}
	for _, d := range c.Delay {
		if d < 0 {
			return usagef("--delay %d: give 0 for labels at once, or steps", d)
		}
	}
	for _, score := range c.Score {
		for _, per := range c.Per {
			for _, method := range c.Method {
				job.Sets = append(job.Sets, pipeline.Coverage{
					Target: c.Target, Score: scoreNamed(score), Method: methodNamed(method), Per: perNamed(per), MaxOutside: c.Limits.MaxOutside,
				})
			}
		}
	}
	bar := newProgress(s.err, "coverage", len(job.Sources)*len(job.Seeds)*len(job.Delays)*len(job.Sets))
	var found []table.CoverageResult
	if err := table.Coverage(ctx, job, func(r table.CoverageResult) error {
		found = append(found, r)
		bar.set(len(found), fmt.Sprintf("%s seed %d", r.Dataset, r.Seed))
		return nil
	}); err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(s.out)
		for _, r := range found {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	return printCoverage(s.out, job, found)
}

// printCoverage prints a line for every data set, delay and way to make sets.
func printCoverage(w io.Writer, job table.CoveragePlan, found []table.CoverageResult) error {
	fmt.Fprintf(w, "%-14s %5s %-6s %-6s %-6s %12s %8s %12s %9s %8s\n", "data set", "late", "score", "method", "per", "covered, %", "classes", "worst class", "right, %", "abstain")
	for _, source := range job.Sources {
		for _, delay := range job.Delays {
			for _, sets := range job.Sets {
				var rate, size, worst, right, abstain, square, n float64
				for _, r := range found {
					if r.Dataset != source.Name || r.Delay != delay || r.Score != sets.Score.String() || r.Method != sets.Method.String() || r.Per != sets.Per.String() {
						continue
					}
					n++
					rate += r.Sets.Rate()
					square += r.Sets.Rate() * r.Sets.Rate()
					size += r.Sets.MeanSize()
					worst += r.Worst
					right += float64(r.Correct) / float64(r.Sets.Rows)
					abstain += float64(r.Abstain) / float64(r.Served)
				}
				rate /= n
				se := 0.
				if n > 1 {
					se = math.Sqrt(max(square/n-rate*rate, 0) / (n - 1))
				}
				if _, err := fmt.Fprintf(w, "%-14s %5d %-6v %-6v %-6v %6.1f ± %3.1f %8.2f %12.1f %9.1f %8.1f\n",
					source.Name, delay, sets.Score, sets.Method, sets.Per, 100*rate, 100*se, size/n, 100*worst/n, 100*right/n, 100*abstain/n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
