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
func sendCommand(ctx context.Context, client *kafka.Client, topic string, c *event.Command) (end int64, err error) {
	at := kafka.TopicPartition{Topic: topic}
	if _, err := look.BoundsOf(ctx, client, topic); err != nil {
		return 0, err
	}
	p, err := client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return 0, err
	}
	if err := p.Send(ctx, []kafka.Record{{
		Topic: topic, Value: wire.AppendCommand(nil, c), Time: time.Now(),
		Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}},
	}}); err != nil {
		return 0, err
	}
	bounds, err := client.Offsets(ctx, topic)
	return bounds[at].End, err
}
