package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// openTransaction is one that its producer has not ended. Nobody gets what is behind its first record.
type openTransaction struct {
	At       TopicPartition
	Producer int64 // its id
	Since    time.Time
}

// OpenTransactions returns the open transactions whose last record is older than a time, as far as the leaders of the topics'
// partitions say: those before Kafka 2.8 do not.
func (c *Client) OpenTransactions(ctx context.Context, before time.Time, topics ...string) (open []openTransaction, err error) {
	leaders, err := c.catalog.leaders(ctx, topics, time.Time{})
	if err != nil {
		return nil, err
	}
	for at, leader := range leaders {
		ask, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
		answer, err := c.transport.exchange(ask, int32(leader), &kmsg.DescribeProducersRequest{
			Topics: []kmsg.DescribeProducersRequestTopic{{Topic: at.Topic, Partitions: []int32{at.Partition}}},
		}, nil)
		cancel()
		if err != nil {
			continue // it does not say
		}
		for _, t := range answer.Response.(*kmsg.DescribeProducersResponse).Topics {
			for _, p := range t.Partitions {
				for _, x := range p.ActiveProducers {
					if last := time.UnixMilli(x.LastTimestamp); x.CurrentTxnStartOffset >= 0 && last.Before(before) {
						open = append(open, openTransaction{at, x.ProducerID, last})
					}
				}
			}
		}
	}
	return open, nil
}
