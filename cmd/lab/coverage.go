package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/lab/table"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/posterior/calibration"
)

type coverageCmd struct {
	Plan planFlags `embed:""`

	Target float64  `help:"Target probability that a set holds the right class." default:"0.9"`
	Head   string   `help:"What predicts: pool, or paper, the paper's head." enum:"pool,paper" default:"pool" placeholder:"pool"`
	Delay  []int    `help:"Steps between a node and its label, comma-separated." default:"0,1,10" placeholder:"0,1,10"`
	Groups []string `help:"@coverage_groups" enum:"none,class,floor" default:"floor" placeholder:"floor"`
	JSON   bool     `help:"Print the results as JSON, one line for each stream." name:"json"`
}

var coverageHelp = flags.Texts{
	"coverage_groups": "Nodes that share a threshold, comma-separated: none, all nodes one; class, those of a class; " +
		"floor, all nodes one, and each class one that only widens sets.",
}

// Help is shown by lab coverage --help.
func (coverageCmd) Help() string {
	return "Trains a model on each graph and runs its stream through the worker's engine, with labels in time and " +
		"late. Prints, of the sets in the second half of the stream, the share that held the right class and the " +
		"mean size. Means over seeds, with the standard error."
}

// Run measures every combination and prints a table, or JSON.
func (c coverageCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	var bySteps flags.Delay
	if err := bySteps.UnmarshalText([]byte("0")); err != nil {
		return err
	}
	plan, err := c.Plan.plan(g, bySteps)
	if err != nil {
		return err
	}
	job := table.CoveragePlan{
		Sources: plan.Sources, Seeds: plan.Seeds, Settings: plan.Settings, Delays: c.Delay,
		Head: c.Head, Parallel: plan.Parallel,
	}
	if c.Plan.Parallel == 0 {
		job.Parallel = runtime.GOMAXPROCS(0)
	}
	for _, d := range c.Delay {
		if d < 0 {
			return flags.Usagef("--delay %d: give a number of steps, or 0 for labels at once", d)
		}
	}
	for _, name := range c.Groups {
		var per parts.Per
		if err := setting.Named(&per, parts.PerNone, parts.PerClass, parts.PerFloor).Set(name); err != nil {
			return flags.Usagef("--groups %v", err)
		}
		job.Sets = append(job.Sets, pipeline.Coverage{Target: c.Target, Per: per})
	}
	bar := flags.NewProgress(p.Err, "coverage", len(job.Sources)*len(job.Seeds)*len(job.Delays)*len(job.Sets))
	var found []table.CoverageResult
	if err := table.Coverage(ctx, job, func(r table.CoverageResult) error {
		found = append(found, r)
		bar.Set(len(found), fmt.Sprintf("%s seed %d", r.Dataset, r.Seed))
		return nil
	}); err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(p.Out)
		for _, r := range found {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "data set\tlate\tper\tcovered, %\tclasses\tworst class\tright, %\t\n")
	for _, source := range job.Sources {
		for _, delay := range job.Delays {
			for _, sets := range job.Sets {
				printCoverage(w, slices.DeleteFunc(slices.Clone(found), func(r table.CoverageResult) bool {
					return r.Dataset != source.Name || r.Delay != delay || r.Per != sets.Per.String()
				}))
			}
		}
	}
	return w.Flush()
}

// printCoverage prints a line for the results that differ by seed alone.
func printCoverage(w io.Writer, seeds []table.CoverageResult) {
	var rates []float64
	var size, lowest, right float64
	for _, r := range seeds {
		rates = append(rates, r.Sets.Rate())
		size += r.Sets.MeanSize()
		lowest += r.Lowest
		right += float64(r.Correct) / float64(r.Sets.Rows)
	}
	rate, se := calibration.MeanAndError(rates)
	n := float64(len(rates))
	fmt.Fprintf(w, "%s\t%d\t%s\t%.1f ± %.1f\t%.2f\t%.1f\t%.1f\t\n",
		seeds[0].Dataset, seeds[0].Delay, seeds[0].Per, 100*rate, 100*se, size/n, 100*lowest/n, 100*right/n)
}
