package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// totals are sums over the windows of a ledger.
type totals struct {
	windows                      int
	predictions, labels, refused int
	forgotten                    int    // windows in which nodes were forgotten
	promoted                     int    // windows in which a model was promoted
	shadow                       string // the model in the shadow in the last window, "" for none
	epoch                        int64
	attempt                      int // to forget nodes, that the last window notes; 0 for none
}

// progress follows a ledger as it grows.
type progress struct {
	cancel context.CancelFunc
	done   chan error // receives the error that ended the reading, nil after close

	mu    sync.Mutex
	sum   totals
	last  time.Time                      // when the last record was seen
	taken map[kafka.TopicPartition]int64 // how many records of the inputs are in windows
}

// follow starts to read the graph's ledger.
func (g *graph) follow(ctx context.Context) *progress {
	ctx, cancel := context.WithCancel(ctx)
	p := &progress{cancel: cancel, done: make(chan error, 1), taken: make(map[kafka.TopicPartition]int64)}
	l := need(ledger.Open(ctx, g.setup.Client, g.names.LedgerAt()))
	go func() { p.done <- p.read(ctx, l) }()
	return p
}

// read reads the ledger's records until the context ends.
func (p *progress) read(ctx context.Context, l *ledger.Ledger) error {
	for ctx.Err() == nil {
		r, err := l.Wait(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if r != nil {
			p.add(r)
		}
	}
	return nil
}

func (p *progress) add(r *ledger.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	p.sum.epoch, p.sum.attempt = r.Epoch, r.Attempt
	p.sum.windows++
	p.sum.predictions += r.Predictions
	p.sum.labels += r.Labels
	p.sum.refused += r.Refused
	for _, g := range r.Ranges {
		p.taken[kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}] += g.To - g.From
	}
	if r.Forgot != nil {
		p.sum.forgotten++
	}
	if r.Promoted != "" {
		p.sum.promoted++
	}
	if p.sum.shadow = ""; r.Shadow != nil {
		p.sum.shadow = r.Shadow.Model
	}
}

// covers reports whether so many records are in windows that were stepped.
func (p *progress) covers(records map[kafka.TopicPartition]int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, n := range records {
		if p.taken[at] < n {
			return false
		}
	}
	return true
}

// now returns the sums so far, and when the last record was seen.
func (p *progress) now() (sum totals, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum, p.last
}

// await waits until a condition holds, for a limited time. It is an error if the worker ends
// before.
func (p *progress) await(ctx context.Context, worker *process, what string, within time.Duration, holds func(totals) bool) {
	await(ctx, within, func() (missing string) {
		p.check()
		if sum, _ := p.now(); holds(sum) {
			return ""
		}
		if closed(worker.ended) {
			fail("the worker ended: %s, see %s", worker.lastLine(), worker.log.Name())
		}
		return fmt.Sprintf("no %s, see %s", what, worker.log.Name())
	})
}

// check fails if the reading has.
func (p *progress) check() {
	select {
	case err := <-p.done:
		p.done <- err
		fail("the ledger: %w", err)
	default:
	}
}

// close stops the reading, and returns its error.
func (p *progress) close() error {
	p.cancel()
	return <-p.done
}
