package kafka

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
)

// sealedBatch is a record batch with its sequence numbers. A retry sends the same
// bytes, by which the broker recognises a duplicate.
type sealedBatch struct {
	at    TopicPartition
	n     int // records
	bytes []byte
	first int64 // offset of its first record, -1 until it is acknowledged
}

// seal numbers the record batches of b for the session. A produce request holds
// one batch per partition, so they are divided into rounds: round i has the i-th
// batch of every partition that has one.
func (p *Producer) seal(b *Batch, transactional bool) ([][]sealedBatch, error) {
	if p.ended != nil {
		return nil, p.unusable()
	}
	var rounds [][]sealedBatch
	for i := range b.topics {
		t := &b.topics[i]
		for part, batches := range t.parts {
			at := TopicPartition{t.topic, int32(part)}
			next := p.next[at]
			for round, rb := range batches {
				bytes, err := rb.seal(p.session, next, transactional, p.codec)
				if err != nil {
					p.ended = err // the sequence would have a gap
					return nil, err
				}
				next = nextSequence(next, rb.n)
				if round == len(rounds) {
					rounds = append(rounds, nil)
				}
				rounds[round] = append(rounds[round], sealedBatch{at, rb.n, bytes, -1})
			}
			if len(batches) > 0 {
				p.next[at] = next
			}
		}
	}
	return rounds, nil
}

// produce sends a round, with one request per leader, and retries the batches
// that were not acknowledged. It does not send one request per partition, because
// Kafka answers concurrent ones with NOT_ENOUGH_REPLICAS while it verifies the
// transaction.
func (p *Producer) produce(ctx context.Context, round []sealedBatch) error {
	left := round
	return p.client.retry(ctx, p.cfg.RetryFor, func(ctx context.Context) error {
		groups, err := p.byLeader(ctx, left)
		if err != nil {
			p.leaders.forget()
			return err
		}
		failed := make([][]sealedBatch, len(groups))
		errs := make([]error, len(groups))
		var wg sync.WaitGroup
		for i, group := range groups {
			wg.Go(func() { failed[i], errs[i] = p.produceTo(ctx, group) })
		}
		wg.Wait()
		for _, b := range slices.Concat(groups...) {
			if b.first >= 0 {
				if last, known := p.last[b.at]; known && b.first <= last {
					p.cut = append(p.cut, b.at)
				}
				p.last[b.at] = b.first + int64(b.n) - 1
			}
		}
		left = slices.Concat(failed...)
		if len(left) > 0 {
			p.leaders.forget()
		}
		return worst(errs)
	})
}

// byLeader groups the batches by the broker that leads their partitions.
func (p *Producer) byLeader(ctx context.Context, batches []sealedBatch) ([][]sealedBatch, error) {
	for _, b := range batches {
		if !slices.Contains(p.topics, b.at.Topic) {
			p.topics = append(p.topics, b.at.Topic)
			p.leaders.forget()
		}
	}
	leaders, err := p.leaders.of(ctx, p.client, p.topics)
	if err != nil {
		return nil, err
	}
	groups := make(map[int][]sealedBatch)
	for _, b := range batches {
		leader, err := leaderOf(b.at, leaders)
		if err != nil {
			return nil, err
		}
		groups[leader] = append(groups[leader], b)
	}
	var list [][]sealedBatch
	for _, leader := range slices.Sorted(maps.Keys(groups)) {
		list = append(list, groups[leader])
	}
	return list, nil
}

// produceTo sends batches to their common leader. It returns those that were not
// acknowledged, with an error if there are any.
func (p *Producer) produceTo(ctx context.Context, batches []sealedBatch) (failed []sealedBatch, err error) {
	req := &rawproduce.Request{TransactionalID: p.cfg.TransactionalID, Acks: -1, Timeout: ackTimeout(ctx)}
	for _, b := range batches {
		i := slices.IndexFunc(req.Topics, func(t rawproduce.RequestTopic) bool { return t.Topic == b.at.Topic })
		if i < 0 {
			i = len(req.Topics)
			req.Topics = append(req.Topics, rawproduce.RequestTopic{Topic: b.at.Topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rawproduce.RequestPartition{
			Partition: b.at.Partition, RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(b.bytes)},
		})
	}
	m, err := p.client.transport.RoundTrip(ctx, p.client.client.Addr, req)
	if err != nil {
		return batches, err
	}
	codes := make(map[TopicPartition]kafkago.Error)
	first := make(map[TopicPartition]int64) // offsets
	for _, t := range m.(*produce.Response).Topics {
		for _, part := range t.Partitions {
			codes[TopicPartition{t.Topic, part.Partition}] = kafkago.Error(part.ErrorCode)
			first[TopicPartition{t.Topic, part.Partition}] = part.BaseOffset
		}
	}
	var errs []error
	for i, b := range batches {
		code, ok := codes[b.at]
		switch {
		case ok && code == 0:
			batches[i].first = first[b.at]
		case !ok:
			failed = append(failed, b)
			errs = append(errs, fmt.Errorf("%s partition %d: the answer does not mention it", b.at.Topic, b.at.Partition))
		// A duplicate sequence number: the batch was appended before, and the
		// answer to that was lost.
		case code != 0 && code != kafkago.DuplicateSequenceNumber:
			failed = append(failed, b)
			errs = append(errs, fmt.Errorf("%s partition %d: %w", b.at.Topic, b.at.Partition, code))
		}
	}
	return failed, worst(errs)
}

// ackTimeout returns for how many milliseconds a leader may wait for its
// replicas: half of the time until the request's deadline.
func ackTimeout(ctx context.Context) int32 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return int32(time.Minute.Milliseconds())
	}
	return int32(max(time.Until(deadline)/2, time.Millisecond).Milliseconds())
}
