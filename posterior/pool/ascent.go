package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// ascent is dual coordinate ascent (Shalev-Shwartz & Zhang 2013), for many columns. Row i has probabilities q_i, and
//
//	W = 1/s Σ_i ω_i φ_i (y_i - q_i)ᵀ
//
// at every moment: it is the optimum where q_i = p_i for all i. A visit moves q_i towards p_i by the step
//
//	t = [KL(q‖p) + |p-q|²] / [|p-q|² (2 + ω|φ|²/s)], at most 1,
//
// which cannot make the dual objective fall, and needs no step size, no matrix and no line search. A row
// that comes, changes or goes is a change of W by its own term, so nothing is ever fitted anew: each label pays
// for a visit of its own row, of those that it replays, and of as many others of a sweep as Work allows.
type ascent struct {
	weights *fittedWeights
	rows    *reservoir

	paid, spent int     // multiply-adds of this batch
	visited     digest  // of what it changed
	moved       float64 // the largest step of a sweep

	at               chances // scratch: p
	log, said, delta []float64
	zeros            []float64 // stride
	unused           []float64 // columns × stride: always 0
}

func newAscent(weights *fittedWeights, rows *reservoir) *ascent {
	a := &ascent{weights: weights, rows: rows}
	for _, x := range []*[]float64{&a.log, &a.said, &a.delta, &a.zeros} {
		*x = make([]float64, weights.stride)
	}
	return a
}

// add visits a row that is new: one that is learned already has the term 0.
func (a *ascent) add(r *kept, class int, logRates []float64) {
	r.said = make([]float64, a.weights.n*a.weights.classes)
	for k := range a.weights.w {
		r.said[k*a.weights.classes+class] = 1
	}
	a.visit(r, class, logRates)
}

func (a *ascent) replace(r *kept, x *phi, class int, logRates []float64) {
	if !r.equals(x) {
		a.change(r, class, -1)
		r.set(x)
		a.change(r, class, 1)
	}
	a.visit(r, class, logRates)
}

func (a *ascent) remove(r *kept, class int) { a.change(r, class, -1) }

// change adds a row's own term to the weights, times by: -1 where it goes.
func (a *ascent) change(r *kept, class int, by float64) {
	w := a.weights
	for k := range w.w {
		inverse := w.inverse(k)
		for c, x := range r.said[k*w.classes : (k+1)*w.classes] {
			y := 0.0
			if c == class {
				y = 1
			}
			a.delta[c] = by * float64(inverse*float64(r.weight*(y-x)))
		}
		a.move(&r.phi, k)
	}
}

// visit moves q of a row, of a class and with the weight that its class has, towards p, for all strengths.
func (a *ascent) visit(r *kept, class int, logRates []float64) {
	weight, w := a.rows.weight(class), a.weights
	for k := range w.w {
		inverse := w.inverse(k)
		q := r.said[k*w.classes : (k+1)*w.classes]
		p := a.at.logits(w, &r.phi, k)
		a.spent += len(r.column) * w.stride
		for c, o := range logRates {
			p[c] += o
		}
		a.at.softmax(w.classes)
		var apart, divergence float64 // |p-q|² and KL(q‖p)
		for c, x := range q {
			a.log[c], a.said[c] = max(p[c], leastChance), max(x, leastChance)
		}
		double.Logarithms(a.log[:w.classes])
		double.Logarithms(a.said[:w.classes])
		for c, x := range q {
			d := p[c] - x
			apart += float64(d * d)
			divergence += float64(x * (a.said[c] - a.log[c]))
		}
		t := 0.0
		if apart > 0 {
			t = min(1, (divergence+apart)/float64(apart*(2+float64(weight*float64(r.square*inverse)))))
		}
		t = max(t, 0)
		a.moved = max(a.moved, float64(t*t)*apart)
		for c, x := range q {
			next := x + float64(t*(p[c]-x))
			y := 0.0
			if c == class {
				y = 1
			}
			a.delta[c] = inverse * (float64(weight*(y-next)) - float64(r.weight*(y-x)))
			q[c] = next
		}
		a.move(&r.phi, k)
		a.visited.floats(q)
	}
	r.weight = weight
}

// leastChance bounds probabilities in logarithms.
const leastChance = 1e-300

// move adds φ δᵀ to the weights of a strength. The kernel would add |φ| times something to unused, too.
func (a *ascent) move(x *phi, k int) {
	if a.unused == nil {
		a.unused = make([]float64, a.weights.columns*a.weights.stride)
	}
	m := x.matrix()
	m.AddTransposed(a.weights.w[k], a.unused, a.delta, a.zeros, a.weights.stride)
	a.spent += 2 * len(x.column) * a.weights.stride
}

// train sweeps over the rows until q hardly moves.
func (a *ascent) train(passes int) {
	for range passes {
		a.moved, a.spent = 0, 0
		if a.sweep(a.rows.count(), math.MaxInt, nil); a.moved < settled {
			break
		}
	}
}

// settled is |q - q'|² of a sweep at which it is at its optimum.
const settled = 1e-10

func (a *ascent) begin(paid int) { a.paid, a.spent, a.visited = paid, 0, 0 }

func (a *ascent) isPaid() bool { return a.spent < a.paid }

// mostSweeps bounds the sweeps of a batch, where rows are few.
const mostSweeps = 32

func (a *ascent) work(logRates []float64) digest {
	a.sweep(mostSweeps*a.rows.count(), a.paid, logRates)
	return a.visited
}

// sweep visits the next rows, at most so many, until so many multiply-adds are spent.
func (a *ascent) sweep(rows, work int, logRates []float64) {
	for ; rows > 0 && a.spent < work; rows-- {
		if class, i := a.rows.next(); class >= 0 {
			a.visit(&a.rows.rows[class][i], class, logRates)
		}
	}
}

func (a *ascent) state(s *words.Stream) {
	a.rows.state(s, a.weights.columns, a.weights.n*a.weights.classes)
}
