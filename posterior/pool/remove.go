package pool

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// Lessons are labelled rows that a pool has learned, to be taken back.
type Lessons struct {
	// Rows are the rows as they were learned: Embedded, Labelled and Second as they
	// were in their batch. X, S and Degree may be as they are now, at the price that
	// a head that counts features takes back what they are now.
	Rows
	Labels []int32
	// Notes are what Learn wrote to Batch.Notes.
	Notes []float64
	// Batches is how many batches were learned since the row's own, and Elapsed how
	// many full ones they were, Σ Spec.Share.
	Batches []uint64
	Elapsed []float64
	// Met counts by class with how many rows of its batch the row was in
	// Batch.Pairs, n × C. A pair is to be counted for one of its rows.
	Met []float32
}

// Remove takes what rows have taught out of the heads, approximately but for
// counts, and without the batches that they came in.
//
// Naive Bayes, votes and label channels are sums: a row's counts are subtracted,
// to what they were up to the rounding of features and scaled evidence, and never
// below what they were before any row came. The paper's heads are
// [posterior.Online.Remove]'s. The others are last layers whose batch leaves
//
//	T = T0 + D,  T0 (M - M0) = G
//
// where D and G are the curvature and the gradient of the batch's rows at M
// itself, as far as the passes or steps over it got there. Let h = TM; then T and
// h are sums over all batches of D and of G + DM, each discounted by λᵏ, k full
// batches later. So rows are taken back as if they had been the last to be learned,
// with the weight λᵏ:
//
//	T' = T - λᵏ d,  T' (M - M') = λᵏ g
//
// Of a full head d and g are those of M as it is now; of a wide or a joint one those
// of the probabilities that the rows had when they were learned, which are noted.
// Passes and steps may end well before they have got to the minimum, so that M' is
// not solved for: it is where the same passes over the rows would come from, see
// seek and undo.
//
// For a batch that was learned last, and is taken back whole, T' is T0 to
// rounding, and M' is M0 up to where seek ends. What is approximate besides:
//   - batches learned since, and the rows that stay of the row's own, saw
//     probabilities that the row had moved;
//   - of a full head, d and g are off by how far M has moved since;
//   - of a wide or a joint head, T is diagonal while rows share columns, so that
//     what a row did to M fades faster than T tells, as other batches move it. No
//     more is taken back than the part that is there at the row's logits. Some
//     batches later what has faded and what is taken back are about as large as
//     what remains, and the mean is hardly nearer than before; the precision is;
//   - in the bound of the curvature by which these heads step, the rows of a batch
//     slow each other down: by how much is noted as one number a row, its mean
//     share of the bounds of its columns;
//   - what a head learned of a row again, in Batch.Refresh, stays.
//
// No precision falls below what it was at the start, where it had not: of full
// heads below half of it.
//
// The weights of the heads stay, which are few and owe little to any row, and so
// do the scores. It is no batch: [Pool.Version] stays, and nothing is forgotten.
// Without rows nothing changes. Rows of another shape panic.
func (p *Pool) Remove(l Lessons) {
	p.checkLessons(&l)
	if l.N == 0 {
		return
	}
	at, width := 0, p.NotesPerRow()
	for _, h := range p.heads {
		m := h.notes()
		own := make([]float64, 0, l.N*m)
		for i := range l.N {
			own = append(own, l.Notes[i*width+at:][:m]...)
		}
		h.remove(&l, own)
		at += m
	}
}

// NotesPerRow returns how many numbers are kept of a row for Remove.
func (p *Pool) NotesPerRow() (n int) {
	for _, h := range p.heads {
		n += h.notes()
	}
	return n
}

// note writes the batch's notes, as far as they are of before or after it is
// learned.
func (p *Pool) note(b *Batch, learned bool) {
	if b.Notes == nil {
		return
	}
	at, width := 0, p.NotesPerRow()
	for _, h := range p.heads {
		m := h.notes()
		own := make([]float64, b.N*m)
		for i := range b.N {
			copy(own[i*m:(i+1)*m], b.Notes[i*width+at:])
		}
		h.note(b, learned, own)
		for i := range b.N {
			copy(b.Notes[i*width+at:][:m], own[i*m:])
		}
		at += m
	}
}

func (p *Pool) checkLessons(l *Lessons) {
	l.Rows.check(p.shape, p.needs)
	checkLength("labels", len(l.Labels), l.N)
	p.checkLabels(l.Labels)
	checkLength("notes", len(l.Notes), l.N*p.NotesPerRow())
	checkLength("numbers of batches", len(l.Batches), l.N)
	checkLength("times since", len(l.Elapsed), l.N)
	if p.needs&NeedLabelled != 0 {
		checkLength("counts of rows that it met", len(l.Met), l.N*p.shape.Classes)
	}
	for _, elapsed := range l.Elapsed {
		if !(elapsed >= 0) {
			panic(fmt.Sprintf("pool: a row that was learned %v batches ago", elapsed))
		}
	}
}

// discount is λᵏ of row i.
func (l *Lessons) discount(lambda float64, i int) float64 {
	if lambda == 1 {
		return 1
	}
	return posterior.Exp(float64(posterior.Log(lambda) * l.Elapsed[i]))
}

// online returns the paper's head, nil where it is the one that never learns.
func (e *embedded) online() *posterior.Online {
	o, _ := e.layer.(*posterior.Online)
	return o
}

// notes is the number of probabilities of the paper's head.
func (e *embedded) notes() int {
	if o := e.online(); o != nil {
		return o.Posterior().Classes
	}
	return 0
}

// note has those of before.
func (e *embedded) note(b *Batch, learned bool, probs []float64) {
	if o := e.online(); o != nil && !learned {
		o.Predict(b.Embedded, probs)
	}
}

func (e *embedded) remove(l *Lessons, probs []float64) {
	o := e.online()
	if o == nil {
		return
	}
	var rows posterior.Lessons
	d, classes := len(l.Embedded.Z)/l.N, e.notes()
	for i, y := range l.Labels {
		rows.Add(l.Embedded.Z[i*d:(i+1)*d], l.Embedded.Tau[i], y, probs[i*classes:(i+1)*classes], l.Batches[i])
	}
	o.Remove(&rows)
}

// noteless is of heads that need no notes.
type noteless struct{}

func (noteless) notes() int                   { return 0 }
func (noteless) note(*Batch, bool, []float64) {}

func (b *bayes) remove(l *Lessons, _ []float64) { b.count(&l.Rows, l.Labels, -1) }

func (v *vote) remove(l *Lessons, _ []float64) {
	for _, y := range l.Labels {
		v.counts[y] = max(v.counts[y]-1, 1)
	}
}

func (l *label) remove(taken *Lessons, _ []float64) {
	l.count(&taken.Rows, taken.Labels, -1)
	if l.Evidence == Second {
		return
	}
	for i, y := range taken.Labels {
		for k, n := range taken.Met[i*l.classes : (i+1)*l.classes] {
			l.meet(int(y), k, -float64(n))
		}
	}
}

func (w *wide) notes() int { return w.fit.notes() }

func (w *wide) note(b *Batch, learned bool, notes []float64) {
	phi := w.design(&b.Rows, true)
	w.take(phi)
	w.fit.note(phi, learned, notes)
}

func (w *wide) remove(l *Lessons, notes []float64) {
	weight := make([]float64, l.N)
	for i := range weight {
		weight[i] = l.discount(w.Lambda, i)
	}
	phi := w.design(&l.Rows, true)
	w.take(phi)
	w.fit.undo(phi, l.Labels, weight, notes, w.Passes, func(int) float64 { return 1 / w.Variance })
	w.give(phi)
	w.changed = append(w.changed[:0], phi.names()...)
}

func (j *joint) notes() int { return j.fit.notes() }

func (j *joint) note(b *Batch, learned bool, notes []float64) {
	j.fit.note(j.take(&b.Rows), learned, notes)
}

func (j *joint) remove(l *Lessons, notes []float64) {
	weight := make([]float64, l.N)
	for i := range weight {
		weight[i] = l.discount(j.Lambda, i)
	}
	j.fit.undo(j.take(&l.Rows), l.Labels, weight, notes, j.Passes, func(i int) float64 { return j.least[i] })
	copy(j.mean, j.fit.m)
	copy(j.precision, j.fit.t)
}

// take makes Φ of rows and copies the moments to the fit.
func (j *joint) take(rows *Rows) design {
	phi := j.design(rows)
	phi.measure()
	j.fit.resize(rows.N, len(phi.name))
	copy(j.fit.m, j.mean)
	copy(j.fit.t, j.precision)
	return phi
}

// remove does nothing where the curvature to be taken is more than what there is:
// the rows have moved so far since that it is not theirs.
func (f *full) remove(l *Lessons, _ []float64) {
	f.load(l.Embedded)
	f.weight = make([]float64, l.N)
	defer func() { f.weight = nil }()
	for i := range f.weight {
		f.weight[i] = -l.discount(f.Lambda, i)
	}
	copy(f.start, f.mean)
	f.objective(f.mean, l.Labels)
	f.curvature(l.N)
	for c, less := range f.blocks {
		if !f.above(less, c) {
			return
		}
	}
	f.precision, f.blocks = f.blocks, f.precision
	for i, x := range f.weight {
		f.weight[i] = -x
	}
	seek(&f.mean, f.start, func() { f.fit(l.Labels) })
}

// above reports whether t is at least half of what class c's precision was at
// the start.
func (f *full) above(t []float64, c int) bool {
	for j := range f.dim {
		f.column[j] = t[j*f.dim+j]
		t[j*f.dim+j] -= float64(0.5 * f.anchor[j*f.classes+c])
	}
	ok := f.cholesky.factorize(t, f.dim)
	for j, x := range f.column {
		t[j*f.dim+j] = x
	}
	return ok
}

// The search of seek ends after so many rounds, or when what is left is this part
// of the first step, both as Euclidean norms.
const (
	seekRounds = 12
	seekWithin = 1e-3
)

// seek sets m to a point from which fit, which goes from m and leaves in start
// where that was, comes to m as it is. With L the map from M0 to where it ends, it
// repeats M0 += M - L(M0) from M0 = M on. L draws points together, so that this
// comes nearer each time, from M's side: what is left after n rounds is the part
// (1-ℓ)ⁿ of the way, ℓ the part of a difference that L leaves. Where it comes
// nearer no more, for fit may halve its steps, it ends. Fit may put m elsewhere.
func seek(at *[]float64, start []float64, fit func()) {
	want, best := append([]float64(nil), *at...), append([]float64(nil), *at...)
	least, first := math.Inf(1), 0.0
	for round := range seekRounds {
		fit()
		m := *at
		var off float64
		for i, x := range want {
			d := x - m[i]
			off += float64(d * d)
			m[i] = start[i] + d
		}
		if !(off < least) {
			break
		}
		least = off
		copy(best, start)
		if round == 0 {
			first = off
		}
		if off <= first*seekWithin*seekWithin {
			break
		}
	}
	copy(*at, best)
}

// undoing is what undo fits with.
type undoing struct {
	weight []float64 // of each row's likelihood
	bound  []float64 // and of its bound of the curvature
	offset []float64 // rows × stride, added to the logits
}

// notes are P before and after, and two numbers more.
func (s *surrogate) notes() int { return 2*s.classes + 2 }

// note writes of each row what undo is to know: P before it is learned and, when it
// was, P, its share of the bounds (design.shares), and the mean t of T as t/(1+t).
func (s *surrogate) note(phi design, learned bool, notes []float64) {
	n, width := len(phi.lengths()), s.notes()
	phi.logits(s.probs, s.m, s.stride)
	s.norm.probabilities(s.probs, n, s.classes, s.stride)
	shares, t := make([]float64, n), s.known(phi)
	phi.shares(shares)
	for i := range n {
		row := notes[i*width : (i+1)*width]
		to := row[:s.classes]
		if learned {
			to = row[s.classes : 2*s.classes]
			row[2*s.classes], row[2*s.classes+1] = shares[i], t[i]/(1+t[i])
		}
		copy(to, s.probs[i*s.stride:])
	}
}

// kept is how much is there at the logits now of what a row did when it moved
// probabilities from before to after: from 0 to 1, 1 where it did nothing.
func kept(now, before, after []float64) float64 {
	n := float64(len(now))
	var a, b float64 // means
	for c, x := range now {
		from := posterior.Log(before[c])
		a += (x - from) / n
		b += (posterior.Log(after[c]) - from) / n
	}
	var did, does float64
	for c, x := range now {
		from := posterior.Log(before[c])
		step := posterior.Log(after[c]) - from - b
		did += float64(step * step)
		does += float64(step * (x - from - a))
	}
	if did == 0 {
		return 1
	}
	return min(max(does/did, 0), 1)
}

// known returns the mean of T over the columns of each row and all classes.
func (s *surrogate) known(phi design) []float64 {
	rows, columns := phi.size()
	t, mean := make([]float64, rows), make([]float64, columns)
	for j := range mean {
		for _, x := range s.t[j*s.stride:][:s.classes] {
			mean[j] += x
		}
		mean[j] /= float64(s.classes)
	}
	phi.means(t, mean)
	return t
}

// leastShare bounds what a share does.
const leastShare = 1e-6

// undo takes rows of these weights, of which notes are kept, out of m and t. With P
// as noted it subtracts their curvature, to no less than least says of an entry,
// and then seeks where the passes over them would come from to m, if each row's
// logits had kept at m what they differ from those of P: for what has been learned
// since may have said otherwise, and what a row did is to be undone, and not what
// it would do.
//
// A row that has a larger share of the bounds here than it had in its batch steps
// as far as it did there. What the row did has become less by what has come since:
// its likelihood is weighted with what T was over what it is, where that is
// larger, and with how much of what the row did is there (kept).
func (s *surrogate) undo(phi design, labels []int32, weight, notes []float64, passes int, least func(i int) float64) {
	n, width := len(labels), s.notes()
	u := &undoing{weight: make([]float64, n), bound: make([]float64, n), offset: make([]float64, n*s.stride)}
	phi.logits(s.probs, s.m, s.stride)
	clear(s.w)
	now := s.known(phi)
	phi.shares(u.bound)
	for i, by := range weight {
		note := notes[i*width : (i+1)*width]
		before, after, share, t := note[:s.classes], note[s.classes:2*s.classes], note[2*s.classes], note[2*s.classes+1]
		for c, p := range after {
			u.offset[i*s.stride+c] = posterior.Log(p) - s.probs[i*s.stride+c]
			s.w[i*s.stride+c] = float64(by * p * (1 - p))
		}
		u.bound[i] = by * max(u.bound[i]/max(share, leastShare), 1)
		u.weight[i] = by * kept(s.probs[i*s.stride:][:s.classes], before, after)
		if was := t / (1 - t); was < now[i] {
			u.weight[i] *= was / now[i]
		}
	}
	clear(s.g)
	phi.squares(s.g, s.w, s.stride)
	for i, d := range s.g {
		s.t[i] = max(s.t[i]-d, min(s.t[i], least(i)))
	}
	s.undoing = u
	seek(&s.m, s.start, func() { s.descend(phi, labels, passes) })
	s.undoing = nil
}
