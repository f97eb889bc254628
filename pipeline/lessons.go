package pipeline

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/pool"
)

// lessons are the batches that the heads have yet to learn, and what came of the last turn.
//
// Each window s has a turn, in which the heads learn the batch of window s-ℓ, if it had
// labels; ℓ is [Config.LearnLag]. Without a lag, the turn is within Learn. With one it
// begins once window s is served, and is over when window s+1 is served. At that moment
// the heads have therefore learned exactly the batches up to s-ℓ, whoever runs the turn and
// however long it takes. In between it may run beside the engine: it uses the heads, and a
// batch with memory of its own. Whatever else uses the heads calls settle first.
type lessons struct {
	heads   learner
	lag     int64 // ℓ
	beside  beside
	waiting []lesson // the oldest first; at most ℓ between windows
	spare   []*pool.Batch

	last turn // the newest that is over
	// Of the turn that has begun; wait is nil if none has:
	next  turn
	batch *pool.Batch // nil if there is nothing to learn
	wait  func()
}

// lesson is the prepared batch of a window with labels.
type lesson struct {
	window int64
	batch  *pool.Batch
}

// turn is what came of a turn.
type turn struct {
	posterior event.Hash   // of the heads' state, see learner.hash
	heads     []event.Head // Version, Clipped and Step of each
}

func newLessons(heads learner, cfg Config) *lessons {
	n := len(heads.heads())
	l := &lessons{heads: heads, lag: int64(cfg.LearnLag), beside: cfg.beside()}
	l.last.heads, l.next.heads = make([]event.Head, n), make([]event.Head, n)
	l.last.posterior, _ = hashOf(heads.heads(), nil)
	l.setVersions(&l.last)
	return l
}

func (l *lessons) setVersions(t *turn) {
	for h, head := range l.heads.heads() {
		t.heads[h].Version = head.Version()
	}
}

// put keeps the batch of a window, which prepare writes, until its turn.
func (l *lessons) put(window int64, prepare func(to *pool.Batch)) {
	b := &pool.Batch{}
	if last := len(l.spare) - 1; last >= 0 {
		b, l.spare = l.spare[last], l.spare[:last]
	}
	prepare(b)
	l.waiting = append(l.waiting, lesson{window, b})
}

// begin begins the turn of a window. That of the window before must be settled.
func (l *lessons) begin(window int64) {
	l.next.posterior = l.last.posterior
	for h := range l.next.heads {
		l.next.heads[h] = event.Head{Version: l.last.heads[h].Version}
	}
	if len(l.waiting) == 0 || l.waiting[0].window > window-l.lag {
		l.wait = func() {}
		return
	}
	l.batch = l.waiting[0].batch
	l.waiting = slices.Delete(l.waiting, 0, 1)
	l.wait = l.beside.start(l.learn)
}

// learn is the turn's work.
func (l *lessons) learn() {
	l.heads.learn(l.batch, l.next.heads)
	l.next.posterior = l.heads.hash(l.next.posterior)
	l.setVersions(&l.next)
}

// settle waits for the end of the turn that has begun, if one has.
func (l *lessons) settle() {
	if l.wait == nil {
		return
	}
	l.wait()
	l.wait = nil
	l.last, l.next = l.next, l.last
	if l.batch != nil {
		l.spare, l.batch = append(l.spare, l.batch), nil
	}
}

// report writes what came of the last turn to the outcome of a window.
func (l *lessons) report(out *event.Outcome) {
	for h, t := range l.last.heads {
		out.Heads[h].Version, out.Heads[h].Clipped, out.Heads[h].Step = t.Version, t.Clipped, t.Step
	}
	out.Posterior = l.last.posterior
}

// state declares the batches that wait, before the next window, and what is to be reported
// of the last turn. The heads must have been declared before. Without a lag there is
// nothing to declare: no batch waits, and the last turn was reported.
func (l *lessons) state(s *snapshot.Schema, next int64) {
	s.Check(func() error {
		l.setVersions(&l.last)
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
	for _, h := range l.last.heads {
		clipped, step = append(clipped, int64(h.Clipped)), append(step, h.Step)
	}
	snapshot.Slice(s, "learn.clipped", &clipped, len(clipped))
	snapshot.Slice(s, "learn.step", &step, len(step))
	snapshot.Slice(s, "learn.window", &windows, s.Len("learn.window", len(windows), int(l.lag)))
	s.Check(func() error {
		for h := range l.last.heads {
			n, x := clipped[h], step[h]
			if n < 0 || n > math.MaxInt32 || !(x >= 0 && x <= math.MaxFloat64) {
				return snapshot.Damaged("an update clipped %d entries and moved the mean by %v", n, x)
			}
			l.last.heads[h].Clipped, l.last.heads[h].Step = int(n), x
		}
		oldest := next - l.lag
		for _, window := range windows {
			if window < max(oldest, 0) || window >= next {
				return snapshot.Damaged("the labels of window %d wait to be learned, the next is %d and they wait for %d", window, next, l.lag)
			}
			l.waiting = append(l.waiting, lesson{window: window})
			oldest = window + 1
		}
		return nil
	})
	snapshot.Bytes(s, "learn.batches", (*waitingBatches)(l))
}

// waitingBatches is the batches that wait, as bytes.
type waitingBatches lessons

// AppendState implements [snapshot.Stateful].
func (w *waitingBatches) AppendState(b []byte) []byte {
	for _, x := range w.waiting {
		b = w.heads.layout().AppendBatch(b, x.batch)
	}
	return b
}

// SetState implements [snapshot.Stateful]. It reads a batch for each window that waits.
func (w *waitingBatches) SetState(b []byte) error {
	for i := range w.waiting {
		batch, rest, err := w.heads.layout().ReadBatch(b)
		if err != nil {
			return err
		}
		if batch.N == 0 {
			return snapshot.Damaged("window %d waits to be learned and has no labels", w.waiting[i].window)
		}
		w.waiting[i].batch, b = &batch, rest
	}
	if len(b) > 0 {
		return snapshot.Damaged("%d bytes more than the labels that wait to be learned", len(b))
	}
	return nil
}
