package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

// watch reads predictions as they are committed, and measures how long nodes waited.
type watch struct {
	client *kgo.Client
	done   chan struct{} // closed at the end of the reading

	mu     sync.Mutex
	at     map[event.ID]time.Time // when nodes were sent whose predictions have not come
	delay  []time.Duration
	broken error
}

// watch starts to read the graph's new predictions.
func (g *graph) watch(ctx context.Context) *watch {
	c := need(kgo.NewClient(kgo.SeedBrokers(g.setup.Brokers...), kgo.ConsumeTopics(g.names.Predictions),
		kgo.FetchIsolationLevel(kgo.ReadCommitted())))
	w := &watch{client: c, done: make(chan struct{}), at: make(map[event.ID]time.Time)}
	go func() {
		defer close(w.done)
		for {
			fetches := c.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			w.mu.Lock()
			now := time.Now()
			fetches.EachRecord(func(r *kgo.Record) {
				var p event.Prediction
				w.broken = errors.Join(w.broken, wire.DecodePrediction(r.Value, &p))
				if at, waits := w.at[p.Node]; waits {
					w.delay = append(w.delay, now.Sub(at))
					delete(w.at, p.Node)
				}
			})
			w.mu.Unlock()
		}
	}()
	return w
}

// sent notes that the nodes first and following are sent now.
func (w *watch) sent(first, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range n {
		w.at[event.ID{Num: int64(first + i)}] = time.Now()
	}
}

// delays returns the median and the longest time that a node waited for its prediction. One
// whose prediction was not read has waited until now.
func (w *watch) delays() (median, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	must(w.broken)
	all := slices.Clone(w.delay)
	for _, at := range w.at {
		all = append(all, time.Since(at))
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

func (w *watch) close() {
	w.client.Close()
	<-w.done
}

// peakMB returns the largest resident size that the process has had, in 10⁶ bytes, as Linux
// counts it.
func (p *process) peakMB() (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	var kb int
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		return 0, fmt.Errorf("the peak of memory of process %d: %w", p.cmd.Process.Pid, err)
	}
	return kb * 1024 / 1e6, nil
}
