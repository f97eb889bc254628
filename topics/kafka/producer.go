package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"

	"github.com/gvbll/gvbll/topics/crash"
)

// ProducerConfig configures a Producer. Zero fields have defaults.
type ProducerConfig struct {
	// TransactionalID identifies the producer across restarts: a new producer
	// with the same id fences the old one. Empty means an idempotent producer
	// without transactions, for Send.
	TransactionalID string
	// TransactionTimeout is how long a transaction may be open before the
	// broker aborts it and fences the producer. Zero means one minute.
	TransactionTimeout time.Duration
	// LeastTransactionTimeout is what TransactionTimeout is shortened to, at most, where brokers do not allow as
	// much (transaction.max.timeout.ms). Zero means that it is not.
	LeastTransactionTimeout time.Duration
	// RetryFor bounds the time that a request is retried; one try may use half
	// of it. Zero means 8 s.
	RetryFor time.Duration
	// MaxBatchBytes bounds a record batch before compression. Zero means
	// 900 KB, which is below the brokers' default limit of 1 MB.
	MaxBatchBytes int
	// Topics are those that a former session may have written to. They are named while too few of their
	// replicas are in sync to end its transaction.
	Topics []string
	// Compression is none, gzip, snappy, lz4 or zstd. Empty means none.
	Compression string
}

// Errors of a Producer, for errors.Is. Any other error means that the broker
// refused the request: nothing is committed, and the same request would be
// refused again. After every error except that of a record that is too large, the
// producer needs a Restart.
var (
	// ErrFenced means that another producer with the same transactional id has
	// taken over, or that the transaction was open for too long. The caller must
	// stop. The transaction may still have been committed, if only the answer to
	// the commit was lost.
	ErrFenced = errors.New("the producer was fenced")
	// ErrUnknown means that the outcome of a transaction, or of a Send, is
	// unknown. The caller restarts the producer and reads what was committed.
	ErrUnknown = errors.New("the outcome is unknown")
)

// Producer produces record batches. It is not safe for concurrent use.
type Producer struct {
	client    *Client
	cfg       ProducerConfig
	codec     compress.Compression
	session   session
	next      map[TopicPartition]int32 // next sequence number in this session
	batch     *Batch                   // reused by Commit and Send
	topics    []string                 // all topics produced to so far
	forgotten time.Time                // leaders of before are not believed any more
	open      map[TopicPartition]bool  // partitions of the open transaction; empty if none is open
	last      map[TopicPartition]int64 // see Last
	lateEnd   bool                     // a request that ended the last transaction may arrive yet
	most      atomic.Int64             // bytes of a batch that no topic was known to refuse, 0 for any
	cut       []TopicPartition         // see Cut
	// ended is the error that ended the session, nil while it is usable. After
	// it a transaction may be open and sequence numbers are used: continuing
	// would mix the next transaction with the rest of this one.
	ended error
}

// NewProducer opens a session. It fences the former producer with the same
// transactional id and resolves the transaction that it left open.
func (c *Client) NewProducer(ctx context.Context, cfg ProducerConfig) (*Producer, error) {
	cfg.TransactionTimeout = cmp.Or(cfg.TransactionTimeout, time.Minute)
	cfg.RetryFor = cmp.Or(cfg.RetryFor, 8*time.Second)
	cfg.MaxBatchBytes = cmp.Or(cfg.MaxBatchBytes, 900_000)
	p := &Producer{client: c, cfg: cfg, session: none, last: make(map[TopicPartition]int64), topics: slices.Clone(cfg.Topics)}
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

// TransactionTimeout is how long a transaction may be open before the broker aborts it.
func (p *Producer) TransactionTimeout() time.Duration { return p.cfg.TransactionTimeout }

// Restart opens a new session, for as long as no broker answers. It waits until no
// transaction of the former session is open: afterwards a reader gets everything that was
// committed. The error is ErrFenced if another producer with the same transactional id has
// opened a session in between, or if the broker has ended the former session's transaction
// because of its time-out (KIP-360; kfake does not check that).
func (p *Producer) Restart(ctx context.Context) error {
	former := p.session
	if p.cfg.TransactionalID == "" {
		former = none
	}
	err := p.client.retryReplicated(ctx, forever, p.topics, func(ctx context.Context) error {
		res, err := p.client.client.InitProducerID(ctx, &kafkago.InitProducerIDRequest{
			TransactionalID: p.cfg.TransactionalID, TransactionTimeoutMs: int(p.cfg.TransactionTimeout.Milliseconds()),
			ProducerID: int(former.id), ProducerEpoch: int(former.epoch),
		})
		if err != nil {
			return err
		}
		if errors.Is(res.Error, kafkago.InvalidProducerIDMapping) && former != none {
			former = none // brokers drop the id after days without a transaction
			return kafkago.ConcurrentTransactions
		}
		least := p.cfg.LeastTransactionTimeout
		if errors.Is(res.Error, kafkago.InvalidTransactionTimeout) && 0 < least && least < p.cfg.TransactionTimeout {
			p.cfg.TransactionTimeout = max(p.cfg.TransactionTimeout/2, least)
			return kafkago.ConcurrentTransactions // again at once
		}
		if res.Error != nil {
			return res.Error
		}
		p.session = session{id: int64(res.Producer.ProducerID), epoch: int16(res.Producer.ProducerEpoch)}
		return nil
	})
	if err != nil {
		if errors.Is(err, kafkago.InvalidTransactionTimeout) {
			err = fmt.Errorf("transactions of %v are longer than the brokers allow: shorten --commit-interval, or "+
				"raise transaction.max.timeout.ms (%w)", p.cfg.TransactionTimeout, cause(err))
		}
		if former != none && fenced(err) {
			err = fmt.Errorf("%w (%w)", ErrFenced, cause(err))
		}
		err = p.client.explainDenied(cause(err), "Write", "transactional id "+p.cfg.TransactionalID)
		return fmt.Errorf("opening a producer session: %w", err)
	}
	p.next, p.open, p.ended, p.lateEnd = make(map[TopicPartition]int32), make(map[TopicPartition]bool), nil, false
	return nil
}

// TakeOver opens a new session as NewProducer does: it fences whoever has the transactional
// id. The caller must then read what was committed, and by whom.
func (p *Producer) TakeOver(ctx context.Context) error {
	p.session = none
	return p.Restart(ctx)
}

// Last returns the offset of the last record that the broker has acknowledged for
// the partition, -1 before the first. A batch whose first answer was lost is
// acknowledged without an offset and does not count.
func (p *Producer) Last(at TopicPartition) int64 {
	if offset, ok := p.last[at]; ok {
		return offset
	}
	return -1
}

// Cut returns the partitions in which brokers have put records at offsets that they had
// acknowledged before, since the last call: their logs have lost their ends.
func (p *Producer) Cut() (cut []TopicPartition) {
	cut, p.cut = p.cut, nil
	return cut
}

// Commit produces the records in one transaction, together with the consumer
// group's offsets. Records of one partition keep their order. Its errors are those of
// Produce; a record that is too large is an error before anything is sent.
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

// batchOf puts the records into the producer's own batch, which is reused.
func (p *Producer) batchOf(records []Record) (*Batch, error) {
	if p.batch == nil {
		p.batch = p.NewBatch()
	}
	p.batch.Reset()
	for i := range records {
		if err := p.batch.Add(&records[i]); err != nil {
			return nil, err
		}
	}
	return p.batch, nil
}

// Produce produces the batch in the open transaction, or begins one. When it
// returns, read-uncommitted consumers can read the records, and the caller may
// reuse the batch, because kafka-go copies it before writing.
//
// Transient failures are retried with the same bytes and sequence numbers, each
// request for RetryFor; after that the error is ErrUnknown. It is ErrFenced if
// another producer has taken over. Any other error means that nothing of the
// transaction is committed.
func (p *Producer) Produce(ctx context.Context, b *Batch) error {
	if p.cfg.TransactionalID == "" {
		panic("kafka: Produce of a producer without a transactional id")
	}
	if p.lateEnd && p.ended == nil && len(p.open) == 0 {
		// A broker takes that request for the end of any transaction of its epoch (KIP-890).
		if err := p.Restart(ctx); err != nil {
			return p.fail(ctx, "beginning a transaction", err)
		}
	}
	rounds, err := p.seal(b, true)
	if err != nil || len(rounds) == 0 {
		return err
	}
	crash.Point(crash.BeforeAdd)
	if err := p.addPartitions(ctx, rounds[0]); err != nil { // the first round has a batch for every partition
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

// End commits the open transaction, with offsets of a consumer group if there are any. Its errors are those
// of Produce. Without a transaction it does nothing.
func (p *Producer) End(ctx context.Context, group string, offsets map[TopicPartition]int64) error {
	if p.ended != nil {
		return p.unusable()
	}
	if len(p.open) == 0 {
		return nil // brokers refuse to end an empty transaction
	}
	if len(offsets) > 0 {
		if err := p.addOffsets(ctx, group, offsets); err != nil {
			return p.fail(ctx, "committing group offsets", err)
		}
	}
	crash.Point(crash.BeforeEnd)
	if err := p.end(ctx, p.cfg.RetryFor, true); err != nil {
		return p.endUnknown("ending the transaction", err)
	}
	crash.Point(crash.AfterEnd)
	clear(p.open)
	return nil
}

// Send produces the records idempotently, without a transaction. If it fails,
// some of them may have been appended.
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

// SendAgain is Send, but sends again, in a new session, for as long as the outcome is unknown.
// Some records may then be appended twice.
func (p *Producer) SendAgain(ctx context.Context, records []Record) error {
	for {
		err := p.Send(ctx, records)
		if err == nil || ctx.Err() != nil || !errors.Is(err, ErrUnknown) {
			return err
		}
		if err := p.Restart(ctx); err != nil {
			return err
		}
	}
}

// fail ends the session after an error before the commit request. If the error is
// permanent it aborts the transaction, so that readers need not wait for its
// time-out.
func (p *Producer) fail(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil || transient(err) || fenced(err) || sessionLost(err) {
		return p.endUnknown(doing, err)
	}
	p.ended = fmt.Errorf("%s: %w", doing, cause(err))
	if p.cfg.TransactionalID != "" {
		if err := p.end(ctx, time.Second, false); err != nil {
			p.client.cfg.Logger.Debug("kafka: cannot abort the refused transaction, it stays open until it times out", "err", err)
		}
	}
	return p.ended
}

// endUnknown ends the session after an error that leaves the outcome unknown.
func (p *Producer) endUnknown(doing string, err error) error {
	kind := ErrUnknown
	if p.cfg.TransactionalID != "" && fenced(err) {
		kind = ErrFenced
	}
	p.ended = fmt.Errorf("%s: %w (%w)", doing, kind, cause(err))
	return p.ended
}

// fenced reports whether another producer has taken over. Which of the two codes
// a broker returns depends on the request.
func fenced(err error) bool {
	return errors.Is(err, kafkago.ProducerFenced) || errors.Is(err, kafkago.InvalidProducerEpoch)
}

// sessionLost reports whether broker and producer disagree about the session's
// state: the broker has dropped the producer, or the answer to the end of a
// transaction was lost. A new session resolves it.
func sessionLost(err error) bool {
	return errors.Is(err, kafkago.OutOfOrderSequenceNumber) || errors.Is(err, kafkago.UnknownProducerId) ||
		errors.Is(err, kafkago.InvalidProducerIDMapping) || errors.Is(err, kafkago.InvalidTransactionState)
}

func (p *Producer) unusable() error {
	return fmt.Errorf("the producer was not restarted after an error: %w", p.ended)
}
