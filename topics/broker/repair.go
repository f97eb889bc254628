package broker

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// abortOpen writes an abort marker into every partition for every producer
// whose last transaction there has no end.
func abortOpen(ctx context.Context, addr string) error {
	// Versions that still name topics in fetch requests.
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MaxVersions(kversion.V2_8_0()))
	if err != nil {
		return err
	}
	defer client.Close()
	metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
	if err != nil {
		return err
	}
	node := client.SeedBrokers()[0]
	for _, t := range metadata.Topics {
		for _, p := range t.Partitions {
			open, err := openProducers(ctx, node, *t.Topic, p.Partition)
			if err != nil {
				return fmt.Errorf("%s partition %d: %w", *t.Topic, p.Partition, err)
			}
			for id, epoch := range open {
				if err := abort(ctx, node, id, epoch, *t.Topic, p.Partition); err != nil {
					return fmt.Errorf("%s partition %d: %w", *t.Topic, p.Partition, err)
				}
			}
		}
	}
	return nil
}

// openProducers reads a partition and returns the epochs of the producers that
// have transactional records behind their last marker.
func openProducers(ctx context.Context, node *kgo.Broker, topic string, partition int32) (map[int64]int16, error) {
	offset, err := firstOffset(ctx, node, topic, partition)
	if err != nil {
		return nil, err
	}
	open := make(map[int64]int16)
	for {
		raw, err := fetch(ctx, node, topic, partition, offset)
		if err != nil || len(raw) == 0 {
			return open, err
		}
		for len(raw) > 0 {
			b, rest, err := split(raw)
			if err != nil {
				return nil, fmt.Errorf("behind offset %d: %w", offset, err)
			}
			raw = rest
			offset = b.FirstOffset + int64(b.LastOffsetDelta) + 1
			const transactional, control = 1 << 4, 1 << 5
			switch {
			case b.Attributes&control != 0:
				delete(open, b.ProducerID)
			case b.Attributes&transactional != 0:
				open[b.ProducerID] = b.ProducerEpoch
			}
		}
	}
}

// split takes the first record batch off raw.
func split(raw []byte) (b kmsg.RecordBatch, rest []byte, err error) {
	const head = 12 // offset and length, which counts what follows it
	if len(raw) < head {
		return b, nil, fmt.Errorf("%d bytes where a record batch is to begin", len(raw))
	}
	n := int64(binary.BigEndian.Uint32(raw[head-4:])) + head
	if n > int64(len(raw)) {
		return b, nil, fmt.Errorf("a record batch of %d bytes in %d", n, len(raw))
	}
	return b, raw[n:], b.ReadFrom(raw[:n])
}

func firstOffset(ctx context.Context, node *kgo.Broker, topic string, partition int32) (int64, error) {
	const earliest = -2
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{
		{Partition: partition, CurrentLeaderEpoch: -1, Timestamp: earliest},
	}}}
	res, err := req.RequestWith(ctx, node)
	if err != nil {
		return 0, err
	}
	p := res.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}

func fetch(ctx context.Context, node *kgo.Broker, topic string, partition int32, offset int64) ([]byte, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = 8<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 8<<20
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	res, err := req.RequestWith(ctx, node)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
		return nil, err
	}
	got := res.Topics[0].Partitions[0]
	return got.RecordBatches, kerr.ErrorForCode(got.ErrorCode)
}

func abort(ctx context.Context, node *kgo.Broker, id int64, epoch int16, topic string, partition int32) error {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
		ProducerID: id, ProducerEpoch: epoch,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{partition}}},
	}}
	res, err := req.RequestWith(ctx, node)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(res.Markers[0].Topics[0].Partitions[0].ErrorCode)
}
