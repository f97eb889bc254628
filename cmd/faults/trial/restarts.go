package trial

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Restarted is the result of [Restarts].
type Restarted struct {
	Brokers   int   `json:"brokers"` // nodes of the cluster
	Rate      int   `json:"rate"`    // nodes sent a second
	Restarts  int   `json:"restarts"`
	AwayMS    int64 `json:"away_ms"`    // for which the longest of them left the node down
	Nodes     int   `json:"nodes"`      // sent
	Windows   int   `json:"windows"`    // committed
	LongestMS int64 `json:"longest_ms"` // from the start of a broker to the next window
	verdict         // a worker that ended, and an outage that /readyz does not show, are unexplained
}

// String returns one line of counts.
func (r *Restarted) String() string {
	return fmt.Sprintf("restarts of %d brokers at %d events/s: %d clean restarts, away for up to %.1f s; %d nodes sent, %d windows, at most %.1f s from a broker's start to the next: %v",
		r.Brokers, r.Rate, r.Restarts, float64(r.AwayMS)/1000, r.Nodes, r.Windows, float64(r.LongestMS)/1000, &r.verdict)
}

// Restarts stops one node of Apache Kafka after the other, as an operator does, and starts it
// again, while nodes of a graph are sent at the given rate and one worker serves; three share a
// graph of shards. The last of the restarts leaves its node down for the time away, the others
// for a moment. No worker may end, and every node must be predicted once.
func Restarts(ctx context.Context, s *Setup, c *Kafka, rate, times int, away time.Duration, report func(string)) (*Restarted, error) {
	v, err := s.newServed(ctx, nil, "restarts")
	if err != nil {
		return nil, err
	}
	r := &restarts{served: v, cluster: c, report: report, found: Restarted{Brokers: len(c.nodes), Rate: rate, Restarts: times}}
	if v.http, err = freeAddress(); err != nil {
		return nil, err
	}
	r.first = v.http
	defer r.end()
	if err := v.begin(ctx); err != nil {
		return nil, err
	}
	if s.Shards > 0 {
		v.http = "127.0.0.1:0"
		for _, name := range []string{"b", "c"} {
			p, err := v.start(name, "", "--linger", "20ms")
			if err != nil {
				return nil, err
			}
			defer p.kill()
			r.others = append(r.others, p)
		}
	}
	stop := make(chan struct{})
	sent := make(chan error, 1)
	go func() { sent <- r.sendAt(ctx, rate, stop) }()
	for i := range times {
		down := time.Duration(0)
		if i == times-1 {
			down = away
		}
		if err = r.restart(ctx, i%len(c.nodes), down); err != nil {
			break
		}
	}
	close(stop)
	if e := <-sent; err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return &r.found, r.finish(ctx)
}

// restarts is a run of [Restarts].
type restarts struct {
	*served
	cluster *Kafka
	others  []*process // which share the tasks of a graph of shards with the first
	first   string     // --http of that
	report  func(string)
	found   Restarted
}

// sendAt sends nodes at a rate, until stop is closed.
func (r *restarts) sendAt(ctx context.Context, rate int, stop <-chan struct{}) error {
	const bursts = 20 // a second
	tick := time.NewTicker(time.Second / bursts)
	defer tick.Stop()
	for {
		if err := r.send(ctx, rate/bursts); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
	}
}

// restart restarts a node of the cluster once the worker serves, and waits until it serves
// again.
func (r *restarts) restart(ctx context.Context, node int, away time.Duration) error {
	if _, err := r.awaitWindow(ctx, time.Now().Add(time.Second)); err != nil {
		return err
	}
	began := time.Now()
	if err := r.cluster.stop(node); err != nil {
		return err
	}
	r.report(fmt.Sprintf("node %d stopped", node+1))
	if len(r.cluster.nodes) == 1 && away > 0 {
		if err := r.awaitReady(ctx, http.StatusServiceUnavailable, away); err != nil {
			r.found.unexplained("%v", err)
		}
		select {
		case <-time.After(away - time.Since(began)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := r.cluster.start(node); err != nil {
		return err
	}
	started := time.Now()
	r.found.AwayMS = max(r.found.AwayMS, started.Sub(began).Milliseconds())
	at, err := r.awaitWindow(ctx, started)
	if err != nil {
		return err
	}
	r.found.LongestMS = max(r.found.LongestMS, at.Sub(started).Milliseconds())
	r.report(fmt.Sprintf("node %d started, the next window came after %v", node+1, at.Sub(started).Round(time.Millisecond)))
	return r.awaitReady(ctx, http.StatusOK, drainTimeout)
}

// await waits until a condition holds, for a limited time. It is an error if the worker ends.
func (r *restarts) await(ctx context.Context, what string, within time.Duration, holds func() bool) error {
	err := r.progress.await(ctx, r.worker, what, within, holds)
	for _, p := range append(r.others, r.worker) {
		select {
		case <-p.ended:
			r.found.Unexplained++
			err = cmp.Or(err, fmt.Errorf("a worker ended: %s, see %s", p.lastLine(), p.log.Name()))
		default:
		}
	}
	return err
}

// awaitWindow waits for a window that is committed after the given time, and returns when it
// was seen.
func (r *restarts) awaitWindow(ctx context.Context, after time.Time) (at time.Time, err error) {
	err = r.await(ctx, "window", drainTimeout, func() bool {
		_, at = r.progress.now()
		return at.After(after)
	})
	return at, err
}

// awaitReady waits until /readyz answers with a status.
func (r *restarts) awaitReady(ctx context.Context, status int, within time.Duration) error {
	var last string
	err := r.await(ctx, fmt.Sprintf("answer %d of /readyz", status), within, func() bool {
		got, body, err := readiness(ctx, r.first)
		last = body
		return err == nil && got == status
	})
	r.report(fmt.Sprintf("/readyz: %.200q", last))
	return err
}

// finish waits until everything that was sent is predicted, ends the workers and reads what they
// have published.
func (r *restarts) finish(ctx context.Context) error {
	r.found.Nodes = r.sent
	if err := r.predicted(ctx); err != nil {
		return err
	}
	for _, p := range r.others {
		if err := p.stop(); err != nil {
			r.found.unexplained("%s", p.lastLine())
		}
	}
	if err := r.halt(); err != nil {
		r.found.unexplained("%v", err)
	}
	got, err := r.judge(ctx, r.sent, &r.found.verdict)
	if err != nil {
		return err
	}
	r.found.Windows = len(got.windows)
	return nil
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
