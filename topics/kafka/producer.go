package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"github.com/gvbll/gvbll/topics/crash"
)

// ProducerConfig says how to produce. Zero fields have defaults.
type ProducerConfig struct {
	// TransactionalID names the producer across restarts: a new producer of
	// the same name fences the old one. Empty means idempotence without
	// transactions, for Send.
	TransactionalID string
	// TransactionTimeout is how long a transaction may be open before the
	// broker aborts it and fences the producer. Zero means one minute.
	TransactionTimeout time.Duration
	// RetryFor is how long a request is repeated; one try is given up after
	// half of it. Zero means 8 s.
	RetryFor time.Duration
	// MaxBatchBytes bounds a record batch before compression. Zero means
	// 900 KB, which is below the brokers' default limit of 1 MB.
	MaxBatchBytes int
	// Compression: none, gzip, snappy, lz4, zstd. Empty means none.
	Compression string
}

// Errors of a producer, for errors.Is. What is neither was refused: nothing
// is committed, and the same again would be refused again. After any error
// but that of a record too large, the producer wants a Restart.
var (
	// ErrFenced says that another producer of the same transactional id has
	// taken over, or that the transaction was open for too long. Stop. (When
	// only the answer to the commit was lost before, it may be committed.)
	ErrFenced = errors.New("the producer was fenced")
	// ErrUnknown says that the outcome of a transaction, or of a Send, is not
	// known. Restart, then read back what was committed.
	ErrUnknown = errors.New("the outcome is unknown")
)

// Producer produces record batches of its own making. It is not safe for
// concurrent use.
type Producer struct {
	client  *Client
	cfg     ProducerConfig
	codec   compress.Compression
	session session
	next    map[TopicPartition]int32 // sequence numbers of the session
	batch   *Batch                   // of Commit and Send
	topics  []string                 // produced to
	leaders leaderCache              // of topics
	open    map[TopicPartition]bool  // partitions of the open transaction; none while none is open
	last    map[TopicPartition]int64 // see Last
	// ended is why the session cannot be gone on with, nil while it can: a
	// transaction may be open, and sequence numbers are spent. To go on would
	// mix the next transaction with what is left of this one.
	ended error
}

// NewProducer opens a session, which fences the former producer of the
// transactional id and resolves what it left open.
func (c *Client) NewProducer(ctx context.Context, cfg ProducerConfig) (*Producer, error) {
	if cfg.TransactionTimeout == 0 {
		cfg.TransactionTimeout = time.Minute
	}
	if cfg.RetryFor == 0 {
		cfg.RetryFor = 8 * time.Second
	}
	if cfg.MaxBatchBytes == 0 {
		cfg.MaxBatchBytes = 900_000
	}
	p := &Producer{client: c, cfg: cfg, session: none, last: make(map[TopicPartition]int64)}
	if cfg.Compression != "" {
		if err := p.codec.UnmarshalText([]byte(cfg.Compression)); err != nil {
			return nil, err
		}
	}
	if err := p.Restart(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Restart begins a new session. It waits until no transaction of the former
// one is open, so that what was committed can be read afterwards. It is
// ErrFenced when another producer of the transactional id has begun one since
// (KIP-360; kfake does not mind).
func (p *Producer) Restart(ctx context.Context) error {
	former := p.session
	if p.cfg.TransactionalID == "" {
		former = none
	}
	err := p.client.retry(ctx, 4*p.cfg.RetryFor, func(ctx context.Context) error {
		res, err := p.client.client.InitProducerID(ctx, &kafkago.InitProducerIDRequest{
			TransactionalID: p.cfg.TransactionalID, TransactionTimeoutMs: int(p.cfg.TransactionTimeout.Milliseconds()),
			ProducerID: int(former.id), ProducerEpoch: int(former.epoch),
		})
		if err != nil {
			return err
		}
		if errors.Is(res.Error, kafkago.InvalidProducerIDMapping) && former != none {
			former = none // forgotten after days without a transaction
			return kafkago.ConcurrentTransactions
		}
		if res.Error != nil {
			return res.Error
		}
		p.session = session{id: int64(res.Producer.ProducerID), epoch: int16(res.Producer.ProducerEpoch)}
		return nil
	})
	if err != nil {
		if former != none && fenced(err) {
			err = fmt.Errorf("%w (%w)", ErrFenced, cause(err))
		}
		return fmt.Errorf("opening a producer session: %w", cause(err))
	}
	p.next, p.open, p.ended = make(map[TopicPartition]int32), make(map[TopicPartition]bool), nil
	return nil
}

// Last returns the offset of the last record that the broker said it has
// appended to the partition, -1 before the first. A record that it had already,
// whose answer was lost, does not count.
func (p *Producer) Last(at TopicPartition) int64 {
	if offset, ok := p.last[at]; ok {
		return offset
	}
	return -1
}

// Close ends the use of the producer. An open transaction, if any, is aborted
// by the next session or by its time-out.
func (p *Producer) Close() {}

// Commit produces the records in one transaction, with the consumer group's
// offsets when group is not empty. Records of one partition keep their order.
// It must not be called between Produce and End. For its errors see there; a
// record too large is one, before anything is sent.
func (p *Producer) Commit(ctx context.Context, records []Record, group string, offsets map[TopicPartition]int64) error {
	b, err := p.batchOf(records)
	if err != nil {
		return err
	}
	if err := p.Produce(ctx, b); err != nil {
		return err
	}
	return p.End(ctx, group, offsets)
}

// batchOf puts the records into the one batch that is used for this over and
// over.
func (p *Producer) batchOf(records []Record) (*Batch, error) {
	if p.batch == nil {
		p.batch = p.NewBatch()
	}
	b := p.batch
	b.Reset()
	for i := range records {
		if err := b.Add(&records[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Produce produces the batch in the transaction that is open, and opens one if
// none is. Readers that do not mind what becomes of it can have the records
// when it returns. The batch is the caller's again then: kafka-go copies it
// before it writes.
//
// Transient failures are repeated with the same bytes and sequence numbers, for
// RetryFor each. The error is then ErrUnknown; ErrFenced when another has
// taken over; anything else means that nothing of the transaction is committed.
func (p *Producer) Produce(ctx context.Context, b *Batch) error {
	if p.cfg.TransactionalID == "" {
		panic("kafka: Produce of a producer without a transactional id")
	}
	rounds, err := p.seal(b, true)
	if err != nil || len(rounds) == 0 {
		return err
	}
	crash.Point(crash.BeforeAdd)
	if err := p.addPartitions(ctx, rounds[0]); err != nil { // which has a batch of every partition
		return p.fail(ctx, "adding partitions to the transaction", err)
	}
	crash.Point(crash.AfterAdd)
	for _, round := range rounds {
		crash.Point(crash.BeforeProduce)
		if err := p.produce(ctx, round); err != nil {
			return p.fail(ctx, "producing", err)
		}
		crash.Point(crash.AfterProduce)
	}
	return nil
}

// End commits the open transaction, with the consumer group's offsets when
// group is not empty. Its errors are those of Produce. Without records and
// offsets there is nothing to be done.
func (p *Producer) End(ctx context.Context, group string, offsets map[TopicPartition]int64) error {
	if p.ended != nil {
		return p.unusable()
	}
	if withOffsets := group != "" && len(offsets) > 0; withOffsets {
		crash.Point(crash.BeforeOffsets)
		if err := p.addOffsets(ctx, group, offsets); err != nil {
			return p.fail(ctx, "committing group offsets", err)
		}
		crash.Point(crash.AfterOffsets)
	} else if len(p.open) == 0 {
		return nil // a transaction of nothing cannot be ended
	}
	crash.Point(crash.BeforeEnd)
	if err := p.end(ctx, p.cfg.RetryFor, true); err != nil {
		return p.endUnknown("ending the transaction", err)
	}
	crash.Point(crash.AfterEnd)
	clear(p.open)
	return nil
}

// Send produces the records idempotently, without a transaction: when it
// fails, some of them may have been taken.
func (p *Producer) Send(ctx context.Context, records []Record) error {
	if p.cfg.TransactionalID != "" {
		panic("kafka: Send of a transactional producer")
	}
	b, err := p.batchOf(records)
	if err != nil {
		return err
	}
	rounds, err := p.seal(b, false)
	if err != nil {
		return err
	}
	for _, round := range rounds {
		if err := p.produce(ctx, round); err != nil {
			return p.fail(ctx, "producing", err)
		}
	}
	return nil
}

// end ends the transaction. Repeated after the first commit has been taken,
// Kafka answers with success, or that the markers are still being written.
func (p *Producer) end(ctx context.Context, within time.Duration, commit bool) error {
	return p.client.retry(ctx, within, func(ctx context.Context) error {
		res, err := p.client.client.EndTxn(ctx, &kafkago.EndTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), Committed: commit,
		})
		if err != nil {
			return err
		}
		return res.Error
	})
}

// fail ends the session for an error that came before the transaction was to
// be ended. What was refused for good is aborted, so that readers need not wait
// for the transaction to time out.
func (p *Producer) fail(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil || transient(err) || fenced(err) || sessionLost(err) {
		return p.endUnknown(doing, err)
	}
	p.ended = fmt.Errorf("%s: %w", doing, cause(err))
	if p.cfg.TransactionalID != "" {
		if err := p.end(ctx, time.Second, false); err != nil {
			p.client.cfg.Logger.Debug("kafka: a transaction that was refused stays open until it times out", "err", err)
		}
	}
	return p.ended
}

// endUnknown ends the session for an error that leaves the outcome open.
func (p *Producer) endUnknown(doing string, err error) error {
	kind := ErrUnknown
	if p.cfg.TransactionalID != "" && fenced(err) {
		kind = ErrFenced
	}
	p.ended = fmt.Errorf("%s: %w (%w)", doing, kind, cause(err))
	return p.ended
}

// fenced tells a take-over. Which of the two is said depends on the request.
func fenced(err error) bool {
	return errors.Is(err, kafkago.ProducerFenced) || errors.Is(err, kafkago.InvalidProducerEpoch)
}

// sessionLost tells that the broker and we differ about the session's state,
// which a new session mends: it forgot the producer, or had a transaction's
// end from us that we do not know of.
func sessionLost(err error) bool {
	return errors.Is(err, kafkago.OutOfOrderSequenceNumber) || errors.Is(err, kafkago.UnknownProducerId) ||
		errors.Is(err, kafkago.InvalidProducerIDMapping) || errors.Is(err, kafkago.InvalidTransactionState)
}

// sealed is a record batch with its sequence numbers: repeated, it is repeated
// to the byte.
type sealed struct {
	at    TopicPartition
	n     int // records
	bytes []byte
	first int64 // offset that it got, -1 while none is known
}

func (p *Producer) unusable() error {
	return fmt.Errorf("the producer was not restarted after an error: %w", p.ended)
}

// seal seals the record batches of b for the session. A produce request holds
// one batch a partition, so a partition that needs several has them in several
// rounds.
func (p *Producer) seal(b *Batch, transactional bool) ([][]sealed, error) {
	if p.ended != nil {
		return nil, p.unusable()
	}
	var rounds [][]sealed
	for i := range b.topics {
		t := &b.topics[i]
		for part, sets := range t.parts {
			at := TopicPartition{t.topic, int32(part)}
			next := p.next[at]
			for round, s := range sets {
				bytes, err := s.seal(p.session, next, transactional, p.codec)
				if err != nil {
					p.ended = err // the sequence has a gap
					return nil, err
				}
				next = after(next, s.n)
				if round == len(rounds) {
					rounds = append(rounds, nil)
				}
				rounds[round] = append(rounds[round], sealed{at, s.n, bytes, -1})
			}
			if len(sets) > 0 {
				p.next[at] = next
			}
		}
	}
	return rounds, nil
}

// addPartitions adds the batches' partitions to the transaction, if they are
// not in it.
func (p *Producer) addPartitions(ctx context.Context, batches []sealed) error {
	topics := make(map[string][]kafkago.AddPartitionToTxn)
	for _, b := range batches {
		if !p.open[b.at] {
			topics[b.at.Topic] = append(topics[b.at.Topic], kafkago.AddPartitionToTxn{Partition: int(b.at.Partition)})
		}
	}
	if len(topics) == 0 {
		return nil
	}
	err := p.client.retry(ctx, p.cfg.RetryFor, func(ctx context.Context) error {
		res, err := p.client.client.AddPartitionsToTxn(ctx, &kafkago.AddPartitionsToTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), Topics: topics,
		})
		if err != nil {
			return err
		}
		var errs []error
		for _, parts := range res.Topics {
			for _, part := range parts {
				errs = append(errs, part.Error)
			}
		}
		return worst(errs)
	})
	if err != nil {
		return err
	}
	for _, b := range batches {
		p.open[b.at] = true
	}
	return nil
}

// produce sends a round: one request to each leader, repeated for the batches
// that were not taken. (One request, not one a partition: with several at the
// same time Kafka answers NOT_ENOUGH_REPLICAS while it verifies the
// transaction.)
func (p *Producer) produce(ctx context.Context, round []sealed) error {
	left := round
	return p.client.retry(ctx, p.cfg.RetryFor, func(ctx context.Context) error {
		groups, err := p.byLeader(ctx, left)
		if err != nil {
			p.leaders.forget()
			return err
		}
		failed := make([][]sealed, len(groups))
		errs := make([]error, len(groups))
		var wg sync.WaitGroup
		for i, group := range groups {
			wg.Go(func() { failed[i], errs[i] = p.produceTo(ctx, group) })
		}
		wg.Wait()
		for _, b := range slices.Concat(groups...) {
			if b.first >= 0 {
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
func (p *Producer) byLeader(ctx context.Context, batches []sealed) ([][]sealed, error) {
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
	groups := make(map[int][]sealed)
	for _, b := range batches {
		leader, ok := leaders[b.at]
		if !ok {
			return nil, leaderless(b.at, leaders)
		}
		groups[leader] = append(groups[leader], b)
	}
	var list [][]sealed
	for _, leader := range slices.Sorted(maps.Keys(groups)) {
		list = append(list, groups[leader])
	}
	return list, nil
}

// produceTo sends batches to their common leader and returns those that it did
// not say it has, with an error if there are any.
func (p *Producer) produceTo(ctx context.Context, batches []sealed) (failed []sealed, err error) {
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
		// A duplicate sequence is a batch that was taken and whose answer was
		// lost.
		case code != 0 && code != kafkago.DuplicateSequenceNumber:
			failed = append(failed, b)
			errs = append(errs, fmt.Errorf("%s partition %d: %w", b.at.Topic, b.at.Partition, code))
		}
	}
	return failed, worst(errs)
}

// ackTimeout is how long, in milliseconds, a leader may wait for its replicas:
// half of the time that we wait for the leader.
func ackTimeout(ctx context.Context) int32 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return int32(time.Minute.Milliseconds())
	}
	return int32(max(time.Until(deadline)/2, time.Millisecond).Milliseconds())
}

func (p *Producer) addOffsets(ctx context.Context, group string, offsets map[TopicPartition]int64) error {
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
		return err
	}
	topics := make(map[string][]kafkago.TxnOffsetCommit)
	for at, offset := range offsets {
		topics[at.Topic] = append(topics[at.Topic], kafkago.TxnOffsetCommit{Partition: int(at.Partition), Offset: offset})
	}
	return p.client.retry(ctx, p.cfg.RetryFor, func(ctx context.Context) error {
		res, err := p.client.client.TxnOffsetCommit(ctx, &kafkago.TxnOffsetCommitRequest{
			TransactionalID: p.cfg.TransactionalID, GroupID: group, GenerationID: -1,
			ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), Topics: topics,
		})
		if err != nil {
			return err
		}
		var errs []error
		for _, parts := range res.Topics {
			for _, part := range parts {
				errs = append(errs, part.Error)
			}
		}
		return worst(errs)
	})
}
