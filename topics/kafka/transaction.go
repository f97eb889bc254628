package kafka

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics/crash"
)

// addPartitions adds those partitions of the batches to the transaction that are
// not in it yet.
func (p *Producer) addPartitions(ctx context.Context, batches []sealedBatch) error {
	topics := make(map[string][]kafkago.AddPartitionToTxn)
	for _, b := range batches {
		if !p.open[b.at] {
			topics[b.at.Topic] = append(topics[b.at.Topic], kafkago.AddPartitionToTxn{Partition: int(b.at.Partition)})
		}
	}
	if len(topics) == 0 {
		return nil
	}
	err := p.client.retryReplicated(ctx, p.cfg.RetryFor, p.topics, func(ctx context.Context) error {
		res, err := p.client.client.AddPartitionsToTxn(ctx, &kafkago.AddPartitionsToTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), Topics: topics,
		})
		if err != nil {
			return err
		}
		return worstOf(res.Topics, func(p kafkago.AddPartitionToTxnPartition) error { return p.Error })
	})
	if denied(err) { // of which topic, not every broker says
		err = cmp.Or(p.client.MayWrite(ctx, slices.Collect(maps.Keys(topics))...), err)
	}
	if err != nil {
		return err
	}
	for _, b := range batches {
		p.open[b.at] = true
	}
	return nil
}

// addOffsets adds offsets of a consumer group to the transaction.
func (p *Producer) addOffsets(ctx context.Context, group string, offsets map[TopicPartition]int64) error {
	crash.Point(crash.BeforeOffsets)
	err := p.client.retry(ctx, p.cfg.RetryFor, func(ctx context.Context) error {
		res, err := p.client.client.AddOffsetsToTxn(ctx, &kafkago.AddOffsetsToTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), GroupID: group,
		})
		if err != nil {
			return err
		}
		return res.Error
	})
	if err != nil {
		return p.client.explainDenied(err, "Read", "group "+group)
	}
	topics := make(map[string][]kafkago.TxnOffsetCommit)
	for at, offset := range offsets {
		topics[at.Topic] = append(topics[at.Topic], kafkago.TxnOffsetCommit{Partition: int(at.Partition), Offset: offset})
	}
	err = p.client.retryReplicated(ctx, p.cfg.RetryFor, nil, func(ctx context.Context) error {
		res, err := p.client.client.TxnOffsetCommit(ctx, &kafkago.TxnOffsetCommitRequest{
			TransactionalID: p.cfg.TransactionalID, GroupID: group, GenerationID: -1,
			ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), Topics: topics,
		})
		if err != nil {
			return err
		}
		return worstOf(res.Topics, func(p kafkago.TxnOffsetCommitPartition) error { return p.Error })
	})
	if err == nil {
		crash.Point(crash.AfterOffsets)
	}
	return err
}

// end commits or aborts the transaction. It may be retried: if the first request
// was accepted, Kafka answers with success, or that markers are being written. If the
// first one is still on its way, it could end the next transaction, so that has another epoch.
func (p *Producer) end(ctx context.Context, within time.Duration, commit bool) error {
	tries := 0
	return p.client.retryReplicated(ctx, within, p.topics, func(ctx context.Context) error {
		tries++
		p.lateEnd = tries > 1
		res, err := p.client.client.EndTxn(ctx, &kafkago.EndTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), Committed: commit,
		})
		if err != nil {
			return err
		}
		return res.Error
	})
}
