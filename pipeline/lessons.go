package pipeline

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// lessons are what labels taught, as far as it is needed to take it back when
// their nodes leave: of so many nodes at most, and beyond that of those that
// taught last.
type lessons struct {
	nodes *queue[int32, lesson]
	bound int
	z     *kernel.Table[float32] // by the queue's slots: d_e a row
	// notes are the probabilities just before, or what the pool notes.
	notes *kernel.Table[float64]
	taken posterior.Lessons // room for what is taken back

	// Of a pool: what was known of the labels around, n_v and q_v, as served; and
	// the batches learned, as parts of full ones.
	around  *kernel.Table[float32]
	elapsed float64
	pooled  pool.Lessons
}

// lesson is one label.
type lesson struct {
	class  int32
	tau    float64
	update uint64 // the update that learned it, from 1
	// Of a pool: what had elapsed when it was learned, and the neighbours whose
	// labels were in its batch, until these leave.
	elapsed float64
	met     []neighbour
}

// neighbour is a node that had this class.
type neighbour struct{ number, class int32 }

func newLessons(prior *posterior.Gaussian, p *pooled, bound int) *lessons {
	l := &lessons{nodes: newNodeQueue[lesson](), bound: bound, z: kernel.NewTable[float32](prior.Dim)}
	width := prior.Classes
	if p != nil {
		p.noting = true
		width = max(p.pool.NotesPerRow(), 1)
		l.around = kernel.NewTable[float32](2 * prior.Classes)
	}
	l.notes = kernel.NewTable[float64](width)
	return l
}

// remember keeps the batch of labels that the paper's head is about to learn.
func (e *Engine) remember() {
	if e.gone.lessons == nil || len(e.labels) == 0 || e.pooled != nil {
		return
	}
	c := e.model.Prior.Classes
	e.probs = resize(e.probs, len(e.labels)*c)
	e.online.Predict(e.labelled, e.probs)
	for i := range e.labels {
		e.note(i, e.online.Version()+1, e.probs[i*c:(i+1)*c])
	}
	e.gone.batch = e.gone.batch[:0]
}

// rememberPooled keeps the batch of labels that the pool has learned.
func (e *Engine) rememberPooled() {
	l, p, c := e.gone.lessons, e.pooled, e.model.Prior.Classes
	if l == nil {
		return
	}
	l.elapsed += p.spec.Share(len(e.labels))
	width := p.pool.NotesPerRow()
	for i, v := range e.gone.batch {
		e.note(i, p.pool.Version(), p.notes[i*width:(i+1)*width])
		slot, _ := l.nodes.place(v)
		copy(l.around.Row(slot), e.said[(i+1)*e.width-2*c:(i+1)*e.width])
	}
	for _, pair := range p.met {
		for _, side := range [][2]int32{pair, {pair[1], pair[0]}} {
			if x := l.nodes.get(e.gone.batch[side[0]]); x != nil && x.update == p.pool.Version() {
				x.met = append(x.met, neighbour{e.gone.batch[side[1]], e.labels[side[1]]})
			}
		}
	}
	e.gone.batch = e.gone.batch[:0]
}

// note keeps label i of the batch.
func (e *Engine) note(i int, update uint64, notes []float64) {
	l, v, d := e.gone.lessons, e.gone.batch[i], e.model.Prior.Dim
	if l.nodes.len() == l.bound {
		l.nodes.oldest()
	}
	slot := l.nodes.put(v, lesson{class: e.labels[i], tau: e.labelled.Tau[i], update: update, elapsed: l.elapsed})
	if int(slot) == l.z.Len() {
		l.z.Grow(1)
		l.notes.Grow(1)
		if l.around != nil {
			l.around.Grow(1)
		}
	}
	copy(l.z.Row(slot), e.labelled.Z[i*d:(i+1)*d])
	copy(l.notes.Row(slot), notes)
}

// unlearn takes back what the nodes that leave in this window have taught.
func (e *Engine) unlearn(out *event.Outcome) {
	if n := e.takeBack(e.gone.leaving); n > 0 {
		out.Counts.LabelsRemoved += n
		e.hashPosterior()
	}
}

// takeBack takes back what nodes have taught, and returns of how many something
// is kept. They are in the graph still.
func (e *Engine) takeBack(nodes []int32) (n int) {
	l := e.gone.lessons
	if l == nil {
		return 0
	}
	l.taken.Reset()
	t := &l.pooled
	t.Embedded.Z, t.Embedded.Tau = t.Embedded.Z[:0], t.Embedded.Tau[:0]
	t.Labels, t.Notes, t.Batches, t.Elapsed, t.Met = t.Labels[:0], t.Notes[:0], t.Batches[:0], t.Elapsed[:0], t.Met[:0]
	if e.pooled != nil {
		e.pooled.around.Reset(&t.Rows)
	}
	for _, v := range nodes {
		slot, ok := l.nodes.place(v)
		if !ok {
			continue
		}
		n++
		x, _ := l.nodes.take(v)
		batches := e.heads[0].Version() - x.update
		if e.pooled == nil {
			l.taken.Add(l.z.Row(slot), x.tau, x.class, l.notes.Row(slot), batches)
			continue
		}
		c := e.model.Prior.Classes
		e.pooled.around.AppendFeatures(&t.Rows, v)
		t.Embedded.Z, t.Embedded.Tau = append(t.Embedded.Z, l.z.Row(slot)...), append(t.Embedded.Tau, x.tau)
		t.Labelled = append(t.Labelled, l.around.Row(slot)[:c]...)
		t.Second = append(t.Second, l.around.Row(slot)[c:]...)
		t.Labels = append(t.Labels, x.class)
		t.Notes = append(t.Notes, l.notes.Row(slot)[:e.pooled.pool.NotesPerRow()]...)
		t.Batches, t.Elapsed = append(t.Batches, batches), append(t.Elapsed, l.elapsed-x.elapsed)
		t.Met = append(t.Met, make([]float32, c)...)
		for _, u := range x.met {
			t.Met[len(t.Met)-c+int(u.class)]++
			if y := l.nodes.get(u.number); y != nil && y.update == x.update { // it has been counted
				y.met = slices.DeleteFunc(y.met, func(w neighbour) bool { return w.number == v })
			}
		}
	}
	switch {
	case n == 0:
	case e.pooled == nil:
		e.online.Remove(&l.taken)
	default:
		e.pooled.pool.Remove(*t)
	}
	return n
}
