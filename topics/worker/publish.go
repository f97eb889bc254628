package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// maxOutput bounds the bytes of records in a transaction: beyond it the transaction is
// committed without waiting for the commit interval. It also bounds the bytes that wait
// for the next transaction: beyond it, stepping waits.
const maxOutput = 8 << 20

// commitFor is how long after the end of the worker's context stepped windows may still
// be committed. Before that there is no limit: while no broker answers, the worker waits.
const commitFor = 30 * time.Second

// lasting returns a context that ends commitFor after ctx.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(commitFor, cancel) })
	return longer, cancel
}

// output holds the encoded effects of one or more windows, on their way into a
// transaction.
type output struct {
	batch   *kafka.Batch
	offsets map[kafka.TopicPartition]int64
	windows int
	last    int64     // number of the last window
	chain   string    // its hash, as the ledger has it
	since   time.Time // when the first window was stepped
}

// publisher puts outputs into transactions, concurrently with the encoder. An output is
// produced as soon as it is received, so that readers of uncommitted records get it
// early; the transaction ends a commit interval after its first window was stepped.
//
// There is one transaction at a time, and outputs are in the order of their windows.
// The outputs of the open transaction are kept until it is known to be committed, so
// that they can be produced again. Later outputs are in no transaction yet, and do not
// depend on its outcome.
type publisher struct {
	cfg      *Config
	owns     *atomic.Bool // false once another worker was elected
	producer *kafka.Producer
	ledger   *ledger.Ledger // after the last window that was replayed or searched for

	in        chan *output   // closed after the last output
	encodeErr error          // why in was closed early, nil if it was not; read after in is closed
	spare     chan *output   // to be reused
	committed chan Committed // after each transaction; closed at the end
	ended     chan struct{}  // closed at the end
	err       error          // why it ended, nil at the end of in; read after committed is closed

	open    []*output // in the open transaction
	began   time.Time // when it began
	bytes   int       // of open
	offsets map[kafka.TopicPartition]int64
	tries   int
}

const (
	spareOutputs  = 64 // outputs kept for reuse
	queuedCommits = 16 // committed transactions that the loop has not received yet
)

func newPublisher(cfg *Config, owns *atomic.Bool, p *kafka.Producer, l *ledger.Ledger) *publisher {
	return &publisher{
		cfg: cfg, owns: owns, producer: p, ledger: l,
		in: make(chan *output), spare: make(chan *output, spareOutputs), committed: make(chan Committed, queuedCommits), ended: make(chan struct{}),
		offsets: make(map[kafka.TopicPartition]int64), tries: 1,
	}
}

// new returns an empty output.
func (p *publisher) new() *output {
	select {
	case o := <-p.spare:
		return o
	default:
		return &output{batch: p.producer.NewBatch(), offsets: make(map[kafka.TopicPartition]int64)}
	}
}

// run ends when in is closed and everything is committed, or with the first error.
func (p *publisher) run(ctx context.Context) {
	defer close(p.committed)
	defer close(p.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p.err == nil {
		var due <-chan time.Time
		if len(p.open) > 0 {
			left := p.cfg.CommitInterval - time.Since(p.open[0].since)
			if left <= 0 || p.bytes >= maxOutput {
				p.err = p.commit(ctx)
				continue
			}
			timer.Reset(left)
			due = timer.C
		}
		select {
		case o, more := <-p.in:
			if !more {
				p.err = cmp.Or(p.commit(ctx), p.encodeErr)
				return
			}
			p.err = p.produce(ctx, o)
		case <-due:
		}
	}
}

// produce adds an output to the open transaction, or begins one with it.
func (p *publisher) produce(ctx context.Context, o *output) error {
	if len(p.open) == 0 {
		p.began = time.Now()
	}
	p.open = append(p.open, o)
	p.bytes += o.batch.Bytes()
	maps.Copy(p.offsets, o.offsets)
	err := p.producer.Produce(ctx, o.batch)
	if err == nil {
		return nil
	}
	began := time.Now()
	committed, err := p.retry(ctx, err)
	if committed {
		p.finish(began)
	}
	return err
}

// commit ends the transaction, if one is open.
func (p *publisher) commit(ctx context.Context) error {
	if len(p.open) == 0 {
		return nil
	}
	began := time.Now()
	for committed := false; !committed; {
		err := p.producer.End(ctx, p.cfg.Names.Ledger, p.offsets)
		if err == nil {
			break
		}
		if committed, err = p.retry(ctx, err); err != nil {
			return err
		}
	}
	p.finish(began)
	return nil
}

// finish reports the committed transaction and gets ready for the next.
func (p *publisher) finish(began time.Time) {
	c := Committed{
		Last: p.open[len(p.open)-1].last, Took: time.Since(began), Tries: p.tries,
		offset: p.producer.Last(p.cfg.ledgerAt()),
	}
	for _, o := range p.open {
		c.Windows += o.windows
		o.windows = 0
		o.batch.Reset()
		clear(o.offsets)
		select {
		case p.spare <- o:
		default:
		}
	}
	clear(p.open)
	p.open, p.bytes, p.tries = p.open[:0], 0, 1
	clear(p.offsets)
	p.committed <- c
}

// retry handles an error of the open transaction. If the outcome is unknown, the ledger
// decides: it holds the transaction's last window if and only if the transaction was
// committed. If it was not, all of it is produced again in a new transaction, which is
// then the open one.
func (p *publisher) retry(ctx context.Context, err error) (committed bool, _ error) {
	for {
		if errors.Is(err, kafka.ErrFenced) && !p.expired() {
			return false, fmt.Errorf("%w: %w", ErrOwned, err)
		}
		if !errors.Is(err, kafka.ErrUnknown) && !errors.Is(err, kafka.ErrFenced) || ctx.Err() != nil {
			return false, err
		}
		p.cfg.Logger.Warn("the outcome of a commit is unknown, checking the ledger", "window", p.open[len(p.open)-1].last, "err", err)
		if committed, err := p.inLedger(ctx); committed || err != nil {
			return committed, err
		}
		p.tries++
		p.began = time.Now()
		err = nil
		for _, o := range p.open {
			if err == nil {
				err = p.producer.Produce(ctx, o.batch)
			}
		}
		if err == nil {
			return false, nil
		}
	}
}

// expired reports whether the broker may have ended the open transaction because it was
// open for too long, as after an outage. That looks exactly like another worker's
// take-over. It is not one as long as this worker is the one that was elected.
func (p *publisher) expired() bool {
	return p.owns.Load() && time.Since(p.began) >= p.cfg.TransactionTimeout
}

// inLedger reports whether the ledger holds the open transaction. It first restarts the
// producer, which waits until no transaction of this worker is open.
//
// If the transaction has expired, the restart is a take-over, which would fence another
// owner. But then the ledger has windows of the other one instead of these, and
// this worker ends.
func (p *publisher) inLedger(ctx context.Context) (found bool, err error) {
	err = p.producer.Restart(ctx)
	if errors.Is(err, kafka.ErrFenced) && p.expired() {
		p.cfg.Logger.Warn("the transaction was open for longer than its time-out, and is begun again", "timeout", p.cfg.TransactionTimeout, "err", err)
		err = p.producer.TakeOver(ctx)
	}
	if errors.Is(err, kafka.ErrFenced) {
		return false, fmt.Errorf("%w: %w", ErrOwned, err)
	} else if err != nil {
		return false, err
	}
	first := p.open[0].last - int64(p.open[0].windows) + 1
	last := p.open[len(p.open)-1]
	others := int64(-1) // a window that this worker has not written, -1 for none
	for {
		r, err := p.ledger.Next(ctx)
		if err != nil {
			return false, err
		}
		switch {
		case r == nil && others >= 0 && !found:
			return false, fmt.Errorf("%w: it wrote window %d of the ledger", ErrOwned, others)
		case r == nil:
			return found, nil
		case found, r.Window == last.last && r.Chain != last.chain:
			return false, fmt.Errorf("%w: it wrote window %d of the ledger", ErrOwned, r.Window)
		case r.Window == last.last:
			found = true
		case r.Window >= first:
			others = r.Window
		}
	}
}
