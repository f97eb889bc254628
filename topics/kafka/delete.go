package kafka

import (
	"context"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// kafka-go has no request to delete records; this is its version 0 (KIP-107).

func init() { protocol.Register(&deleteRequest{}, &deleteResponse{}) }

type deleteRequest struct {
	Topics    []deleteTopic `kafka:"min=v0,max=v0"`
	TimeoutMs int32         `kafka:"min=v0,max=v0"`
}

type deleteTopic struct {
	Name       string            `kafka:"min=v0,max=v0"`
	Partitions []deletePartition `kafka:"min=v0,max=v0"`
}

type deletePartition struct {
	Partition int32 `kafka:"min=v0,max=v0"`
	Offset    int64 `kafka:"min=v0,max=v0"`
}

type deleteResponse struct {
	ThrottleTimeMs int32           `kafka:"min=v0,max=v0"`
	Topics         []deletedTopics `kafka:"min=v0,max=v0"`
}

type deletedTopics struct {
	Name       string             `kafka:"min=v0,max=v0"`
	Partitions []deletedPartition `kafka:"min=v0,max=v0"`
}

type deletedPartition struct {
	Partition int32 `kafka:"min=v0,max=v0"`
	First     int64 `kafka:"min=v0,max=v0"`
	ErrorCode int16 `kafka:"min=v0,max=v0"`
}

func (*deleteRequest) ApiKey() protocol.ApiKey  { return protocol.DeleteRecords }
func (*deleteResponse) ApiKey() protocol.ApiKey { return protocol.DeleteRecords }

// Broker returns the leader of the one partition.
func (r *deleteRequest) Broker(c protocol.Cluster) (protocol.Broker, error) {
	t := &r.Topics[0]
	if p, ok := c.Topics[t.Name].Partitions[t.Partitions[0].Partition]; ok {
		if b, ok := c.Brokers[p.Leader]; ok {
			return b, nil
		}
	}
	return protocol.Broker{}, kafkago.LeaderNotAvailable
}

// DeleteRecords deletes the records of a partition before an offset.
func (c *Client) DeleteRecords(ctx context.Context, at TopicPartition, before int64) error {
	const within = 30 * time.Second
	return c.retry(ctx, within, func(ctx context.Context) error {
		m, err := c.transport.RoundTrip(ctx, c.client.Addr, &deleteRequest{
			Topics:    []deleteTopic{{at.Topic, []deletePartition{{int32(at.Partition), before}}}},
			TimeoutMs: int32(within / time.Millisecond),
		})
		if err != nil {
			return err
		}
		for _, t := range m.(*deleteResponse).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return fmt.Errorf("deleting the records of %s partition %d before offset %d: %w", at.Topic, at.Partition, before, kafkago.Error(p.ErrorCode))
				}
			}
		}
		return nil
	})
}
