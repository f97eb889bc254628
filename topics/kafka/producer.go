package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
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
	// RetryFor is how long a request is repeated. Zero means 8 s.
	RetryFor time.Duration
	// MaxBatchBytes bounds a record batch before compression. Zero means
	// 900 KB, which is below the brokers' default limit of 1 MB.
	MaxBatchBytes int
	// Compression: none, gzip, snappy, lz4, zstd. Empty means none.
	Compression string
}

// Errors of a producer, for errors.Is.
var (
	// ErrFenced says that another producer of the same transactional id has
	// taken over, or that the transaction was open for too long. Stop.
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
	p := &Producer{client: c, cfg: cfg}
	if cfg.Compression != "" {
		if err := p.codec.UnmarshalText([]byte(cfg.Compression)); err != nil {
			return nil, err
		}
	}
	return p, p.Restart(ctx)
}

// Restart begins a new session. It waits until no transaction of the former
// one is open, so that what was committed can be read afterwards. It fences
// every other producer of the transactional id: whoever was fenced must not
// call it to go on.
func (p *Producer) Restart(ctx context.Context) error {
	p.next = make(map[TopicPartition]int32)
	err := p.client.retry(ctx, 4*p.cfg.RetryFor, func() error {
		res, err := p.client.client.InitProducerID(ctx, &kafkago.InitProducerIDRequest{
			TransactionalID: p.cfg.TransactionalID, TransactionTimeoutMs: int(p.cfg.TransactionTimeout.Milliseconds()),
			ProducerID: -1, ProducerEpoch: -1,
		})
		if err = cmp.Or(err, answered(res, func() error { return res.Error })); err != nil {
			return err
		}
		p.session = session{id: int64(res.Producer.ProducerID), epoch: int16(res.Producer.ProducerEpoch)}
		return nil
	})
	if err != nil {
		return fmt.Errorf("opening a producer session: %w", cause(err))
	}
	return nil
}

// answered returns the error inside an answer, when there is one.
func answered[T any](res *T, inner func() error) error {
	if res == nil {
		return nil
	}
	return inner()
}

// Close ends the use of the producer. An open transaction, if any, is aborted
// by the next session or by its time-out.
func (p *Producer) Close() {}

// Commit produces the records in one transaction, with the consumer group's
// offsets when group is not empty. Records of one partition keep their order.
//
// Transient failures are repeated with the same bytes and sequence numbers for
// RetryFor. The error is then ErrUnknown; ErrFenced when another has taken
// over; anything else means that nothing was sent.
func (p *Producer) Commit(ctx context.Context, records []Record, group string, offsets map[TopicPartition]int64) error {
	if p.cfg.TransactionalID == "" {
		panic("kafka: Commit of a producer without a transactional id")
	}
	rounds, err := p.batches(records, true)
	if err != nil {
		return err
	}
	if err := p.addPartitions(ctx, rounds); err != nil {
		return p.failed("adding partitions to the transaction", err)
	}
	for _, round := range rounds {
		if err := p.produce(ctx, round); err != nil {
			return p.failed("producing", err)
		}
	}
	if group != "" && len(offsets) > 0 {
		if err := p.addOffsets(ctx, group, offsets); err != nil {
			return p.failed("committing group offsets", err)
		}
	}
	err = p.client.retry(ctx, p.cfg.RetryFor, func() error {
		res, err := p.client.client.EndTxn(ctx, &kafkago.EndTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), Committed: true,
		})
		return cmp.Or(err, answered(res, func() error { return res.Error }))
	})
	if err != nil {
		return p.failed("ending the transaction", err)
	}
	return nil
}

// Send produces the records idempotently, without a transaction.
func (p *Producer) Send(ctx context.Context, records []Record) error {
	if p.cfg.TransactionalID != "" {
		panic("kafka: Send of a transactional producer")
	}
	rounds, err := p.batches(records, false)
	if err != nil {
		return err
	}
	for _, round := range rounds {
		if err := p.produce(ctx, round); err != nil {
			return p.failed("producing", err)
		}
	}
	return nil
}

func (p *Producer) failed(doing string, err error) error {
	if errors.Is(err, kafkago.ProducerFenced) || errors.Is(err, kafkago.InvalidProducerEpoch) {
		return fmt.Errorf("%s: %w (%w)", doing, ErrFenced, cause(err))
	}
	return fmt.Errorf("%s: %w (%w)", doing, ErrUnknown, cause(err))
}

// sealed is a record batch with its sequence numbers: repeated, it is repeated
// to the byte.
type sealed struct {
	at    TopicPartition
	bytes []byte
}

// batches seals the records into batches. A produce request holds one batch a
// partition, so a partition that needs several has them in several rounds.
func (p *Producer) batches(records []Record, transactional bool) ([][]sealed, error) {
	parts := make(map[TopicPartition][]Record)
	var order []TopicPartition
	for i := range records {
		if n := sizeOf(&records[i]); n > p.cfg.MaxBatchBytes {
			return nil, fmt.Errorf("a record of %d bytes for %s: at most %d go into a batch", n, records[i].Topic, p.cfg.MaxBatchBytes)
		}
		at := TopicPartition{records[i].Topic, records[i].Partition}
		if parts[at] == nil {
			order = append(order, at)
		}
		parts[at] = append(parts[at], records[i])
	}
	var rounds [][]sealed
	for _, at := range order {
		rest := parts[at]
		for round := 0; len(rest) > 0; round++ {
			n, bytes := 0, 0
			for n < len(rest) && bytes+sizeOf(&rest[n]) <= p.cfg.MaxBatchBytes {
				bytes += sizeOf(&rest[n])
				n++
			}
			b, err := appendBatch(make([]byte, 0, bytes+128), rest[:n], p.session, p.next[at], transactional, p.codec)
			if err != nil {
				return nil, err
			}
			p.next[at] += int32(n)
			if round == len(rounds) {
				rounds = append(rounds, nil)
			}
			rounds[round] = append(rounds[round], sealed{at, b})
			rest = rest[n:]
		}
	}
	return rounds, nil
}

func (p *Producer) addPartitions(ctx context.Context, rounds [][]sealed) error {
	if len(rounds) == 0 {
		return nil
	}
	topics := make(map[string][]kafkago.AddPartitionToTxn)
	for _, b := range rounds[0] { // which has a batch of every partition
		topics[b.at.Topic] = append(topics[b.at.Topic], kafkago.AddPartitionToTxn{Partition: int(b.at.Partition)})
	}
	return p.client.retry(ctx, p.cfg.RetryFor, func() error {
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
}

// operationNotAttempted is Kafka's code 55, which kafka-go names otherwise.
const operationNotAttempted = kafkago.Error(55)

// worst returns an error that will not pass before one that may. (Partitions
// that were not attempted because another failed say so with an error of their
// own.)
func worst(errs []error) (err error) {
	for _, e := range errs {
		if e != nil && (err == nil || transient(err) && !transient(e)) && !errors.Is(e, operationNotAttempted) {
			err = e
		}
	}
	return err
}

// produce sends a round: one request to each leader, repeated for the batches
// that were not taken.
func (p *Producer) produce(ctx context.Context, round []sealed) error {
	left := round
	return p.client.retry(ctx, p.cfg.RetryFor, func() error {
		groups, err := p.byLeader(ctx, left)
		if err != nil {
			return err
		}
		var again []sealed
		var errs []error
		for _, leader := range slices.Sorted(maps.Keys(groups)) {
			failed, err := p.produceTo(ctx, groups[leader])
			again = append(again, failed...)
			errs = append(errs, err)
		}
		left = again
		return worst(errs)
	})
}

func (p *Producer) byLeader(ctx context.Context, batches []sealed) (map[int][]sealed, error) {
	var topics []string
	for _, b := range batches {
		if !slices.Contains(topics, b.at.Topic) {
			topics = append(topics, b.at.Topic)
		}
	}
	leaders, err := p.client.leaders(ctx, topics)
	if err != nil {
		return nil, err
	}
	groups := make(map[int][]sealed)
	for _, b := range batches {
		leader, ok := leaders[b.at]
		if !ok {
			return nil, fmt.Errorf("%s partition %d: %w", b.at.Topic, b.at.Partition, kafkago.UnknownTopicOrPartition)
		}
		groups[leader] = append(groups[leader], b)
	}
	return groups, nil
}

func (p *Producer) produceTo(ctx context.Context, batches []sealed) (failed []sealed, err error) {
	req := &rawproduce.Request{TransactionalID: p.cfg.TransactionalID, Acks: -1, Timeout: int32(p.client.cfg.Timeout.Milliseconds())}
	index := make(map[TopicPartition]sealed)
	for _, b := range batches {
		index[b.at] = b
		i := slices.IndexFunc(req.Topics, func(t rawproduce.RequestTopic) bool { return t.Topic == b.at.Topic })
		if i < 0 {
			i = len(req.Topics)
			req.Topics = append(req.Topics, rawproduce.RequestTopic{Topic: b.at.Topic})
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, rawproduce.RequestPartition{
			Partition: b.at.Partition, RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(b.bytes)},
		})
	}
	ctx, cancel := context.WithTimeout(ctx, p.client.cfg.Timeout)
	defer cancel()
	m, err := p.client.transport.RoundTrip(ctx, p.client.client.Addr, req)
	if err != nil {
		return batches, err
	}
	var errs []error
	for _, t := range m.(*produce.Response).Topics {
		for _, part := range t.Partitions {
			code := kafkago.Error(part.ErrorCode)
			// A duplicate sequence is a batch that was taken and whose answer
			// was lost.
			if code == 0 || code == kafkago.DuplicateSequenceNumber {
				continue
			}
			at := TopicPartition{t.Topic, part.Partition}
			failed = append(failed, index[at])
			errs = append(errs, fmt.Errorf("%s partition %d: %w", at.Topic, at.Partition, code))
		}
	}
	return failed, worst(errs)
}

func (p *Producer) addOffsets(ctx context.Context, group string, offsets map[TopicPartition]int64) error {
	err := p.client.retry(ctx, p.cfg.RetryFor, func() error {
		res, err := p.client.client.AddOffsetsToTxn(ctx, &kafkago.AddOffsetsToTxnRequest{
			TransactionalID: p.cfg.TransactionalID, ProducerID: int(p.session.id), ProducerEpoch: int(p.session.epoch), GroupID: group,
		})
		return cmp.Or(err, answered(res, func() error { return res.Error }))
	})
	if err != nil {
		return err
	}
	topics := make(map[string][]kafkago.TxnOffsetCommit)
	for at, offset := range offsets {
		topics[at.Topic] = append(topics[at.Topic], kafkago.TxnOffsetCommit{Partition: int(at.Partition), Offset: offset})
	}
	return p.client.retry(ctx, p.cfg.RetryFor, func() error {
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
