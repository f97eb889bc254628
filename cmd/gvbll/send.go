package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
)

type sendCmd struct {
	Kafka kafkaFlags `embed:""`
	Data  dataFlags  `embed:""`

	Events       string `help:"Send the node events of this file instead, one in JSON a line as in docs/wire-format.md, departures among them; - for standard input." placeholder:"FILE"`
	Labels       string `help:"When labels are sent: predicted (a step's labels once its predictions are published), delayed (--label-delay node events later) or never." enum:"predicted,delayed,never" default:"predicted" placeholder:"predicted"`
	LabelDelay   int    `help:"Delay of the labels: further steps with 'predicted', node events with 'delayed'." default:"0"`
	Resume       bool   `help:"Leave out the nodes and labels that the topics hold already."`
	CreateTopics bool   `help:"Create the topics that are missing."`
}

// Help is shown by gvbll send --help.
func (sendCmd) Help() string {
	return "Nodes go out in the order of arrival: the training nodes first, as context, which the model has\n" +
		"seen and is not asked about; then step after step, each node with its neighbours so far."
}

// Run sends the whole data set.
func (c sendCmd) Run(ctx context.Context, s streams) error {
	if c.LabelDelay < 0 {
		return usagef("--label-delay %d: give 0 or more", c.LabelDelay)
	}
	if c.Events != "" {
		return c.events(ctx, s)
	}
	set, err := c.Data.open()
	if err != nil {
		return err
	}
	client, names, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	stream := set.stream()
	total := stream.Events()
	fmt.Fprintf(s.err, "sending %s\n", set)
	bar := newProgress(s.err, "sent", total)
	nodes, labels := 0, 0
	err = sender.Run(ctx, client, stream, sender.Config{
		Names: names, Labels: sender.Timing(c.Labels), Delay: c.LabelDelay, Rate: c.Data.Rate, Resume: c.Resume,
		Progress: func(n, l int) {
			nodes, labels = n, l
			bar.set(n, fmt.Sprintf("%d nodes, %d labels", n, l))
		},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "sent %d nodes and %d labels\n", nodes, labels)
	return err
}

// connect makes the topics too, where that is asked for.
func (c sendCmd) connect(ctx context.Context) (*kafka.Client, topics.Names, error) {
	client, names, err := c.Kafka.connect(ctx)
	if err != nil || !c.CreateTopics {
		return client, names, err
	}
	if _, err := topics.Create(ctx, client, names, 1, -1); err != nil {
		client.Close()
		return nil, names, err
	}
	return client, names, nil
}

// events sends what a file has.
func (c sendCmd) events(ctx context.Context, s streams) error {
	var in io.Reader = os.Stdin
	if c.Events != "-" {
		f, err := os.Open(c.Events)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	client, names, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	sent, err := sender.Lines(ctx, client, names, in)
	if err != nil {
		return fmt.Errorf("after %d events: %w", sent, err)
	}
	_, err = fmt.Fprintf(s.out, "sent %d node events\n", sent)
	return err
}
