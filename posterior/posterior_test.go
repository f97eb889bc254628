package posterior

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
)

// golden reads a file of golden values into dst. It skips the test if there is no such
// file.
func golden(t *testing.T, name string, dst any) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "shared", "goldens", name))
		if err == nil {
			if err := json.Unmarshal(b, dst); err != nil {
				t.Fatal(err)
			}
			return
		}
		if dir == filepath.Dir(dir) {
			t.Skipf("no shared/goldens/%s above the working directory", name)
		}
		dir = filepath.Dir(dir)
	}
}

// flat concatenates the rows of a matrix.
func flat(m [][]float64) (f []float64) {
	for _, row := range m {
		f = append(f, row...)
	}
	return f
}

func float32s(x []float64) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = float32(x[i])
	}
	return y
}

// randomGaussian draws a posterior with random means and precisions.
func randomGaussian(rng *rand.Rand, dim, classes int) Gaussian {
	q := Gaussian{Dim: dim, Classes: classes}
	for range dim * classes {
		q.Mean = append(q.Mean, rng.NormFloat64())
		q.Precision = append(q.Precision, 0.5+4*rng.Float64())
	}
	return q
}

// randomRows draws n rows with temperatures and labels.
func randomRows(rng *rand.Rand, n, dim, classes int) (Rows, []int32) {
	var (
		r      Rows
		labels []int32
	)
	for range n {
		for range dim {
			r.Z = append(r.Z, float32(rng.NormFloat64()))
		}
		r.Tau = append(r.Tau, 0.5+2*rng.Float64())
		labels = append(labels, int32(rng.IntN(classes)))
	}
	return r, labels
}

// plainSoftmax is the paper's eq:lik: softmax(zᵀM / τ).
func plainSoftmax(q *Gaussian, z []float32, tau float64) []float64 {
	p, sum := make([]float64, q.Classes), 0.0
	for c := range p {
		var a float64
		for j, x := range z {
			a += float64(x) * q.Mean[j*q.Classes+c]
		}
		p[c] = math.Exp(a / tau)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// TestGaussianValidate: a Gaussian whose sizes disagree or whose numbers are not valid is
// an error.
func TestGaussianValidate(t *testing.T) {
	good := func() Gaussian {
		return Gaussian{Dim: 2, Classes: 3, Mean: make([]float64, 6), Precision: []float64{1, 2, 3, 4, 5, 6}}
	}
	q := good()
	if err := q.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(q *Gaussian){
		"no dimension":       func(q *Gaussian) { q.Dim = 0 },
		"negative classes":   func(q *Gaussian) { q.Classes = -3 },
		"means missing":      func(q *Gaussian) { q.Mean = q.Mean[:5] },
		"precisions missing": func(q *Gaussian) { q.Precision = q.Precision[:3] },
		"overflowing shape":  func(q *Gaussian) { q.Dim, q.Classes = math.MaxInt, 2 },
		"mean NaN":           func(q *Gaussian) { q.Mean[2] = math.NaN() },
		"precision infinite": func(q *Gaussian) { q.Precision[0] = math.Inf(1) },
		"precision zero":     func(q *Gaussian) { q.Precision[5] = 0 },
		"precision negative": func(q *Gaussian) { q.Precision[5] = -1 },
	} {
		q := good()
		spoil(&q)
		if q.Validate() == nil {
			t.Errorf("%s: Validate succeeded, want an error", name)
		}
	}
}

// TestTemperature compares the temperature with its formula, and without a network with 1.
func TestTemperature(t *testing.T) {
	var none *Temperature
	if got := none.At([]float32{1, 2}); got != 1 || none.Validate() != nil {
		t.Errorf("nil temperature: τ = %v, Validate %v, want 1 and nil", got, none.Validate())
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, hidden := range []int{1, 5, 32, 33, 70} {
		const dim = 7
		m := Temperature{Dim: dim, Hidden: hidden, B2: 0.3}
		for range dim * hidden {
			m.W1 = append(m.W1, rng.NormFloat64())
		}
		for range hidden {
			m.B1, m.W2 = append(m.B1, rng.NormFloat64()), append(m.W2, 0.2*rng.NormFloat64())
		}
		if err := m.Validate(); err != nil {
			t.Fatal(err)
		}
		z := make([]float32, dim)
		for range 20 {
			for j := range z {
				z[j] = float32(rng.NormFloat64())
			}
			h := m.B2
			for k := range hidden {
				a := m.B1[k]
				for j := range z {
					a += m.W1[j*hidden+k] * float64(z[j])
				}
				h += m.W2[k] * max(a, 0)
			}
			kerneltest.WantClose(t, "τ", []float64{m.At(z)}, []float64{max(math.Log(1+math.Exp(h)), tauFloor)}, 1e-12)
		}
	}
}

// TestTemperatureStaysPositiveAndFinite: the temperature is at least its floor and finite
// for any output of the network, since logits are divided by it.
func TestTemperatureStaysPositiveAndFinite(t *testing.T) {
	m := Temperature{Dim: 1, Hidden: 1, W1: []float64{1}, B1: []float64{0}, W2: []float64{1}}
	for _, b := range []float64{-1e300, -800, -50, 0, 50, 800, 1e300} {
		m.B2 = b
		if tau := m.At([]float32{1}); !(tau >= tauFloor) || math.IsInf(tau, 1) {
			t.Errorf("τ = %v for the output %v, want it finite and at least %v", tau, b, tauFloor)
		}
	}
	m.B2 = math.NaN()
	if m.Validate() == nil {
		t.Error("Validate accepts a weight that is NaN")
	}
	m.B2, m.W2 = 0, nil
	if m.Validate() == nil {
		t.Error("Validate accepts missing weights")
	}
}

// softmax replaces the logits a by their softmax.
func softmax(a []float64) {
	most := slices.Max(a)
	var sum float64
	for c, x := range a {
		a[c] = double.Exp(x - most)
		sum += a[c]
	}
	inv := 1 / sum
	for c := range a {
		a[c] *= inv
	}
}

// top returns the index of the largest entry, the lowest of equal ones.
func top(a []float64) int { return slices.Index(a, slices.Max(a)) }

// TestKL compares KL with that of gonum's normal distributions, and Distance with its
// definition.
func TestKL(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	random := func() (q Gaussian, n *distmv.Normal) {
		q = Gaussian{Dim: 3, Classes: 2, Mean: make([]float64, 6), Precision: make([]float64, 6)}
		sigma := mat.NewSymDense(6, nil)
		for i := range q.Mean {
			q.Mean[i], q.Precision[i] = rng.NormFloat64(), 0.1+rng.ExpFloat64()
			sigma.SetSym(i, i, 1/q.Precision[i])
		}
		n, ok := distmv.NewNormal(q.Mean, sigma, nil)
		if !ok {
			t.Fatal("the covariance is not positive definite")
		}
		return q, n
	}
	q, qn := random()
	p, pn := random()
	if got, want := q.KL(&p), (distmv.KullbackLeibler{}).DistNormal(qn, pn); math.Abs(got-want) > 1e-12*want {
		t.Errorf("KL = %v, want %v", got, want)
	}
	var mean, variance float64
	for i := range q.Mean {
		mean += math.Pow(q.Mean[i]-p.Mean[i], 2)
		variance += math.Pow(1/q.Precision[i]-1/p.Precision[i], 2)
	}
	if m, v := q.Distance(&p); math.Abs(m-math.Sqrt(mean)) > 1e-12 || math.Abs(v-math.Sqrt(variance)) > 1e-12 {
		t.Errorf("Distance = %v of means, %v of variances, want %v and %v", m, v, math.Sqrt(mean), math.Sqrt(variance))
	}
	if m, v := q.Distance(&q); q.KL(&q) != 0 || m != 0 || v != 0 {
		t.Errorf("KL %v and distances %v and %v from itself, want 0", q.KL(&q), m, v)
	}
	q.Precision[2] = 0 // forgotten entirely
	if kl := q.KL(&p); !(kl > 1e10) || math.IsInf(kl, 0) || q.Variance(2) != 1e12 {
		t.Errorf("KL %v and variance %v of a forgotten weight, want finite above 1e10, and 1e12", kl, q.Variance(2))
	}
}

// collect returns the statistics of labelled rows at the mean of q.
func collect(q *Gaussian, rows Rows, labels []int32, cfg Config) statistics {
	s := newStatistics(q.Dim, q.Classes)
	s.add(q, rows, labels, cfg.Gradient, new(evidence))
	return s
}

// apply returns the posterior after the update, in new memory.
func apply(q, anchor *Gaussian, s statistics, cfg Config) (next Gaussian, r Report) {
	r = update(&next, q, anchor, &s, cfg)
	return next, r
}

// TestUpdateOfABatchInParts: the update by a batch whose statistics were added in two parts
// is that of Proposition 1, computed by hand.
func TestUpdateOfABatchInParts(t *testing.T) {
	q := Gaussian{Dim: 1, Classes: 2, Mean: []float64{0, 0}, Precision: []float64{1, 1}}
	cfg := Config{Lambda: 1, Eta: 1, Clip: 10}
	s := collect(&q, Rows{Z: []float32{2}, Tau: []float64{1}}, []int32{0}, cfg)
	s.add(&q, Rows{Z: []float32{-2}, Tau: []float64{1}}, []int32{1}, cfg.Gradient, new(evidence))
	next, report := apply(&q, &q, s, cfg)
	kerneltest.WantClose(t, "M", next.Mean, []float64{2. / 3, -2. / 3}, 1e-12)
	kerneltest.WantClose(t, "T", next.Precision, []float64{3, 3}, 1e-12)
	kerneltest.WantClose(t, "step", []float64{report.Step}, []float64{math.Sqrt(8. / 9)}, 1e-12)
}
