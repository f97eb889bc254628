package trial

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// sender sends records to a graph's input topics.
type sender struct {
	g        *graph
	producer *kafka.Producer
	records  []kafka.Record // not sent yet
}

func (g *graph) newSender(ctx context.Context) *sender {
	return &sender{g: g, producer: need(g.setup.Client.NewProducer(ctx, kafka.ProducerConfig{}))}
}

// put adds a record, to the partition of its key if partition is negative.
func (s *sender) put(topic string, key, value []byte, partition int) {
	if partition < 0 {
		partition = int(kafka.PartitionFor(key, partitions))
	}
	s.records = append(s.records, kafka.Record{Topic: topic, Partition: int32(partition), Key: key, Value: value})
}

func (s *sender) node(n *event.Node) {
	s.put(s.g.names.Nodes, wire.AppendKey(nil, n.ID), wire.AppendNode(nil, n), -1)
}

func (s *sender) label(l *event.Label) {
	s.put(s.g.names.Labels, wire.AppendKey(nil, l.Node), wire.AppendLabel(nil, l), -1)
}

// poison adds record n of those that cannot be decoded.
func (s *sender) poison(topic string, n int) {
	key := fmt.Appendf(nil, "poison-%d", n)
	s.put(topic, key, fmt.Appendf([]byte{0xc1}, "%d", n), -1)
}

// send sends the records that were put. If it is unknown whether they arrived, it sends
// them again, so the topics may hold them twice.
func (s *sender) send(ctx context.Context) {
	if len(s.records) > 0 {
		must(s.producer.SendAgain(ctx, s.records))
	}
	s.records = s.records[:0]
}
