package main

import (
	"context"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/sender"
)

type graphsCmd struct {
	Data       string  `help:"Data set of graphs (docs/datasets.md)." required:"" type:"path" placeholder:"PATH"`
	Encoder    string  `help:"@graphs_encoder" enum:"gin,graphsage,gcn,gat" default:"gin" placeholder:"gin"`
	Delay      int     `help:"Steps between a graph and its label." default:"0"`
	Seeds      int     `help:"Number of seeds, from 1 on." default:"3"`
	Steps      int     `help:"Number of steps to cut the stream into; 0 keeps that of the data set." default:"0"`
	TrainShare float64 `help:"Share of the graphs to train on; 0 keeps the split of the data set." default:"0"`
	Epochs     int     `help:"Number of epochs of the training." default:"100"`
	Dropout    float64 `help:"Dropout of features and hidden states; 0 for none." default:"0"`
	JSON       bool    `help:"Print an object for each head and seed, one a line." name:"json"`
}

var graphsHelp = flags.Texts{
	"graphs_encoder": "Encoder of the graphs' nodes: gin, graphsage, gcn or gat.",
}

// graphsScore is what one head scored on one seed.
type graphsScore struct {
	Head     string  `json:"head"`
	Seed     uint64  `json:"seed"`
	Accuracy float64 `json:"accuracy"`
	NLL      float64 `json:"nll"`
	graphs   int
}

// Help is shown by lab graphs --help.
func (graphsCmd) Help() string {
	return "Trains a model on the training graphs and runs the stream through the worker's engine. Each graph is " +
		"scored before its label is learned."
}

// Run measures every seed and prints means over them.
func (c graphsCmd) Run(ctx context.Context, p flags.Process) error {
	if c.Delay < 0 || c.Seeds < 1 {
		return flags.Usagef("--delay %d, --seeds %d: give no negative delay, and at least one seed", c.Delay, c.Seeds)
	}
	var all []graphsScore
	for seed := range uint64(c.Seeds) {
		set, err := flags.Data{Data: c.Data, Seed: seed + 1, TrainShare: c.TrainShare, Steps: c.Steps}.Open()
		if err != nil {
			return err
		}
		if set.Graphs == nil {
			return flags.Usagef("--data %s: it is one graph, whose nodes are classified: see lab table", c.Data)
		}
		if seed == 0 {
			fmt.Fprintln(p.Err, set)
		}
		m, err := holdout.Train(ctx, set.Training(), model.Config{
			Encoder: gnn.Kind(c.Encoder), Epochs: c.Epochs, Dropout: flags.OrNone(c.Dropout), Pool: true, Seed: seed + 1,
		}, nil)
		if err != nil {
			return err
		}
		scores, err := c.replay(set.Stream(), m)
		if err != nil {
			return err
		}
		for _, s := range scores {
			s.Seed = seed + 1
			all = append(all, s)
		}
	}
	if c.JSON {
		return printLines(p.Out, all)
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "head\taccuracy %\tNLL")
	for len(all) > 0 {
		var sum graphsScore
		for _, s := range all {
			if s.Head == all[0].Head {
				sum.Accuracy, sum.NLL = sum.Accuracy+s.Accuracy, sum.NLL+s.NLL
			}
		}
		fmt.Fprintf(w, "%s\t%.1f\t%.3f\n", all[0].Head, 100*sum.Accuracy/float64(c.Seeds), sum.NLL/float64(c.Seeds))
		first := all[0].Head
		all = slices.DeleteFunc(all, func(s graphsScore) bool { return s.Head == first })
	}
	return w.Flush()
}

// replay returns the mean scores of every head of a model on a stream.
func (c graphsCmd) replay(stream *sender.Stream, m *model.Model) ([]graphsScore, error) {
	e, err := pipeline.New(m, pipeline.Config{Local: pipeline.Local{Unwatched: true}})
	if err != nil {
		return nil, err
	}
	var scores []graphsScore
	for i := range len(stream.Steps) + c.Delay + 1 {
		w := &event.Window{Number: int64(i)}
		if i < len(stream.Steps) {
			for _, item := range stream.Steps[i] {
				item.Node.Origin = &event.Origin{}
				w.Nodes = append(w.Nodes, item.Node)
			}
		}
		if at := i - 1 - c.Delay; at >= 0 {
			for _, item := range stream.Steps[at] {
				if item.Class != "" {
					w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: item.Node.ID, Class: item.Class})
				}
			}
		}
		out := e.Step(w)
		if len(out.Refused) > 0 {
			return nil, fmt.Errorf("a graph or label is refused: %s", out.Refused[0].Detail)
		}
		for k, h := range out.Heads {
			if k == len(scores) {
				scores = append(scores, graphsScore{Head: h.Name})
			}
			for _, s := range h.Scores {
				scores[k].graphs++
				scores[k].NLL += s.LogLoss
				if s.Correct {
					scores[k].Accuracy++
				}
			}
		}
	}
	for k := range scores {
		n := float64(max(scores[k].graphs, 1))
		scores[k].Accuracy, scores[k].NLL = scores[k].Accuracy/n, scores[k].NLL/n
	}
	return scores, nil
}
