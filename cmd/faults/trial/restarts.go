package trial

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
)

// restarted is the result of [Restarts].
type restarted struct {
	Brokers   int   `json:"brokers"` // nodes of the cluster
	Rate      int   `json:"rate"`    // nodes sent a second
	Restarts  int   `json:"restarts"`
	AwayMS    int64 `json:"away_ms"`    // for which the longest of them left the node down
	Nodes     int   `json:"nodes"`      // sent
	Windows   int   `json:"windows"`    // committed
	LongestMS int64 `json:"longest_ms"` // from the start of a broker to the next window
	verdict         // a worker that ended, and an outage that /readyz does not show, are unexplained
}

// Restarts stops one node of Apache Kafka after the other, as an operator does, and starts it
// again, while nodes of a graph are sent at the given rate and one worker serves. The last of the
// restarts leaves its node down for the time away, the others for a moment. No worker may end, and every node must be predicted once.
func Restarts(ctx context.Context, s *Setup, rate, times int, away time.Duration) (found *restarted, err error) {
	defer catch(&err)
	c, ok := s.Cluster.(*nodes)
	if !ok {
		fail("restarts of brokers need --broker kafka or kafka1")
	}
	v := s.newServed(ctx, "restarts")
	r := &restarts{served: v, cluster: c, found: restarted{Brokers: len(c.each), Rate: rate, Restarts: times}}
	v.http = freeAddress()
	defer r.end()
	v.begin(ctx)
	beside(func(stop <-chan struct{}) { r.sendAt(ctx, rate, stop) }, func() {
		for i := range times {
			down := time.Duration(0)
			if i == times-1 {
				down = away
			}
			r.restart(ctx, i%len(c.each), down)
		}
	})
	r.finish(ctx)
	return &r.found, nil
}

// restarts is a run of [Restarts].
type restarts struct {
	*served
	cluster *nodes
	found   restarted
}

// sendAt sends nodes at a rate, until stop is closed.
func (r *restarts) sendAt(ctx context.Context, rate int, stop <-chan struct{}) {
	const bursts = 20 // a second
	ticking(ctx, time.Second/bursts, func() bool {
		r.send(ctx, rate/bursts)
		return closed(stop)
	})
}

// restart restarts a node of the cluster once the worker serves, and waits until it serves
// again.
func (r *restarts) restart(ctx context.Context, node int, away time.Duration) {
	r.awaitWindow(ctx, time.Now().Add(time.Second))
	began := time.Now()
	r.cluster.stop(node)
	r.setup.Report(fmt.Sprintf("node %d stopped", node+1))
	if len(r.cluster.each) == 1 && away > 0 {
		if err := caught(func() { r.awaitReady(ctx, http.StatusServiceUnavailable, away) }); err != nil {
			r.found.unexplained("%v", err)
		}
		must(kafka.Sleep(ctx, away-time.Since(began)))
	}
	r.cluster.start(node)
	started := time.Now()
	r.found.AwayMS = max(r.found.AwayMS, started.Sub(began).Milliseconds())
	at := r.awaitWindow(ctx, started)
	r.found.LongestMS = max(r.found.LongestMS, at.Sub(started).Milliseconds())
	r.setup.Report(fmt.Sprintf("node %d started, the next window came after %v", node+1, at.Sub(started).Round(time.Millisecond)))
	r.awaitReady(ctx, http.StatusOK, drainTimeout)
}

// awaitWindow waits for a window that is committed after the given time, and returns when it
// was seen.
func (r *restarts) awaitWindow(ctx context.Context, after time.Time) (at time.Time) {
	r.progress.await(ctx, r.worker, "window", drainTimeout, func(totals) bool {
		_, at = r.progress.now()
		return at.After(after)
	})
	return at
}

// awaitReady waits until /readyz answers with a status.
func (r *restarts) awaitReady(ctx context.Context, status int, within time.Duration) {
	var last string
	defer func() { r.setup.Report(fmt.Sprintf("/readyz: %.200q", last)) }()
	r.progress.await(ctx, r.worker, fmt.Sprintf("answer %d of /readyz", status), within, func(totals) bool {
		var got int
		got, last = get(ctx, r.http, "/readyz")
		return got == status
	})
}

// finish waits until everything that was sent is predicted, ends the workers and reads what they
// have published.
func (r *restarts) finish(ctx context.Context) {
	r.found.Nodes = r.sent
	r.predicted(ctx)
	for _, p := range r.started {
		r.found.ends(p)
	}
	must(r.progress.close())
	r.progress = nil
	got := r.judge(ctx, r.sent, &r.found.verdict)
	r.found.Windows = len(got.windows)
}

// freeAddress returns an address of this machine on which nothing listens.
func freeAddress() string {
	l := need(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}
