package posterior

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"github.com/gvbll/gvbll/posterior/internal/check"
)

// noise returns a random source, always with the same seed.
func noise() *rand.Rand { return rand.New(rand.NewPCG(42, 43)) }

// wide returns a layer whose parameters are all far from their initial values, so that
// every term of a gradient counts, and n labelled rows for it.
func wide(tempHidden, n int) (v *Variational, z []float64, labels []int32) {
	const dim, classes = 4, 3
	v = NewVariational(dim, classes, tempHidden, 1)
	rng := rand.New(rand.NewPCG(2, 3))
	for k, p := range v.Params() {
		for i := range p {
			if k == 1 {
				p[i] = -1
			}
			p[i] += 0.4 * rng.NormFloat64()
		}
	}
	for range n * dim {
		z = append(z, rng.NormFloat64())
	}
	for range n {
		labels = append(labels, int32(rng.IntN(classes)))
	}
	return v, z, labels
}

// TestLossGradients compares the gradients with central differences of the loss, for every
// parameter and for the embeddings.
func TestLossGradients(t *testing.T) {
	for _, c := range []struct{ hidden, samples, n int }{{0, 10, 6}, {5, 10, 6}, {6, 3, 6}, {3, 1, 6}, {9, 2, double.BlockRows + 9}} {
		v, z, labels := wide(c.hidden, c.n)
		v.Samples = c.samples
		const alpha = 0.7
		spare := make([]float64, len(z))
		loss := func() float64 { return v.Loss(z, labels, alpha, noise(), spare).Total }
		check := func(what string, at, got []float64) {
			t.Helper()
			was := slices.Clone(at)
			want := fd.Gradient(nil, func(x []float64) float64 {
				copy(at, x)
				return loss()
			}, was, &fd.Settings{Formula: fd.Central, Step: 1e-5})
			copy(at, was)
			kerneltest.WantClose(t, what, got, want, 1e-8)
		}
		dz := make([]float64, len(z))
		v.Loss(z, labels, alpha, noise(), dz)
		grads := make([][]float64, 0, 6)
		for _, g := range v.Grads() {
			grads = append(grads, slices.Clone(g))
		}
		check("z", z, dz)
		names := []string{"mean", "log-variance", "W1", "B1", "W2", "B2"}
		params := v.Params()
		if want := map[bool]int{false: 2, true: 6}[c.hidden > 0]; len(params) != want || len(grads) != want {
			t.Fatalf("got %d parameters and %d gradients, want %d of each", len(params), len(grads), want)
		}
		for k := range params {
			check(names[k], params[k], grads[k])
		}
	}
}

// TestLossIsTheELBO: the loss is the paper's eq:elbo, computed here by plain formulas from
// the frozen posterior and temperature, with many samples of the weights.
func TestLossIsTheELBO(t *testing.T) {
	v, z, labels := wide(5, 4)
	v.Samples = 20_000
	q, temperature := v.Posterior()
	dz := make([]float64, len(z))
	got := v.Loss(z, labels, 0.5, noise(), dz)

	rng := rand.New(rand.NewPCG(5, 6))
	var ell, kl float64
	correct := 0
	for i, y := range labels {
		row := float32s(z[i*q.Dim : (i+1)*q.Dim])
		tau := temperature.At(row)
		if top(plainSoftmax(&q, row, tau)) == int(y) {
			correct++
		}
		w := q.Clone()
		for range v.Samples {
			for k := range w.Mean {
				w.Mean[k] = q.Mean[k] + rng.NormFloat64()/math.Sqrt(q.Precision[k])
			}
			ell += math.Log(plainSoftmax(&w, row, tau)[y]) / float64(v.Samples*len(labels))
		}
	}
	for i, m := range q.Mean {
		s := 1 / q.Precision[i]
		kl += 0.5 * (s + m*m - math.Log(s) - 1)
	}
	kerneltest.WantClose(t, "ELL", []float64{got.ELL}, []float64{ell}, 0.01)
	kerneltest.WantClose(t, "KL", []float64{got.KL}, []float64{kl}, 1e-12)
	prior := math.Pow(temperature.B2-math.Log(math.E-1), 2) // its mean is the B2 with τ = 1
	for _, w := range temperature.W2 {
		prior += w * w
	}
	prior *= 0.5 * v.TemperaturePrecision
	kerneltest.WantClose(t, "total", []float64{got.Total}, []float64{-got.ELL + (0.5*kl+prior)/float64(len(labels))}, 1e-12)
	if got.Correct != correct {
		t.Errorf("Correct = %d, want %d", got.Correct, correct)
	}
}

// TestLossGolden compares the two terms of the ELBO with values computed in Python.
func TestLossGolden(t *testing.T) {
	var g laplaceGolden
	golden(t, "laplace.json", &g)
	q, d := g.posterior(), &g.Diagonal
	v := NewVariational(q.Dim, q.Classes, 0, 1)
	v.Samples = 100_000
	copy(v.Params()[0], q.Mean)
	for i, p := range q.Precision {
		v.Params()[1][i] = -math.Log(p)
	}
	// Logits are homogeneous in z, so z/τ at τ = 1 gives those of z at τ.
	var z []float64
	for i, row := range g.ZTest {
		for _, x := range row {
			z = append(z, x/d.Tau[i])
		}
	}
	got := v.Loss(z, d.Labels, 1, noise(), make([]float64, len(z)))
	kerneltest.WantClose(t, "KL", []float64{got.KL}, []float64{d.KL}, 1e-9)
	kerneltest.WantClose(t, "ELL", []float64{got.ELL}, []float64{d.ELL}, 3e-3)
}

// TestLossIsReproducible: equal random sources give equal bits, and Loss does not allocate
// once its buffers have grown.
func TestLossIsReproducible(t *testing.T) {
	a, z, labels := wide(5, 20)
	b, _, _ := wide(5, 20)
	da, db := make([]float64, len(z)), make([]float64, len(z))
	if la, lb := a.Loss(z, labels, 1, noise(), da), b.Loss(z, labels, 1, noise(), db); la != lb {
		t.Errorf("loss %+v, then %+v from the same seed", la, lb)
	}
	kerneltest.WantSame(t, "dz", da, db)
	for k := range a.Grads() {
		kerneltest.WantSame(t, "gradient", a.Grads()[k], b.Grads()[k])
	}
	rng := noise()
	if n := testing.AllocsPerRun(10, func() { a.Loss(z, labels, 1, rng, da) }); n != 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
}

// TestLossStaysFinite: loss and gradients are finite for zero and large embeddings and for
// extreme parameters, since one NaN would spoil all weights.
func TestLossStaysFinite(t *testing.T) {
	for _, c := range []struct{ z, logVar, b2 float64 }{
		{0, -4, 0}, {0, -800, 0}, {1, -800, 0}, {1e3, 3, -50}, {1e-200, -4, 0}, {1, 5, 900},
	} {
		v, z, labels := wide(3, 4)
		for i := range z {
			z[i] = c.z
		}
		p := v.Params()
		for i := range p[1] {
			p[1][i] = c.logVar
		}
		p[5][0] = c.b2
		dz := make([]float64, len(z))
		loss := v.Loss(z, labels, 1, noise(), dz)
		for _, g := range append(v.Grads(), dz, []float64{loss.Total}) {
			for _, x := range g {
				if !check.Finite(x) {
					t.Fatalf("%+v: loss or gradient %v, want finite numbers", c, g)
				}
			}
		}
	}
}

// TestVariationalStart: a new layer has a valid posterior and temperatures near 1. A
// posterior that was frozen does not change with the parameters.
func TestVariationalStart(t *testing.T) {
	v := NewVariational(16, 5, 8, 7)
	q, temperature := v.Posterior()
	if err := q.Validate(); err != nil {
		t.Error(err)
	}
	if err := temperature.Validate(); err != nil {
		t.Error(err)
	}
	rows, _ := randomRows(rand.New(rand.NewPCG(1, 1)), 50, 16, 5)
	for i := range 50 {
		kerneltest.WantClose(t, "τ", []float64{temperature.At(rows.Z[16*i : 16*i+16])}, []float64{1}, 0.05)
	}
	if _, none := NewVariational(16, 5, 0, 7).Posterior(); none != nil {
		t.Error("a layer without hidden units has a learned temperature, want none")
	}
	before := q.Mean[0]
	v.Params()[0][0]++
	if q.Mean[0] != before {
		t.Error("the frozen posterior changed with the parameters")
	}
}

// TestVariationalTrains: gradient descent on the loss fits labels that a linear head can
// fit, and leaves a larger variance in a dimension that the rows do not use.
func TestVariationalTrains(t *testing.T) {
	const dim, classes, n, epochs = 4, 3, 90, 400
	v := NewVariational(dim, classes, 4, 1)
	v.TemperaturePrecision = 10 // plain descent at this rate would overshoot a stiffer one
	rng := rand.New(rand.NewPCG(2, 2))
	z, labels := make([]float64, n*dim), make([]int32, n)
	for i := range labels {
		labels[i] = int32(i % classes)
		for j := range dim - 1 { // the last dimension stays 0
			z[i*dim+j] = 0.4 * rng.NormFloat64()
		}
		z[i*dim+i%classes] += 2
	}
	dz := make([]float64, len(z))
	var loss lossParts
	for epoch := range epochs {
		loss = v.Loss(z, labels, KLWeight(epoch, epochs), rng, dz)
		for k, p := range v.Params() {
			rate := 0.2
			if k == 1 { // the log-variance, whose gradient is a hundredth of the mean's
				rate = 20
			}
			double.AddScaled(p, -rate, v.Grads()[k])
		}
	}
	if loss.Correct < n*95/100 || loss.ELL < -0.5 {
		t.Errorf("loss after training %+v, want 95%% of %d correct and ELL >= -0.5", loss, n)
	}
	q, _ := v.Posterior()
	if seen, unseen := q.Precision[0], q.Precision[(dim-1)*classes]; seen < 1.5*unseen {
		t.Errorf("precision %v in a used dimension, %v in an unused one, want at least 1.5 times as much", seen, unseen)
	}
}

// TestKLWeight: the weight of the KL term is 0 for the first third of the epochs, then
// rises linearly to 1 in the last.
func TestKLWeight(t *testing.T) {
	for _, c := range []struct {
		epoch, epochs int
		want          float64
	}{
		{0, 300, 0}, {99, 300, 0}, {100, 300, 0}, {299, 300, 1}, {0, 1, 0}, {1, 2, 1}, {2, 3, 1}, {0, 7, 0}, {6, 7, 1},
	} {
		if got := KLWeight(c.epoch, c.epochs); got != c.want {
			t.Errorf("KLWeight(%d, %d) = %v, want %v", c.epoch, c.epochs, got, c.want)
		}
	}
	for e := 101; e < 299; e++ {
		a, b, c := KLWeight(e-1, 300), KLWeight(e, 300), KLWeight(e+1, 300)
		kerneltest.WantClose(t, "weight", []float64{b}, []float64{(a + c) / 2}, 1e-12)
	}
}
