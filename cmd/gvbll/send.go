package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
)

type sendCmd struct {
	Kafka  flags.Inputs `embed:""`
	Data   flags.Data   `embed:""`
	Events string       `help:"@send_events" placeholder:"FILE"`

	Labels       string  `help:"@send_labels" enum:"predicted,delayed,never" default:"predicted" placeholder:"predicted"`
	Rate         float64 `help:"Node events to send a second, or lines of --events; 0 for no limit." default:"0"`
	Resume       bool    `help:"Leave out the nodes and labels that the topics hold already."`
	Loop         bool    `help:"@send_loop"`
	CellBy       string  `help:"@send_cell_by" placeholder:"ATTRIBUTE"`
	CreateTopics int     `help:"Create missing topics with this many partitions; 0 creates none." default:"0" group:"kafka"`
}

var sendHelp = flags.Texts{
	"send_events": "Send the events of this file, JSON lines as in docs/wire-format.md: nodes, labels (with node), " +
		"commands; - for standard input.",
	"send_labels": "When to send labels: predicted (those of a step once its predictions are published), delayed " +
		"(--label-delay node events later) or never.",
	"send_cell_by": "What decides a node's cell: an attribute, such as tenant, or prefix=/ for what its id has " +
		"before the first slash.",
	"send_loop": "Send the steps again, without end, as new nodes (7/2, 7/3, …). --rate is of the steps then.",
}

// Help is shown by gvbll send --help.
func (sendCmd) Help() string {
	return "First come the training and warm-up nodes as context, then the stream, step after step, each node with " +
		"the neighbours that came before it or with it. Events have the time at which they are sent, those of a " +
		"data set with keys or times of labels their own. While no broker answers it waits, and may send some " +
		"events twice, which changes nothing."
}

func (c sendCmd) check(g flags.Given) error {
	switch {
	case c.CreateTopics < 0:
		return flags.Usagef("--create-topics %d: give a number of partitions, or 0 to create none", c.CreateTopics)
	}
	if err := errors.Join(checkRate(c.Rate), c.Data.Check(g)); err != nil {
		return err
	}
	return g.Check(
		flags.NoEffect(c.Events != "", "no effect on --events: leave out one of them", "data", "drift",
			"train-share", "steps", "seed", "labels", "label-delay", "resume", "loop"),
		flags.NoEffect(c.Labels == string(sender.Never), "no effect with --labels never: leave out one of them", "label-delay"),
	)
}

// checkRate refuses a rate that is negative or not a number.
func checkRate(rate float64) error {
	if !(rate >= 0) {
		return flags.Usagef("--rate %v: give events a second, or 0 for no limit", rate)
	}
	return nil
}

// Run sends the data set, or with --events the file.
func (c sendCmd) Run(ctx context.Context, p flags.Process, g flags.Given) error {
	if err := c.check(g); err != nil {
		return err
	}
	if c.Events != "" {
		return c.events(ctx, p)
	}
	set, err := c.Data.Open()
	if err != nil {
		return err
	}
	stream := set.Stream()
	if err := c.checkCellBy(stream); err != nil {
		return err
	}
	client, names, by, err := c.connect(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	total := stream.Events()
	fmt.Fprintf(p.Err, "sending %s\n", set)
	bar := flags.NewProgress(p.Err, "sent", total)
	nodes, labels := 0, 0
	err = sender.Run(ctx, client, stream, sender.Config{
		Names: names, Labels: sender.Timing(c.Labels), Delay: c.Data.LabelDelay.Steps, Rate: c.Rate, Resume: c.Resume,
		Now: set.Raw == nil && !stream.Timed(), Loop: c.Loop, By: by,
		Progress: func(n, l int) {
			nodes, labels = n, l
			bar.Set(min(n, total), fmt.Sprintf("%d nodes, %d labels", n, l))
		},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "sent %d nodes and %d labels%s\n", nodes, labels, notDue(set))
	return err
}

// checkCellBy refuses an attribute that the first node of a stream does not have.
func (c sendCmd) checkCellBy(stream *sender.Stream) error {
	if c.CellBy == "" || strings.HasPrefix(c.CellBy, "prefix=") {
		return nil
	}
	var columns []string
	for _, items := range append([][]sender.Item{stream.Context}, stream.Steps...) {
		for _, item := range items[:min(len(items), 1)] {
			for _, a := range item.Node.Named {
				columns = append(columns, a.Name)
			}
		}
		if len(columns) > 0 {
			break
		}
	}
	if slices.Contains(columns, c.CellBy) {
		return nil
	}
	return flags.Usagef("--cell-by %s: the nodes have no such attribute, but %.200q: give one of these, or prefix=/ "+
		"for what ids begin with",
		c.CellBy, columns)
}

// notDue says how many labels were sent at the end though the stream ends before their time.
func notDue(set *flags.DataSet) string {
	due := set.Due(set.Split, 0)
	n := len(due[len(due)-1])
	if n == 0 || set.LabelTime == nil {
		return ""
	}
	return fmt.Sprintf(", %s of them at the end: their time is after the last node", look.Grouped(n))
}

// connect connects to Kafka. by decides the cells of nodes, nil where the graph has one.
func (c sendCmd) connect(ctx context.Context, p flags.Process) (client *kafka.Client, names topics.Names, by *sender.CellBy, err error) {
	if c.CellBy != "" {
		if by, err = sender.ParseCellBy(c.CellBy); err != nil {
			return nil, names, nil, flags.Usagef("--cell-by %v", err)
		}
	}
	if client, names, err = connectOrCreate(ctx, p, c.Kafka, c.CreateTopics, topics.Create); err != nil {
		return nil, names, nil, err
	}
	names, err = topics.Divided(ctx, client, names)
	switch {
	case err != nil:
	case names.Cells > 0 && by == nil:
		err = flags.Usagef("the graph has %d cells: say with --cell-by what decides that of a node", names.Cells)
	case names.Cells == 0 && by != nil:
		err = flags.Usagef("--cell-by %s: the graph has one cell: leave it out", c.CellBy)
	}
	if err != nil {
		client.Close()
	}
	return client, names, by, err
}

// events sends the events of a file.
func (c sendCmd) events(ctx context.Context, p flags.Process) error {
	in, err := p.OpenInput(c.Events)
	if err != nil {
		return err
	}
	defer in.Close()
	client, names, by, err := c.connect(ctx, p)
	if err != nil {
		return err
	}
	defer client.Close()
	sent, err := sender.Lines(ctx, client, names, by, in, c.Rate)
	if err != nil {
		return fmt.Errorf("after %d events: %w", sent.All(), err)
	}
	_, err = fmt.Fprintf(p.Out, "sent %d node events, %d labels and %d commands\n", sent.Nodes, sent.Labels, sent.Commands)
	return err
}
