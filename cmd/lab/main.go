// Command lab measures: the paper's comparison, and the coverage of sets of classes. It also makes synthetic
// graphs. See docs/lab.md. What an arrival costs is measured by the benchmarks of package bench.
package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/lab/table"
)

func main() { program(new(cli)).Main("") }

// cli is the command line. Every flag can also be given as an environment
// variable, GVBLL_ and its name in capitals, and in a file of flags.
type cli struct {
	Generate generateCmd `cmd:"" help:"Write a synthetic graph that drifts as a data set."`
	Table    tableCmd    `cmd:"" help:"Run the paper's comparison (Table I): nine systems on the same streams."`
	Coverage coverageCmd `cmd:"" help:"Measure how sets of classes keep their coverage under drift and with late labels."`
}

// program returns the program with the commands c.
func program(c *cli) flags.Program {
	c.Table.Plan.Update, c.Coverage.Plan.Update = flags.NewEngine(flags.UpdateFlags...), flags.NewEngine(flags.UpdateFlags...)
	return flags.Program{
		Name: "lab", Commands: c,
		Description: "Measures gvbll, and makes synthetic graphs for it.",
		Vars:        kong.Vars{"systems": strings.Join(table.Known, ", ")},
		Help:        []flags.Texts{coverageHelp, generateHelp, tableHelp, planHelp},
	}
}
