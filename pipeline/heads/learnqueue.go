package heads

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/pool"
)

// LearnQueue has the batches of labels that the heads have yet to learn, and what came of the last
// update.
//
// Each window s has an update, in which the heads learn the batch of window s-ℓ, if it had
// labels; ℓ is the lag. Without a lag, it begins and ends in the window. With one, the update
// begins once window s is served, and is over when window s+1 is served. At that moment the heads
// have learned exactly the batches up to s-ℓ, whoever runs the update and however long it takes. In
// between it may run beside the engine: it uses the heads, and a batch with memory of its own.
// Whatever else uses the heads calls Settle first.
type LearnQueue struct {
	heads   Serving
	lag     int64 // ℓ
	beside  beside
	waiting []queued // the oldest first; at most ℓ between windows
	spare   []*pool.Batch
	// logRates are those of the labels in batches whose update begins from now on, see [pool.Batch]. An
	// update beside the engine keeps the slice.
	logRates []float64

	Last update // the newest that is over
	// Of the update that has begun; wait is nil if none has:
	next  update
	batch *pool.Batch // nil if there is nothing to learn
	wait  func()
	// Its parts are done by the thread beside and, once that waits for it, the engine's own: who takes one does it.
	parts chan func()
}

// queued is the prepared batch of a window with labels.
type queued struct {
	window int64
	batch  *pool.Batch
}

// update is what came of an update.
type update struct {
	Posterior event.Hash   // of the heads' state, see [Serving]
	heads     []event.Head // Version, Clipped and Step of each
}

// NewLearnQueue returns a queue for heads as they are.
func NewLearnQueue(heads Serving, cfg Config) *LearnQueue {
	n := len(heads.Heads())
	l := &LearnQueue{heads: heads, lag: int64(cfg.Lag), beside: cfg.Beside}
	l.Last.heads, l.next.heads = make([]event.Head, n), make([]event.Head, n)
	l.Last.Posterior, _ = hashOf(heads.Heads(), nil)
	l.setVersions(&l.Last)
	return l
}

func (l *LearnQueue) setVersions(t *update) {
	for h, head := range l.heads.Heads() {
		t.heads[h].Version = head.Version()
	}
}

// SetRates sets the shares of each class's nodes whose label comes, positive, up to a constant.
func (l *LearnQueue) SetRates(by []float64) {
	l.logRates = slices.Clone(by)
	double.Logarithms(l.logRates)
}

// Rates returns the rates, the largest of which is 1, nil if none were set.
func (l *LearnQueue) Rates() (by []float64) {
	for _, r := range l.logRates {
		by = append(by, double.Exp(r-slices.Max(l.logRates)))
	}
	return by
}

// Put keeps the batch of a window, which prepare writes, until its update begins.
func (l *LearnQueue) Put(window int64, prepare func(to *pool.Batch)) {
	b := &pool.Batch{}
	if last := len(l.spare) - 1; last >= 0 {
		b, l.spare = l.spare[last], l.spare[:last]
	}
	prepare(b)
	if b.N+b.Taken.N == 0 { // a label was withdrawn, and the heads do not count labels
		l.spare = append(l.spare, b)
		return
	}
	l.waiting = append(l.waiting, queued{window, b})
}

// Begin begins the update of a window. That of the window before must be settled.
func (l *LearnQueue) Begin(window int64) {
	l.next.Posterior = l.Last.Posterior
	for h := range l.next.heads {
		l.next.heads[h] = event.Head{Version: l.Last.heads[h].Version}
	}
	if len(l.waiting) == 0 || l.waiting[0].window > window-l.lag {
		l.wait = func() {}
		return
	}
	l.batch = l.waiting[0].batch
	l.batch.LogRates = l.logRates
	l.waiting = slices.Delete(l.waiting, 0, 1)
	parts := l.heads.Learning(l.batch)
	l.parts = make(chan func(), len(parts))
	for _, part := range parts {
		l.parts <- part
	}
	close(l.parts)
	l.wait = l.beside.start(l.learn)
}

// learn does the parts of the update that nobody has taken.
func (l *LearnQueue) learn() {
	for part := range l.parts {
		part()
	}
}

// Settle waits for the end of the update that has begun, if one has.
func (l *LearnQueue) Settle() {
	if l.wait == nil {
		return
	}
	if l.batch != nil {
		l.learn()
	}
	l.wait()
	l.wait = nil
	if l.batch != nil {
		l.next.Posterior = l.heads.Learnt(l.next.Posterior, l.next.heads)
		l.setVersions(&l.next)
		l.spare, l.batch = append(l.spare, l.batch), nil
	}
	l.Last, l.next = l.next, l.Last
}

// Report writes what came of the last update to the outcome of a window.
func (l *LearnQueue) Report(out *event.Outcome) {
	for h, t := range l.Last.heads {
		out.Heads[h].Version, out.Heads[h].Clipped, out.Heads[h].Step = t.Version, t.Clipped, t.Step
	}
	out.Posterior = l.Last.Posterior
}

// State declares the batches that wait, before the next window, and what is to be reported
// of the last update. The heads must have been declared before. Without a lag there is
// nothing to declare: no batch waits, and the last update was reported.
func (l *LearnQueue) State(s *snapshot.Schema, next int64) {
	s.Check(func() error {
		l.setVersions(&l.Last)
		return nil
	})
	if l.lag == 0 {
		return
	}
	var windows, clipped []int64
	var step []float64
	for _, x := range l.waiting {
		windows = append(windows, x.window)
	}
	for _, h := range l.Last.heads {
		clipped, step = append(clipped, int64(h.Clipped)), append(step, h.Step)
	}
	snapshot.Slice(s, "learn.clipped", &clipped, len(clipped))
	snapshot.Slice(s, "learn.step", &step, len(step))
	snapshot.Slice(s, "learn.window", &windows, s.Len("learn.window", len(windows), int(l.lag)))
	s.Check(func() error {
		for h := range l.Last.heads {
			n, x := clipped[h], step[h]
			if n < 0 || n > math.MaxInt32 || !(x >= 0 && x <= math.MaxFloat64) {
				return snapshot.Damaged("an update clipped %d entries and moved the mean by %v", n, x)
			}
			l.Last.heads[h].Clipped, l.Last.heads[h].Step = int(n), x
		}
		oldest := next - l.lag
		for _, window := range windows {
			if window < max(oldest, 0) || window >= next {
				return snapshot.Damaged("the labels of window %d wait to be learned, the next is %d and they wait for %d",
					window, next, l.lag)
			}
			l.waiting = append(l.waiting, queued{window: window})
			oldest = window + 1
		}
		return nil
	})
	snapshot.Bytes(s, "learn.batches", (*waitingBatches)(l))
}

// waitingBatches is the batches that wait, as bytes.
type waitingBatches LearnQueue

// AppendState is for [snapshot.Bytes].
func (w *waitingBatches) AppendState(b []byte) []byte {
	for _, x := range w.waiting {
		b = w.heads.Layout().AppendBatch(b, x.batch)
	}
	return b
}

// SetState is for [snapshot.Bytes]. It reads a batch for each window that waits.
func (w *waitingBatches) SetState(b []byte) error {
	for i := range w.waiting {
		batch, rest, err := w.heads.Layout().ReadBatch(b)
		if err != nil {
			return err
		}
		if batch.N+batch.Taken.N == 0 {
			return snapshot.Damaged("window %d waits to be learned and has no labels", w.waiting[i].window)
		}
		w.waiting[i].batch, b = &batch, rest
	}
	if len(b) > 0 {
		return snapshot.Damaged("%d bytes more than the labels that wait to be learned", len(b))
	}
	return nil
}
