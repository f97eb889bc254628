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
	at       TopicPartition
	records  *recordBatch
	sequence int32 // of its first record
	bytes    []byte
	first    int64 // offset of its first record, -1 until it is acknowledged
	large    bool  // it is refused because of its size, and can be divided
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
				if round == len(rounds) {
					rounds = append(rounds, nil)
				}
				rounds[round] = append(rounds[round], sealedBatch{at, rb, next, bytes, -1, false})
				next = nextSequence(next, rb.n)
			}
			if len(batches) > 0 {
				p.next[at] = next
			}
		}
	}
	return rounds, nil
}

// produce sends a round. Batches that are too large for their topic are divided. It waits first, while
// the brokers throttle this client, but no longer than a request may take: a transaction is open.
func (p *Producer) produce(ctx context.Context, round []sealedBatch) error {
	if d := p.client.Health.throttling.toProduce(); d > 0 {
		_ = Sleep(ctx, min(d, p.cfg.RetryFor/2)) // the request fails if the context has ended
	}
	large, err := p.produceRound(ctx, round)
	if err != nil || len(large) == 0 {
		return err
	}
	var halves [2][]sealedBatch
	for _, b := range large {
		p.most.Store(int64(len(b.bytes) / 2))
		next := b.sequence
		for i, half := range b.records.split() {
			bytes, err := half.seal(p.session, next, p.cfg.TransactionalID != "", p.codec)
			if err != nil {
				return err
			}
			halves[i] = append(halves[i], sealedBatch{b.at, half, next, bytes, -1, false})
			next = nextSequence(next, half.n)
		}
	}
	if err := p.produce(ctx, halves[0]); err != nil {
		return err
	}
	return p.produce(ctx, halves[1])
}

// produceRound sends a round, with one request per leader, and retries the batches
// that were not acknowledged. It does not send one request per partition, because
// Kafka answers concurrent ones with NOT_ENOUGH_REPLICAS while it verifies the
// transaction. It returns those that are too large for their topic and can be divided.
func (p *Producer) produceRound(ctx context.Context, round []sealedBatch) (large []sealedBatch, err error) {
	left := round
	err = p.client.retryReplicated(ctx, p.cfg.RetryFor, p.topics, func(ctx context.Context) error {
		groups, err := p.byLeader(ctx, left)
		if err != nil {
			p.forgotten = time.Now()
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
				p.last[b.at] = b.first + int64(b.records.n) - 1
			}
		}
		left = nil
		for _, b := range slices.Concat(failed...) {
			if b.large {
				large = append(large, b)
			} else {
				left = append(left, b)
			}
		}
		if len(left) > 0 {
			p.forgotten = time.Now()
		}
		return worst(errs)
	})
	return large, err
}

// byLeader groups the batches by the broker that leads their partitions.
func (p *Producer) byLeader(ctx context.Context, batches []sealedBatch) ([][]sealedBatch, error) {
	for _, b := range batches {
		if !slices.Contains(p.topics, b.at.Topic) {
			p.topics = append(p.topics, b.at.Topic)
			p.forgotten = time.Now()
		}
	}
	leaders, err := p.client.catalog.leaders(ctx, p.topics, p.forgotten)
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
		t := topicIn(&req.Topics, b.at.Topic, func(t *rawproduce.RequestTopic) *string { return &t.Topic })
		t.Partitions = append(t.Partitions, rawproduce.RequestPartition{
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
			errs = append(errs, fmt.Errorf("%s partition %d: %w", b.at.Topic, b.at.Partition, errUnmentioned))
		// A duplicate sequence number: the batch was appended before, and the
		// answer to that was lost.
		case (code == kafkago.MessageSizeTooLarge || code == kafkago.RecordListTooLarge) && b.records.n > 1:
			b.large = true
			failed = append(failed, b)
		case code != 0 && code != kafkago.DuplicateSequenceNumber:
			failed = append(failed, b)
			errs = append(errs, fmt.Errorf("%s partition %d: %w", b.at.Topic, b.at.Partition, p.explained(ctx, &b, code)))
		}
	}
	return failed, worst(errs)
}

// explained returns the error of a batch that was refused, with the setting that refuses it.
func (p *Producer) explained(ctx context.Context, b *sealedBatch, code kafkago.Error) error {
	switch code {
	case kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge:
		setting := "max.message.bytes"
		if set, err := p.client.TopicConfigs(ctx, []string{b.at.Topic}, setting); err == nil && set[b.at.Topic][setting] != "" {
			setting += "=" + set[b.at.Topic][setting]
		}
		return fmt.Errorf("a batch of one record has %d bytes, which is more than the topic's %s: raise that, also "+
			"where the brokers' replicas fetch from each other (%w)", len(b.bytes)-4, setting, code)
	case kafkago.TopicAuthorizationFailed:
		return p.client.explainDenied(code, "Write", "topic "+b.at.Topic)
	case kafkago.InvalidRecord:
		return fmt.Errorf("the topic takes no record without a key (cleanup.policy=compact), or has another rule of its own: set "+
			"cleanup.policy to delete, as compaction takes records that are needed (%w)", code)
	case kafkago.InvalidTimestamp:
		return fmt.Errorf("the records have the time %s, and the brokers' clock is further from that than the topic's "+
			"message.timestamp.after.max.ms (an hour) or message.timestamp.before.max.ms: set the clock of this "+
			"machine, whose time is now %s, or theirs (%w)",
			time.UnixMilli(b.records.last).UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339), code)
	}
	return code
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
