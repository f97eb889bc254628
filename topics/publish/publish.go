package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// maxOutput bounds the bytes of records in a transaction: beyond it the transaction is
// committed without waiting for the commit interval. It also bounds the bytes that wait
// for the next transaction: beyond it, stepping waits.
const maxOutput = 8 << 20

// output holds the encoded results of one or more windows, on their way into a
// transaction.
type output struct {
	batch   *kafka.Batch
	offsets map[kafka.TopicPartition]int64
	windows int
	most    int       // bytes of batch that it has had: how much memory it has, within a factor
	last    int64     // number of the last window
	chain   string    // its hash, as the ledger has it
	since   time.Time // when the first window was cut
}

// publisher puts outputs into transactions, concurrently with the loop. An output is
// produced as soon as it is received, so that readers of uncommitted records get it
// early; the transaction is committed about a commit interval after its first window was cut.
//
// There is one transaction at a time, and outputs are in the order of their windows.
// The outputs of the open transaction are kept until it is known to be committed, so
// that they can be produced again. Later outputs are in no transaction yet, and do not
// depend on its outcome.
type publisher struct {
	cfg      *Config
	from     Sources
	producer *kafka.Producer

	in        chan *output // closed after the last output
	gathered  chan *output // holds one at most, to which the loop may add windows as long as it is there
	committed chan Commit  // after each transaction; closed at the end
	err       error        // why it ended, nil at the end of in; read after committed is closed

	mu    sync.Mutex // guards what follows
	spare []*output  // to be reused, the last one first
	kept  int        // bytes of most of all spare ones

	pace  pace
	open  []*output // in the open transaction
	began time.Time // when it began
	bytes int       // of open
	tries int

	last int64 // the last window that is committed, -1 for none
}

const (
	spareOutputs  = 64 // outputs kept for reuse
	queuedCommits = 16 // committed transactions that the loop has not received yet
)

func newPublisher(cfg *Config, p *kafka.Producer, from Sources) *publisher {
	return &publisher{
		cfg: cfg, from: from, producer: p, pace: pace{interval: cfg.CommitInterval},
		in: make(chan *output), gathered: make(chan *output, 1),
		committed: make(chan Commit, queuedCommits),
		tries:     1, last: from.Ledger.Window(),
	}
}

// new returns an empty output.
func (p *publisher) new() *output {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.spare)
	if n == 0 {
		return &output{batch: p.producer.NewBatch(), offsets: make(map[kafka.TopicPartition]int64)}
	}
	o := p.spare[n-1]
	p.spare, p.kept = p.spare[:n-1], p.kept-o.most
	return o
}

// reuse keeps an output that is committed for a later one, up to spareOutputs of maxOutput bytes together: a flood makes each
// large in turn.
func (p *publisher) reuse(o *output) {
	o.windows, o.most = 0, max(o.most, o.batch.Bytes())
	o.batch.Reset()
	clear(o.offsets)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.spare) < spareOutputs && p.kept+o.most <= maxOutput {
		p.spare, p.kept = append(p.spare, o), p.kept+o.most
	}
}

// run ends when in is closed and everything is committed, or with the first error.
func (p *publisher) run(ctx context.Context) {
	defer close(p.committed)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for p.err == nil {
		var due <-chan time.Time
		if len(p.open) > 0 {
			left := p.pace.left(time.Since(p.open[0].since))
			if left <= 0 || p.bytes >= maxOutput {
				p.err = p.commit(ctx)
				continue
			}
			timer.Reset(left)
			due = timer.C
		}
		select {
		case o := <-p.gathered:
			p.err = p.produce(ctx, o)
		case o, more := <-p.in:
			if more {
				p.err = p.produce(ctx, o)
				continue
			}
			select {
			case o := <-p.gathered:
				p.err = p.produce(ctx, o)
			default:
			}
			if p.err == nil {
				p.err = p.commit(ctx)
			}
			return
		case <-due:
		}
	}
}

// produce adds an output to the open transaction, or begins one with it.
func (p *publisher) produce(ctx context.Context, o *output) error {
	p.open = append(p.open, o)
	p.bytes += o.batch.Bytes()
	if len(p.open) == 1 {
		p.began = time.Now()
	}
	err := p.producer.Produce(ctx, o.batch)
	if err == nil {
		return p.checkCut(ctx)
	}
	began := time.Now()
	committed, err := p.retry(ctx, err)
	if committed {
		p.finish(began)
	}
	return err
}

// checkCut returns a [ledger.ShortError], with the transaction aborted, if the ledger has lost its
// end, and logs the other outputs that have: their consumers may not have seen what is gone.
func (p *publisher) checkCut(ctx context.Context) error {
	for _, at := range p.producer.Cut() {
		if at == p.from.Terms.Names.LedgerAt() {
			return errors.Join(p.producer.Restart(ctx), p.short(ctx))
		}
		p.from.Logger.Error("a topic has lost its newest records: 'gvbll status' and 'gvbll audit' say which predictions",
			"topic", at.Topic, "partition", at.Partition)
	}
	return nil
}

// short returns a [ledger.ShortError] of windows that this worker has committed.
func (p *publisher) short(ctx context.Context) error {
	return ledger.Short(ctx, p.from.Client, p.from.Terms.Names.LedgerAt(), p.last, "brokers' answers that they are committed")
}

// commit ends the transaction, if one is open, with the group's offsets behind its windows: these are for lag tools.
func (p *publisher) commit(ctx context.Context) error {
	if len(p.open) == 0 {
		return nil
	}
	offsets := make(map[kafka.TopicPartition]int64)
	for _, o := range p.open {
		maps.Copy(offsets, o.offsets)
	}
	began := time.Now()
	for committed := false; !committed; {
		err := p.producer.End(ctx, p.from.Terms.Names.Ledger, offsets)
		if err == nil {
			if p.tries == 1 {
				p.pace.took(time.Since(began))
			}
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
	p.last = p.newest().last
	c := Commit{
		Happened: replay.Committed{Last: p.last, Took: time.Since(began), Tries: p.tries},
		Offset:   p.producer.Last(p.from.Terms.Names.LedgerAt()),
	}
	for _, o := range p.open {
		c.Happened.Windows += o.windows
		p.reuse(o)
	}
	clear(p.open)
	p.open, p.bytes, p.tries = p.open[:0], 0, 1
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
		p.from.Logger.Warn("the outcome of a commit is unknown, checking the ledger", "window", p.newest().last, "err", err)
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
			return false, p.checkCut(ctx)
		}
	}
}

// newest returns the last output of the open transaction.
func (p *publisher) newest() *output { return p.open[len(p.open)-1] }

// expired reports whether the broker may have ended the open transaction because it was
// open for too long, as after an outage. That looks exactly like another worker's
// take-over. It is not one as long as this worker is the one that was elected.
func (p *publisher) expired() bool {
	return p.from.Owns.Load() && time.Since(p.began) >= p.producer.TransactionTimeout()
}

// inLedger reports whether the ledger holds the open transaction. It is a [ledger.ShortError] if
// the ledger does not hold what was committed before. It first restarts the
// producer, which waits until no transaction of this worker is open.
//
// If the transaction has expired, the restart is a take-over, which would fence another
// owner. But then the ledger has windows of the other one instead of these, and
// this worker ends.
func (p *publisher) inLedger(ctx context.Context) (found bool, err error) {
	err = p.producer.Restart(ctx)
	if errors.Is(err, kafka.ErrFenced) && p.expired() {
		p.from.Logger.Warn("the transaction was open for longer than its time-out, and is begun again", "timeout",
			p.producer.TransactionTimeout(), "err", err)
		err = p.producer.TakeOver(ctx)
	}
	if errors.Is(err, kafka.ErrFenced) {
		return false, fmt.Errorf("%w: %w", ErrOwned, err)
	} else if err != nil {
		return false, err
	}
	first, last := p.open[0].last-int64(p.open[0].windows)+1, p.newest()
	others := int64(-1) // a window that this worker has not written, -1 for none
	for {
		r, err := p.from.Ledger.Next(ctx)
		if err != nil {
			return false, ledger.Explain(ctx, p.from.Client, p.from.Terms.Names.LedgerAt(), p.last, err)
		}
		switch {
		case r == nil && others >= 0 && !found:
			return false, fmt.Errorf("%w: it wrote window %d of the ledger", ErrOwned, others)
		case r == nil && !found && p.from.Ledger.Window() < p.last:
			return false, p.short(ctx)
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
