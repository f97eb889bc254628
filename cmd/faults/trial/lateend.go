package trial

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lateEnd has a proxy hold the request that ends a transaction. The worker sends it again, and begins
// the next one, of which one leader has answered and another was asked nothing yet when the proxy
// passes the first request on.
func lateEnd(ctx context.Context, v *served) {
	p := newProxy(v.setup.Brokers)
	defer p.close()
	if f, ok := v.setup.Cluster.(*fake); ok { // which may lead all from one broker
		for part := range int32(partitions) {
			must(f.cluster.MoveTopicPartition(v.names.Predictions, part, part))
		}
	}
	direct := v.setup.Brokers
	v.send(ctx, 200)
	h := &holding{passed: make(chan struct{})}
	p.request, p.answered = h.request, h.answered
	v.setup.Brokers = p.addresses()
	v.serve(ctx, 0)
	for range 2 {
		h.arm()
		for range 10 {
			v.more(ctx, 30)
		}
	}
	v.halt()
	v.setup.Brokers = direct
	v.published(ctx, v.sent)
	if h.late != 2 || h.err != nil || h.code == nil {
		fail("%d of 2 requests came late, to which the broker said %v, error %v", h.late, h.code, h.err)
	}
	must(v.audit(ctx))
}

// holding is what the proxy of lateEnd holds.
type holding struct {
	mu       sync.Mutex
	armed    bool
	end      *frame        // that is held
	again    bool          // it was sent once more
	leader   string        // that the next Produce was sent to first
	produced bool          // it has answered
	waiting  bool          // another leader's is held
	passed   chan struct{} // closed when the end was passed on
	late     int           // ends that were passed on
	code     error         // what the broker said to the last of them
	err      error
}

// arm makes it hold the next end.
func (h *holding) arm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.armed, h.end, h.again, h.leader, h.produced, h.waiting, h.passed = true, nil, false, "", false, false, make(chan struct{})
}

// request is that of [proxy]. Of a Produce that goes to several leaders after the end was sent once
// more, it holds those behind the first until the end was passed on.
func (h *holding) request(f *frame) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.armed:
	case f.key == kmsg.EndTxn && h.end == nil:
		h.end = f
		return false
	case f.key == kmsg.EndTxn:
		h.again, h.leader, h.produced, h.waiting = true, "", false, false
	case f.key != kmsg.Produce || !h.again:
	case h.leader == "":
		h.leader = f.broker
	case f.broker != h.leader:
		h.waiting = true
		h.pass()
		passed := h.passed
		h.mu.Unlock()
		select {
		case <-passed:
		case <-time.After(2 * time.Second):
		}
		h.mu.Lock()
	}
	return true
}

// answered is that of [proxy].
func (h *holding) answered(f *frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.armed && f.key == kmsg.Produce && f.broker == h.leader {
		h.produced = true
		h.pass()
	}
}

// pass passes the end on if one leader has answered and another waits.
func (h *holding) pass() {
	if !h.produced || !h.waiting || !h.armed {
		return
	}
	h.armed = false
	h.late++
	h.err = caught(func() { h.code = kerr.ErrorForCode(h.end.ask().(*kmsg.EndTxnResponse).ErrorCode) })
	close(h.passed)
}
