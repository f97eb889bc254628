package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// newton keeps softmax regression at its optimum where columns are few. It minimises
//
//	F(W) = Σ_i ω_i ℓ_i(W) + ½ s ‖W‖²
//
// over the rows of a reservoir, for several strengths s at once, by Newton's method with a block of
// curvature for each class:
//
//	H_c = Σ_i 2 ω_i p_ic (1 - p_ic) φ_i φ_iᵀ + s I,   Δ_c = H_c⁻¹ [Σ_i ω_i φ_i (y_ic - p_ic) - s W_c].
//
// The blocks bound the curvature of all classes together, diag(p) - ppᵀ ≤ 2 diag(p(1-p)), and with two
// classes they are Newton's own: their weights are each other's negative.
//
// A pass over the rows sums F at W and at W + Δ, and there also the gradient and the curvature. At its end W
// becomes W + Δ and the next Δ follows; or, where F would rise by more than a 64th, Δ becomes a quarter. A smaller
// rise is of rows that came meanwhile. W serves until a pass has shown better weights. A pass is cut into slices, and
// each label pays for a part of one: no window waits. The curvature of the strength that serves is that of all, and is
// summed when the passes since have cost as much as its factors.
type newton struct {
	weights *fittedWeights
	rows    *reservoir

	columns, classes, lanes int // lanes: strengths × classes, and what the kernels want besides
	blocks                  int // of curvature: one where there are two classes, else one for each

	w, step   []float64    // columns × lanes: W and Δ
	gradient  []float64    // columns × lanes, at W + Δ
	loss      [2][]float64 // by strength, at W and at W + Δ
	summed    []float64    // blocks × columns × columns: curvature of this pass
	curvature []float64    // of the last pass that summed it
	left      int          // rows of this pass that are to come, 0 between passes
	curving   bool         // whether this pass sums curvature
	passes    uint64       // that ended
	since     uint64       // of them since the last that summed curvature
	paid      int          // multiply-adds of this batch
	credit    int          // those that labels have paid for and that are left
	factor    [][]cholesky // of H, by strength and block; nil until it is needed
	scratch   struct {
		x, by          []float64 // slice × columns: φ, and φ times its part of the curvature
		logits, steps  []float64 // slice × lanes: Wᵀφ and Δᵀφ
		tried          []float64 // 2 × slice × lanes: exponentials
		sums, most, at []float64 // 2 × slice × strengths
		residual       []float64 // slice × lanes
		solved         []float64 // columns
	}
}

const (
	sliceRows   = 32
	curved      = 4   // passes for each that sums the curvature, at least
	firstCurved = 12  // passes of training, all of which do
	mostPasses  = 4   // of a batch
	slower      = 5   // by how much a multiply-add of a factor is
	laneCost    = 600 // multiply-adds that take as long as a lane's two exponentials and what is around them
	denseSpeed  = 5   // by how much faster than one row's a multiply-add of a slice is
)

// isNewton reports whether the optimum is found by Newton's method: dense columns are so few that a factor is
// found within a window.
func (f *Fitted) isNewton(shape Shape) bool {
	columns := f.columns(shape)
	return f.Scale == Standard && columns <= 200 &&
		float64(curvatureBlocks(float64(shape.Classes))*columns)*columns <= 1<<16
}

// curvatureBlocks returns the number of blocks of curvature: with two classes both have the same.
func curvatureBlocks[T int | float64](classes T) T {
	if classes == 2 {
		return 1
	}
	return classes
}

func newNewton(weights *fittedWeights, rows *reservoir) *newton {
	columns, classes, strengths := weights.columns, weights.classes, weights.n
	n := &newton{
		weights: weights, rows: rows, columns: columns, classes: classes,
		lanes: strideOf(strengths * classes), blocks: curvatureBlocks(classes),
	}
	n.w, n.step, n.gradient = make([]float64, columns*n.lanes), make([]float64, columns*n.lanes), make([]float64, columns*n.lanes)
	n.summed, n.curvature = make([]float64, n.blocks*columns*columns), make([]float64, n.blocks*columns*columns)
	for t := range n.loss {
		n.loss[t] = make([]float64, strengths)
	}
	return n
}

// rowCost returns the multiply-adds of a row in this pass.
func (n *newton) rowCost() int {
	cost := (3*n.columns + laneCost) * n.lanes
	if n.curving {
		cost += n.blocks * n.columns * n.columns
	}
	return cost
}

// factorCost returns those of all factors.
func (n *newton) factorCost() int { return len(n.loss[0]) * len(n.curvature) * n.columns / 6 * slower }

// beginPass begins a pass.
func (n *newton) beginPass(rows int) {
	n.left, n.curving = rows, false
	n.curving = n.passes < firstCurved || n.since >= max(curved, uint64(n.factorCost()/(rows*n.rowCost()+1)))
	clear(n.gradient)
	clear(n.summed)
	for t := range n.loss {
		clear(n.loss[t])
	}
}

// A row that comes, changes or goes is in the sums of the next pass.

func (n *newton) add(*kept, int, []float64) {}

func (n *newton) replace(r *kept, x *phi, _ int, _ []float64) { r.set(x) }

func (n *newton) remove(*kept, int) {}

func (n *newton) begin(paid int) { n.paid = paid }

func (n *newton) isPaid() bool { return n.paid > 0 }

// work does as many slices as are paid for.
func (n *newton) work(logRates []float64) (changed digest) {
	rows := n.rows.count()
	n.credit = min(n.credit+n.paid*denseSpeed, mostPasses*rows*n.rowCost())
	for passes := 0; rows > 0 && passes < mostPasses; {
		cost := min(sliceRows, rows) * n.rowCost()
		if n.credit < cost {
			break
		}
		n.credit -= cost
		if n.slice(logRates) {
			passes++
		}
	}
	changed.floats(n.gradient)
	return changed
}

// train does passes until steps hardly move. No label owes what they cost.
func (n *newton) train(passes int) {
	for ; passes > 0 && n.rows.count() > 0; passes-- {
		for !n.slice(nil) {
		}
		if n.passes > 1 && n.largestStep() < settledStep {
			break
		}
	}
	n.credit = 0
}

// settledStep is the largest entry of Δ at an optimum: columns are standardised.
const settledStep = 1e-4

func (n *newton) largestStep() (most float64) {
	for _, x := range n.step {
		most = max(most, math.Abs(x))
	}
	return most
}

// slice adds the next rows to the pass's sums, and ends the pass after the last. It reports whether it did.
func (n *newton) slice(logRates []float64) (ended bool) {
	if n.left == 0 {
		n.beginPass(n.rows.count())
	}
	n.left = min(n.left, n.rows.count()) // labels may have been withdrawn
	s, d := &n.scratch, n.columns
	s.x = kernel.Resize(s.x, sliceRows*d)
	var of [sliceRows]int32
	var weight [sliceRows]float64
	rows := 0
	for rows < sliceRows && n.left > 0 {
		class, i := n.rows.next()
		if class < 0 {
			continue
		}
		n.left--
		x := s.x[rows*d : (rows+1)*d]
		clear(x)
		r := &n.rows.rows[class][i]
		column, value := r.Entries()
		for e, j := range column {
			x[j] = value[e]
		}
		of[rows], weight[rows] = int32(class), n.rows.weight(class)
		rows++
	}
	n.probabilities(rows, of[:rows], weight[:rows], logRates)
	double.AddTransposed(n.gradient, s.x[:rows*d], s.residual, d, rows, n.lanes)
	if n.curving {
		n.addCurvature(rows, n.weights.serving()*n.classes, weight[:rows])
	}
	if n.left > 0 {
		return false
	}
	n.finish()
	return true
}

// probabilities adds the losses of rows at both points, leaves p at W + Δ in tried and ω (y - p) in residual.
func (n *newton) probabilities(rows int, of []int32, weight []float64, logRates []float64) {
	s, lanes, strengths := &n.scratch, n.lanes, len(n.loss[0])
	s.logits, s.steps, s.residual = kernel.Resize(s.logits, rows*lanes), kernel.Resize(s.steps, rows*lanes),
		kernel.Resize(s.residual, rows*lanes)
	s.tried = kernel.Resize(s.tried, 2*rows*lanes)
	s.sums, s.at, s.most = kernel.Resize(s.sums, 2*rows*strengths), kernel.Resize(s.at, 2*rows*strengths),
		kernel.Resize(s.most, 2*rows*strengths)
	clear(s.logits)
	clear(s.steps)
	clear(s.residual)
	double.AddProduct(s.logits, s.x[:rows*n.columns], n.w, rows, n.columns, lanes)
	double.AddProduct(s.steps, s.x[:rows*n.columns], n.step, rows, n.columns, lanes)
	for t := range n.loss {
		for i := range rows {
			for k := range strengths {
				e := (t*rows+i)*strengths + k
				a, step := s.logits[i*lanes+k*n.classes:][:n.classes], s.steps[i*lanes+k*n.classes:][:n.classes]
				to := s.tried[(t*rows+i)*lanes+k*n.classes:][:n.classes]
				most := math.Inf(-1)
				for c := range to {
					to[c] = a[c] + n.weights.offset[c] + float64(float64(t)*step[c])
					if logRates != nil {
						to[c] += logRates[c]
					}
					most = max(most, to[c])
				}
				s.at[e], s.most[e] = to[of[i]]-most, most
				for c := range to {
					to[c] -= most
				}
			}
			clear(s.tried[(t*rows+i)*lanes+strengths*n.classes : (t*rows+i+1)*lanes])
		}
	}
	double.Exponentials(s.tried)
	for e := range s.sums {
		at := e/strengths*lanes + e%strengths*n.classes
		s.sums[e] = 0
		for _, x := range s.tried[at : at+n.classes] {
			s.sums[e] += x
		}
	}
	copy(s.most, s.sums)
	double.Logarithms(s.most)
	for t := range n.loss {
		for i := range rows {
			for k := range strengths {
				e := (t*rows+i)*strengths + k
				n.loss[t][k] += float64(weight[i] * (s.most[e] - s.at[e]))
			}
		}
	}
	for i := range rows {
		for k := range strengths {
			by := 1 / s.sums[(rows+i)*strengths+k]
			p, to := s.tried[(rows+i)*lanes+k*n.classes:][:n.classes], s.residual[i*lanes+k*n.classes:][:n.classes]
			for c := range p {
				p[c] *= by
				to[c] = -float64(weight[i] * p[c])
			}
			to[of[i]] += weight[i]
		}
	}
}

// addCurvature adds 2 ω p (1-p) φφᵀ, for the classes in the lanes from one on.
func (n *newton) addCurvature(rows, lane int, weight []float64) {
	s, d := &n.scratch, n.columns
	s.by = kernel.Resize(s.by, sliceRows*d)
	for b := range n.blocks {
		for i := range rows {
			p := s.tried[(rows+i)*n.lanes+lane+b]
			by := 2 * weight[i] * float64(p*(1-p))
			x, to := s.x[i*d:(i+1)*d], s.by[i*d:(i+1)*d]
			for j := range to {
				to[j] = by * x[j]
			}
		}
		double.AddTransposed(n.summed[b*d*d:(b+1)*d*d], s.by[:rows*d], s.x[:rows*d], d, rows, d)
	}
}

// finish ends a pass: W moves, and the next Δ follows.
func (n *newton) finish() {
	n.since++
	if n.curving {
		n.curvature, n.summed = n.summed, n.curvature
		n.factor, n.since = nil, 0
		n.credit -= n.factorCost()
	}
	n.passes++
	for k := range n.loss[0] {
		if at, there := n.objective(k); there <= at+float64(at/64) {
			n.move(k)
			n.solve(k)
		} else {
			n.scale(k, .25)
		}
	}
}

// objective returns F at W and at W + Δ.
func (n *newton) objective(k int) (at, there float64) {
	var square, far float64
	for j := range n.columns {
		for e := j*n.lanes + k*n.classes; e < j*n.lanes+(k+1)*n.classes; e++ {
			w, next := n.w[e], n.w[e]+n.step[e]
			square += float64(w * w)
			far += float64(next * next)
		}
	}
	half := n.weights.strength(k) / 2
	return n.loss[0][k] + float64(half*square), n.loss[1][k] + float64(half*far)
}

// move adds Δ to W, which serves from now on.
func (n *newton) move(k int) {
	for j := range n.columns {
		for c := range n.classes {
			e := j*n.lanes + k*n.classes + c
			n.w[e] += n.step[e]
			n.weights.of(j, k)[c] = n.w[e]
		}
	}
}

// scale multiplies Δ.
func (n *newton) scale(k int, by float64) {
	for j := range n.columns {
		for e := j*n.lanes + k*n.classes; e < j*n.lanes+(k+1)*n.classes; e++ {
			n.step[e] *= by
		}
	}
}

// solve sets Δ from the gradient at W.
func (n *newton) solve(k int) {
	if n.factor == nil {
		n.factor = make([][]cholesky, len(n.loss[0]))
	}
	d, strength := n.columns, n.weights.strength(k)
	if n.factor[k] == nil {
		n.factor[k] = make([]cholesky, n.blocks)
		for b := range n.factor[k] {
			h := n.curvature[b*d*d : (b+1)*d*d]
			for j := range d {
				h[j*d+j] += strength
			}
			ok := n.factor[k][b].factorize(h, d)
			for j := range d {
				h[j*d+j] -= strength
			}
			if !ok { // not numbers
				n.factor[k] = nil
				n.scale(k, 0)
				return
			}
		}
	}
	s := &n.scratch
	s.solved = kernel.Resize(s.solved, d)
	for c := range n.classes {
		for j := range d {
			e := j*n.lanes + k*n.classes + c
			s.solved[j] = n.gradient[e] - float64(strength*n.w[e])
		}
		n.factor[k][min(c, n.blocks-1)].solve(s.solved)
		for j := range d {
			n.step[j*n.lanes+k*n.classes+c] = s.solved[j]
		}
	}
}

// eachRow visits what counts of both curvatures: the upper triangle of each block.
func (n *newton) eachRow(visit func([]float64)) {
	for _, h := range [][]float64{n.summed, n.curvature} {
		for at := 0; at < len(h); at += n.columns {
			visit(h[at+at/n.columns%n.columns : at+n.columns])
		}
	}
}

// state declares the rows and the pass. When it is read, the head's weights are W.
func (n *newton) state(s *words.Stream) {
	n.rows.state(s, n.columns, 0)
	s.Floats(n.step)
	s.Floats(n.gradient)
	n.eachRow(s.Floats)
	for _, l := range n.loss {
		s.Floats(l)
	}
	credit := int64(n.credit)
	s.Below(&n.left, n.rows.limit+1, "rows of a pass")
	s.Uint(&n.passes)
	s.Uint(&n.since)
	s.Flag(&n.curving, "whether curvature is summed")
	s.Integer(&credit)
	if !s.Reads {
		return
	}
	n.credit, n.factor = int(credit), nil
	for k := range n.weights.n {
		for j := range n.columns {
			copy(n.w[j*n.lanes+k*n.classes:], n.weights.of(j, k))
		}
	}
}

// newtonWords returns the numbers that state writes, without the rows.
func newtonWords(columns, classes, strengths float64) float64 {
	lanes := classLanes * math.Ceil(strengths*classes/classLanes)
	return float64(2*columns*lanes) + float64(curvatureBlocks(classes)*columns*(columns+1)) + 2*strengths + 5
}
