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

	at         chances   // scratch: p
	log, delta []float64 // 2 × strengths × stride: log p, log q; and strengths × stride
}

func newAscent(weights *fittedWeights, rows *reservoir) *ascent {
	lanes := weights.n * weights.stride
	return &ascent{weights: weights, rows: rows, log: make([]float64, 2*lanes), delta: make([]float64, lanes)}
}

// add visits a row that is new: one that is learned already has the term 0.
func (a *ascent) add(r *kept, class int, logRates []float64) {
	r.said = make([]float64, a.weights.n*a.weights.classes)
	for k := range a.weights.n {
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
	for k := range w.n {
		inverse := w.inverse(k)
		for c, x := range r.said[k*w.classes : (k+1)*w.classes] {
			y := 0.0
			if c == class {
				y = 1
			}
			a.delta[k*w.stride+c] = by * float64(inverse*float64(r.weight*(y-x)))
		}
	}
	a.move(&r.phi)
}

// visit moves q of a row, of a class and with the weight that its class has, towards p, for all strengths.
func (a *ascent) visit(r *kept, class int, logRates []float64) {
	weight, w := a.rows.weight(class), a.weights
	all := a.at.logits(w, &r.phi, 0, w.n, logRates)
	a.at.softmax(w.classes, w.n)
	for k := range w.n {
		for c, x := range r.said[k*w.classes : (k+1)*w.classes] {
			at := k*w.stride + c
			a.log[at], a.log[len(all)+at] = max(all[at], leastChance), max(x, leastChance)
		}
	}
	double.Logarithms(a.log)
	for k := range w.n {
		inverse := w.inverse(k)
		q, at := r.said[k*w.classes:(k+1)*w.classes], k*w.stride
		p, logP, logQ, delta := all[at:at+len(q)], a.log[at:at+len(q)], a.log[len(all)+at:][:len(q)], a.delta[at:at+len(q)]
		var apart, divergence float64 // |p-q|² and KL(q‖p)
		for c, x := range q {
			d := p[c] - x
			apart += float64(d * d)
			divergence += float64(x * (logQ[c] - logP[c]))
		}
		t := 0.0
		if apart > 0 {
			t = min(1, (divergence+apart)/float64(apart*(2+float64(weight*float64(r.square*inverse)))))
		}
		t = max(t, 0)
		a.moved = max(a.moved, float64(t*t)*apart)
		own := q[class]
		for c, x := range q {
			q[c] = x + float64(t*(p[c]-x))
			delta[c] = inverse * (float64(weight*-q[c]) - float64(r.weight*-x))
		}
		delta[class] = inverse * (float64(weight*(1-q[class])) - float64(r.weight*(1-own)))
		a.visited.floats(q)
	}
	a.spent += a.cost(&r.phi) / 2
	a.move(&r.phi)
	r.weight = weight
}

// leastChance bounds probabilities in logarithms.
const leastChance = 1e-300

// move adds φ δᵀ to the weights.
func (a *ascent) move(x *phi) {
	x.AddTo(a.weights.w, a.delta, len(a.delta))
	a.spent += a.cost(x)
}

// cost returns what labels pay for a move: twice the multiply-adds of a product.
func (a *ascent) cost(x *phi) int {
	column, _ := x.Entries()
	return 2 * len(column) * len(a.delta)
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
