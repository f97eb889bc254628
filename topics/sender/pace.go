package sender

import (
	"context"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
)

// pace keeps to a rate of events per second from its beginning on, 0 for no limit.
type pace struct {
	rate  float64
	began time.Time
	sent  int // events
}

func newPace(rate float64) pace { return pace{rate: rate, began: time.Now()} }

// burst returns how many of n events may be sent in one request: those of a twentieth
// of a second.
func (p *pace) burst(n int) int {
	if p.rate > 0 {
		n = min(n, max(1, int(p.rate/20)))
	}
	return min(n, maxBurst)
}

// wait waits until the next burst is due.
func (p *pace) wait(ctx context.Context) error {
	if p.rate <= 0 {
		return nil
	}
	due := p.began.Add(time.Duration(float64(p.sent) / p.rate * float64(time.Second)))
	return kafka.Sleep(ctx, time.Until(due))
}
