package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gvbll/gvbll/topics/ledger"
)

// totals are sums over the windows of a ledger.
type totals struct {
	windows, predictions, labels, refused int
	forgotten                             int // windows in which nodes were forgotten
	promoted                              int // windows in which a model was promoted
	epoch                                 int64
	attempt                               int // to forget nodes, that the last window notes; 0 for none
}

// progress follows a ledger as it grows.
type progress struct {
	cancel context.CancelFunc
	done   chan error // receives the error that ended the reading, nil after close

	mu   sync.Mutex
	sum  totals
	last time.Time // when the last record was seen
	// pause is the longest time between two records since longest was called.
	pause time.Duration
}

// follow starts to read the graph's ledger.
func (g *graph) follow(ctx context.Context) (*progress, error) {
	l, err := ledger.Open(ctx, g.client, g.names.LedgerAt(0))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &progress{cancel: cancel, done: make(chan error, 1)}
	go func() {
		for ctx.Err() == nil {
			r, err := l.Wait(ctx)
			if err != nil && ctx.Err() == nil {
				p.done <- err
				return
			}
			if r == nil {
				continue
			}
			p.mu.Lock()
			if now := time.Now(); p.last.IsZero() {
				p.last = now
			} else {
				p.pause, p.last = max(p.pause, now.Sub(p.last)), now
			}
			p.sum.epoch, p.sum.attempt = r.Epoch, r.Attempt
			p.sum.windows++
			p.sum.predictions += r.Predictions
			p.sum.labels += r.Labels
			p.sum.refused += r.Refused
			if r.Forgot != nil {
				p.sum.forgotten++
			}
			if r.Promoted != "" {
				p.sum.promoted++
			}
			p.mu.Unlock()
		}
		p.done <- nil
	}()
	return p, nil
}

// now returns the sums so far, and when the last record was seen.
func (p *progress) now() (sum totals, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum, p.last
}

// await waits until a condition holds, for a limited time. It is an error if the worker ends
// before.
func (p *progress) await(ctx context.Context, worker *process, what string, within time.Duration, holds func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(within); !holds(); {
		select {
		case <-tick.C:
		case <-worker.ended:
			return fmt.Errorf("the worker ended: %s, see %s", worker.lastLine(), worker.log.Name())
		case err := <-p.done:
			return fmt.Errorf("the ledger: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("within %v there was no %s, see %s", within, what, worker.log.Name())
		}
	}
	return nil
}

// longest returns the longest time between two records since its last call.
func (p *progress) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := p.pause
	p.pause = 0
	return longest
}

// close stops the reading, and returns its error.
func (p *progress) close() error {
	p.cancel()
	return <-p.done
}
