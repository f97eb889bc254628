package main

import (
	"math"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/shards"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
)

type sizeCmd struct {
	Model string `help:"Model file, from 'gvbll train'." required:"" type:"path" placeholder:"FILE"`

	Nodes   float64       `help:"Nodes of the graph, such as 100e6." required:"" placeholder:"NUMBER"`
	Degree  float64       `help:"Neighbours that a node names when it arrives. Nodes have twice as many edges on average." default:"7"`
	Nonzero float64       `help:"Features of a node that are not 0, where the model's heads keep sparse features; all when left out." placeholder:"NUMBER"`
	Pending flags.Pending `help:"Predictions that wait for their label, and the memory for what was served of them, as 'gvbll work --rows bfloat16' does." default:"max=262144,memory=1GiB" placeholder:"max=262144,memory=1GiB"`
	Head    string        `help:"What predicts, as in 'gvbll work'." enum:",pool,paper" default:"" placeholder:"NAME"`

	BFloat16 bool       `help:"Keep the graph's vectors as bfloat16, as in 'gvbll work'." name:"bfloat16"`
	Memory   flags.Size `help:"Memory of a worker: the fewest shards that fit into it are named." default:"64GiB" placeholder:"64GiB"`
	Shards   int        `help:"Compute this number of shards only." placeholder:"NUMBER"`
	JSON     bool       `help:"Print JSON." name:"json"`
}

// Help is shown by gvbll size --help.
func (sizeCmd) Help() string {
	return "Computes it for one worker, and for a graph that several workers share by shards, with what they exchange over Kafka (docs/sharding.md has the formulas). It needs the model file alone. A standby needs as much as the worker that it stands in for."
}

// Run prints the sizes.
func (c sizeCmd) Run(p flags.Process) error {
	switch {
	case !(c.Nodes >= 1 && c.Nodes <= math.MaxInt32):
		return flags.Usagef("--nodes %g: give 1 to %d, as an engine numbers nodes by 31 bits", c.Nodes, math.MaxInt32)
	case !(c.Degree >= 0 && c.Degree <= 1e6):
		return flags.Usagef("--degree %g: give a number of neighbours such as 7", c.Degree)
	case !(c.Nonzero >= 0 && c.Nonzero <= 1e9):
		return flags.Usagef("--nonzero %g: give a number of features", c.Nonzero)
	case c.Memory < 1:
		return flags.Usagef("--memory %v: give a size such as 64GiB", c.Memory)
	}
	m, err := model.Open(c.Model)
	if err != nil {
		return err
	}
	sizes, err := c.sizes(m)
	if err != nil {
		return err
	}
	if c.JSON {
		return flags.PrintJSON(p.Out, sizes)
	}
	return sizes.Print(p.Out)
}

// sizes computes the sizes for a model.
func (c sizeCmd) sizes(m *model.Model) (shards.Sizing, error) {
	cfg, err := flags.ValidSettings(pipeline.Config{Head: c.Head, BFloat16: c.BFloat16, MaxPending: c.Pending.Max, Unwatched: true})
	if err != nil {
		return shards.Sizing{}, err
	}
	load := pipeline.Load{Nodes: int(c.Nodes), Degree: 2 * c.Degree, Nonzero: c.Nonzero, Pending: c.Pending.Max}
	if load.Nonzero == 0 {
		load.Nonzero = float64(m.Encoder.In())
	}
	return shards.Sizes(m, shards.Question{
		Config: cfg, Load: load, Edges: int(c.Nodes * c.Degree), Rows: int64(c.Pending.Memory), Memory: int64(c.Memory), Shards: c.Shards,
	})
}
