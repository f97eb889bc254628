package pool

import (
	"math"
	"math/rand/v2"
	"testing"
)

// rareRows returns n rows of eight numbers, of which two say how likely class 1 is: some two in a hundred.
func rareRows(rng *rand.Rand, n int) (b Batch) {
	b.N = n
	for range n {
		logit := -5.0
		for j := range 8 {
			x := rng.NormFloat64()
			b.X.Dense = append(b.X.Dense, float32(x))
			if j < 2 {
				logit += 1.5 * x
			}
		}
		y := int32(0)
		if rng.Float64() < 1/(1+math.Exp(-logit)) {
			y = 1
		}
		b.Labels = append(b.Labels, y)
	}
	return b
}

var rareShape = Shape{Classes: 2, Features: 8}

// distance returns how far a head is from the optimum of the rows that it keeps, as the largest entry of the gradient of
// its objective, by row.
func (f *fitted) distance() (most float64) {
	k := f.best - f.first
	g := make([]float64, f.columns*f.stride)
	for i, w := range f.w[k] {
		g[i] = w / f.inverse(k)
	}
	var n float64
	for class := range f.rows {
		weight := f.weight(class)
		for i := range f.rows[class] {
			r := &f.rows[class][i]
			n += weight
			f.logits(&r.phi, k)
			f.softmax()
			f.p[class]--
			for e, j := range r.column {
				for c := range f.shape.Classes {
					g[int(j)*f.stride+c] += weight * r.value[e] * f.p[c]
				}
			}
		}
	}
	for _, x := range g {
		most = max(most, math.Abs(x))
	}
	return most / n
}

// TestFittedStaysAtItsOptimum: after training, and after each batch of a stream of which most rows cannot be kept, a head is
// near the optimum of the rows that it has, also where one class is rare and rows are replaced by others.
func TestFittedStaysAtItsOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	f := newFitted(Fitted{Blocks: []Block{OwnFeatures, constant}, Scale: Standard, Strengths: []float64{10, 1, .1}, Rows: 512, Work: 20000, Replay: 4, TrainingPasses: 60}, rareShape)
	training := rareRows(rng, 1500)
	f.train(&training)
	if d := f.distance(); d > 1e-3 {
		t.Errorf("after training the gradient is %v", d)
	}
	nodes := int32(0)
	all := training
	for step := range 30 {
		b := rareRows(rng, 50)
		for range b.N {
			b.Nodes = append(b.Nodes, nodes)
			nodes++
		}
		for i := range 4 * b.N {
			at := (4*b.N*step + i) % all.N
			b.Replay.X.Dense = append(b.Replay.X.Dense, all.X.Dense[8*at:8*at+8]...)
			b.ReplayLabels, b.ReplayNodes = append(b.ReplayLabels, all.Labels[at]), append(b.ReplayNodes, 100000+int32(at))
			b.Replay.N++
		}
		f.learn(&b, 1)
		d := f.distance()
		t.Logf("step %d: gradient %.2g, %d rows, spent %d, best %d", step, d, f.count(), f.spent, f.best)
	}
}
