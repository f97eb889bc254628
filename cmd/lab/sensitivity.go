package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/lab/table"
)

type sensitivityCmd struct {
	Plan planFlags `embed:""`

	Vary       []string  `help:"Parameters to vary, one at a time: ${parameters}; all when left out." placeholder:"NAME"`
	VarySteps  []float64 `help:"Numbers of steps to try, which decide the size of a batch." default:"5,10,20,40,80" placeholder:"N"`
	VaryShare  []float64 `help:"Shares of training nodes to try." default:"0.05,0.1,0.2,0.4" placeholder:"SHARE"`
	VaryLambda []float64 `help:"Values of λ, forgetting, to try." default:"0.9,0.95,0.97,0.99,0.995,1" placeholder:"λ"`
	VaryEta    []float64 `help:"Step sizes η to try." default:"0.03,0.1,0.3,1" placeholder:"η"`
	VaryBeta   []float64 `help:"Strengths β of the anchor to try." default:"0,0.001,0.01,0.1" placeholder:"β"`
	JSON       string    `help:"File to write a JSON array into, with an object for each value, data set and protocol; - for standard output, without the table." name:"json" type:"path" placeholder:"FILE"`
	Plots      string    `help:"Folder to write plots into, as SVG and PNG, one for each parameter." type:"path" placeholder:"DIR"`
}

// Help is shown by lab sensitivity --help.
func (sensitivityCmd) Help() string {
	return "Measures what the paper leaves open: how GVBLL-Online depends on the size of a batch, the number of training nodes, and λ, η and β, varied one at a time."
}

// Run measures all values and prints a table.
func (c sensitivityCmd) Run(ctx context.Context, s flags.Process, g flags.Given) error {
	plan, err := c.Plan.plan(g)
	if err != nil {
		return err
	}
	if err := errors.Join(flags.CheckOutput("--json", c.JSON), flags.CheckFolder("--plots", c.Plots)); err != nil {
		return err
	}
	values := map[string][]float64{"steps": c.VarySteps, "train-share": c.VaryShare, "lambda": c.VaryLambda, "eta": c.VaryEta, "beta": c.VaryBeta}
	for _, name := range c.Vary {
		if values[name] == nil {
			return flags.Usagef("--vary %s: give some of %s", name, strings.Join(table.Parameters, ", "))
		}
	}
	var sweeps []table.Sweep
	for _, name := range table.Parameters {
		if len(c.Vary) == 0 || slices.Contains(c.Vary, name) {
			sweeps = append(sweeps, table.Sweep{Param: name, Values: values[name]})
		}
	}
	total := len(plan.Sources) * len(plan.Seeds)
	bar, done := flags.NewProgress(s.Err, "sensitivity", total), 0
	points, err := table.Sensitivity(ctx, plan, sweeps, func(dataset string, seed uint64) {
		done++
		bar.Set(done, fmt.Sprintf("%s seed %d", dataset, seed))
	})
	if err != nil {
		return err
	}
	if err := writePictures(c.Plots, table.SensitivityPictures(points)); err != nil {
		return err
	}
	if c.JSON != "" {
		if err := flags.WriteJSON(s.Out, c.JSON, points); err != nil || c.JSON == "-" {
			return err
		}
	}
	at := ""
	for _, p := range points {
		if p.Param != at {
			at = p.Param
			fmt.Fprintf(s.Out, "\n%-12s %-12s %-8s %17s %17s %17s\n", at, "data set", "protocol", "accuracy %", "NLL", "ECE")
		}
		fmt.Fprintf(s.Out, "%-12v %-12s %-8s %9.1f ± %5.1f %9.3f ± %.3f %9.3f ± %.3f\n",
			p.Value, p.Dataset, p.Protocol, 100*p.Acc, 100*p.AccSE, p.NLL, p.NLLSE, p.ECE, p.ECESE)
	}
	return nil
}
