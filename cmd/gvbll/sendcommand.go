package main

import (
	"context"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// sendCommand sends a command to the workers of a graph. It returns the end of the
// topic afterwards, an offset greater than the command's.
func sendCommand(ctx context.Context, g look.Graph, c *event.Command) (end int64, err error) {
	at := g.Names.At(g.Names.Commands)
	if _, err := look.BoundsOf(ctx, g.Client, at.Topic); err != nil {
		return 0, err
	}
	p, err := g.Client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	if err := p.Send(ctx, []kafka.Record{{
		Topic: at.Topic, Partition: at.Partition, Value: wire.AppendCommand(nil, c), Time: time.Now(),
		Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}},
	}}); err != nil {
		return 0, err
	}
	bounds, err := g.Client.Offsets(ctx, at.Topic)
	return bounds[at].End, err
}
