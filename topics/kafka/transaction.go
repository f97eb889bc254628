package kafka

import (
	"context"
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
	if err != nil {
		return err
	}
	for _, b := range batches {
		p.open[b.at] = true
	}
	return nil
}

// begin opens a new session if no transaction is open and a request that ended an earlier one may
// arrive yet: a broker takes it for the end of any transaction of its epoch (KIP-890). The group
// offsets for the transaction are kept.
func (p *Producer) begin(ctx context.Context) error {
	if !p.lateEnd || p.ended != nil || len(p.open) > 0 || p.adding != nil {
		return nil
	}
	group := p.group
	if err := p.Restart(ctx); err != nil {
		return err
	}
	p.group = group
	return nil
}

// groupOffsets are offsets of a consumer group.
type groupOffsets struct {
	group   string
	offsets map[TopicPartition]int64
}

// SetOffsets gives offsets of a consumer group, which the transaction commits: the open one,
// or else the next. Produce sends them beside the records, since they take two more
// requests that would otherwise delay the end; End sends those that came after the first
// Produce. An empty group has none. The map must not be changed afterwards.
func (p *Producer) SetOffsets(group string, offsets map[TopicPartition]int64) {
	if group != "" && len(offsets) > 0 {
		p.group = groupOffsets{group, offsets}
	}
}

// adding is the sending of offsets beside the records of a transaction.
type adding struct {
	cancel context.CancelFunc
	done   chan error // gets one
}

// startOffsets starts to send the offsets, unless others were sent in the transaction.
func (p *Producer) startOffsets(ctx context.Context) {
	if p.group.group == "" || p.adding != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	a, g := &adding{cancel, make(chan error, 1)}, p.group
	p.group, p.adding = groupOffsets{}, a
	go func() { a.done <- p.addOffsets(ctx, g) }()
}

// finishOffsets waits until all offsets of the transaction are added, and reports whether
// there are any.
func (p *Producer) finishOffsets(ctx context.Context) (added bool, err error) {
	if a := p.adding; a != nil {
		err = <-a.done
		a.cancel()
		added, p.adding = true, nil
	}
	if err == nil && p.group.group != "" {
		err = p.begin(ctx)
	}
	if err == nil && p.group.group != "" {
		err = p.addOffsets(ctx, p.group)
		added, p.group = true, groupOffsets{}
	}
	return added, err
}

// abandonOffsets ends the sending of offsets, and forgets those that are not sent.
func (p *Producer) abandonOffsets() {
	if a := p.adding; a != nil {
		a.cancel()
		<-a.done
	}
	p.group, p.adding = groupOffsets{}, nil
}

// addOffsets adds offsets to the transaction.
func (p *Producer) addOffsets(ctx context.Context, g groupOffsets) error {
	crash.Point(crash.BeforeOffsets)
	err := p.client.retry(ctx, p.cfg.RetryFor, func(ctx context.Context) error {
		res, err := p.client.client.AddOffsetsToTxn(ctx, &kafkago.AddOffsetsToTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), GroupID: g.group,
		})
		if err != nil {
			return err
		}
		return res.Error
	})
	if err != nil {
		return err
	}
	topics := make(map[string][]kafkago.TxnOffsetCommit)
	for at, offset := range g.offsets {
		topics[at.Topic] = append(topics[at.Topic], kafkago.TxnOffsetCommit{Partition: int(at.Partition), Offset: offset})
	}
	err = p.client.retryReplicated(ctx, p.cfg.RetryFor, nil, func(ctx context.Context) error {
		res, err := p.client.client.TxnOffsetCommit(ctx, &kafkago.TxnOffsetCommitRequest{
			TransactionalID: p.cfg.TransactionalID, GroupID: g.group, GenerationID: -1,
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
