package pipeline

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
)

// lessons are what labels taught the online posterior, as far as it is needed to
// take it back when their nodes leave: of so many nodes at most, and beyond that
// of those that taught last.
type lessons struct {
	nodes *queue[int32, lesson]
	bound int
	z     *kernel.Table[float32] // by the queue's slots: d_e a row
	probs *kernel.Table[float64] // the classes

	taken posterior.Lessons // room for what is taken back
}

// lesson is one label.
type lesson struct {
	class  int32
	tau    float64
	update uint64 // the update that learned it, from 1
}

func newLessons(prior *posterior.Gaussian, bound int) *lessons {
	return &lessons{nodes: newQueue[int32, lesson](), bound: bound, z: kernel.NewTable[float32](prior.Dim), probs: kernel.NewTable[float64](prior.Classes)}
}

// remember keeps the batch of labels that is about to be learned.
func (e *Engine) remember() {
	l := e.gone.lessons
	if l == nil || len(e.labels) == 0 {
		return
	}
	d, c := e.model.Prior.Dim, e.model.Prior.Classes
	e.probs = resize(e.probs, len(e.labels)*c)
	e.online.Predict(e.labelled, e.probs)
	for i, v := range e.gone.batch {
		if l.nodes.len() == l.bound {
			l.nodes.oldest()
		}
		l.nodes.put(v, lesson{class: e.labels[i], tau: e.labelled.Tau[i], update: e.online.Version() + 1})
		slot := l.nodes.slot[v]
		if int(slot) == l.z.Len() {
			l.z.Grow(1)
			l.probs.Grow(1)
		}
		copy(l.z.Row(slot), e.labelled.Z[i*d:(i+1)*d])
		copy(l.probs.Row(slot), e.probs[i*c:(i+1)*c])
	}
	e.gone.batch = e.gone.batch[:0]
}

// unlearn takes back what the nodes that leave in this window have taught.
func (e *Engine) unlearn(out *event.Outcome) {
	l := e.gone.lessons
	if l == nil {
		return
	}
	l.taken.Reset()
	for _, v := range e.gone.leaving {
		slot, ok := l.nodes.slot[v]
		if !ok {
			continue
		}
		x, _ := l.nodes.take(v)
		l.taken.Add(l.z.Row(slot), x.tau, x.class, l.probs.Row(slot), e.online.Version()-x.update)
	}
	if n := l.taken.Len(); n > 0 {
		e.online.Remove(&l.taken)
		out.Counts.LabelsRemoved += n
		e.hashPosterior()
	}
}
