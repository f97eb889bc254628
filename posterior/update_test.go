package posterior

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// algorithm1 is the body of the paper's Algorithm 1, in its order and with plain loops.
func algorithm1(q, star *Gaussian, rows Rows, labels []int32, cfg Config) (Gaussian, Report) {
	next := q.Clone()
	var r Report
	var norm float64
	for j := range q.Dim {
		for c := range q.Classes {
			i := j*q.Classes + c
			var gData, curvature float64
			for v, y := range labels {
				z := rows.Z[v*q.Dim : (v+1)*q.Dim]
				p := plainSoftmax(q, z, rows.Tau[v])[c]
				zj, oneHot := float64(z[j]), 0.0
				if cfg.Gradient == Scaled {
					zj /= rows.Tau[v]
				}
				if int(y) == c {
					oneHot = 1
				}
				gData += zj * (oneHot - p)
				curvature += p * (1 - p) * zj * zj
			}
			sigmaStar := 1 / star.Precision[i]
			g := gData - cfg.Beta*(q.Mean[i]-star.Mean[i])/sigmaStar
			next.Precision[i] = cfg.Lambda*q.Precision[i] + cfg.Eta*curvature + cfg.Eta*cfg.Beta/sigmaStar
			sigma := 1 / (next.Precision[i] + cfg.Epsilon)
			step := cfg.Eta * sigma * g
			if math.Abs(step) > cfg.Clip {
				r.Clipped++
			}
			step = math.Min(math.Max(step, -cfg.Clip), cfg.Clip)
			next.Mean[i] += step
			norm += step * step
		}
	}
	r.Step = math.Sqrt(norm)
	return next, r
}

var updateConfigs = map[string]Config{
	"default":       {Lambda: 0.99, Eta: 1, Clip: 0.1, Epsilon: 1e-8},
	"as written":    {Lambda: 0.995, Eta: 0.5, Beta: 0.01, Clip: 0.5, Epsilon: 1e-8, Gradient: AsWritten},
	"anchored":      {Lambda: 0.9, Eta: 1, Beta: 0.5, Clip: 0.05, Epsilon: 1e-8},
	"plain Bayes":   {Lambda: 1, Eta: 1, Clip: 1e9},
	"no memory":     {Lambda: 0, Eta: 0.5, Beta: 1, Clip: 0.5, Epsilon: 1e-8, Gradient: AsWritten},
	"all clipped":   {Lambda: 0.97, Eta: 1, Clip: 1e-6, Epsilon: 1e-8},
	"large epsilon": {Lambda: 0.97, Eta: 1, Clip: 1, Epsilon: 3},
}

// TestUpdateIsAlgorithm1 compares the update, and the head that uses it, with the paper's
// Algorithm 1.
func TestUpdateIsAlgorithm1(t *testing.T) {
	for name, cfg := range updateConfigs {
		t.Run(name, func(t *testing.T) {
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(3, 4))
			star := randomGaussian(rng, 6, 5)
			q, head := star.Clone(), NewOnline(star, cfg)
			for _, n := range []int{3, 1, 8, 4, 17} {
				rows, labels := randomRows(rng, n, 6, 5)
				want, wantReport := algorithm1(&q, &star, rows, labels, cfg)
				got, report := apply(&q, &star, collect(&q, rows, labels, cfg), cfg)
				kerneltest.WantClose(t, "mean", got.Mean, want.Mean, 1e-12)
				kerneltest.WantClose(t, "precision", got.Precision, want.Precision, 1e-12)
				kerneltest.WantClose(t, "step", []float64{report.Step}, []float64{wantReport.Step}, 1e-12)
				if report.Clipped != wantReport.Clipped {
					t.Errorf("Clipped = %d, want %d", report.Clipped, wantReport.Clipped)
				}
				if r := head.Learn(rows, labels); r != report {
					t.Errorf("the head reports %+v, want %+v", r, report)
				}
				kerneltest.WantSame(t, "the head's mean", head.Posterior().Mean, got.Mean)
				kerneltest.WantSame(t, "the head's precision", head.Posterior().Precision, got.Precision)
				q = got
			}
		})
	}
}

// TestForgettingFollowsLabels: a batch of n labels is Algorithm 1 with λ^(n/50) and
// β n/50, and one of 50 labels or more is the paper's. So labels that come
// one by one forget what a batch of 50 forgets, and no more.
func TestForgettingFollowsLabels(t *testing.T) {
	cfg := Config{Lambda: 0.9, Eta: 0.7, Beta: 0.02, Clip: 0.2, Epsilon: 1e-8, Batch: 50}
	rng := rand.New(rand.NewPCG(5, 6))
	star := randomGaussian(rng, 6, 5)
	head, want := NewOnline(star, cfg), star.Clone()
	for _, n := range []int{1, 3, 10, 49, 50, 51, 200, 1, 1} {
		rows, labels := randomRows(rng, n, 6, 5)
		share := math.Min(1, float64(n)/50)
		of := Config{Lambda: math.Pow(0.9, share), Eta: 0.7, Beta: 0.02 * share, Clip: 0.2, Epsilon: 1e-8}
		want, _ = algorithm1(&want, &star, rows, labels, of)
		head.Learn(rows, labels)
		kerneltest.WantClose(t, "mean", head.Posterior().Mean, want.Mean, 1e-12)
		kerneltest.WantClose(t, "precision", head.Posterior().Precision, want.Precision, 1e-12)
	}

	// Rows of zeros say nothing about any weight: what is left is forgetting alone.
	cfg.Beta = 0
	trickled, whole := NewOnline(star, cfg), star.Clone()
	for range 50 {
		trickled.Learn(Rows{Z: make([]float32, 6), Tau: []float64{1}}, []int32{0})
	}
	for i := range whole.Precision {
		whole.Precision[i] *= 0.9
	}
	kerneltest.WantClose(t, "precision after 50 labels", trickled.Posterior().Precision, whole.Precision, 1e-12)
}

// TestUpdateGolden compares predictions and updates over a stream of batches with values
// computed in Python.
func TestUpdateGolden(t *testing.T) {
	var g struct {
		Mean, Variance [][]float64
		Batches        []struct {
			Z      [][]float64
			Tau    []float64
			Labels []int32
		}
		Runs []struct {
			Lambda, Eta, Beta, Clip, Epsilon float64
			Gradient                         string `json:"temperature_in_update"`
			Clipped                          int    `json:"clipped_entries"`
			Steps                            []struct{ Probs, Precision, Mean [][]float64 }
		}
	}
	golden(t, "update.json", &g)
	star := Gaussian{Dim: len(g.Mean), Classes: len(g.Mean[0]), Mean: flat(g.Mean), Precision: flat(g.Variance)}
	for i, s := range star.Precision {
		star.Precision[i] = 1 / s
	}
	for _, run := range g.Runs {
		cfg := Config{Lambda: run.Lambda, Eta: run.Eta, Beta: run.Beta, Clip: run.Clip, Epsilon: run.Epsilon}
		if run.Gradient == "as_written" {
			cfg.Gradient = AsWritten
		}
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		q, clipped := star.Clone(), 0
		for b, batch := range g.Batches {
			// The embeddings are given to four decimals; float32 moves them by 1e-7.
			rows := Rows{Z: float32s(flat(batch.Z)), Tau: batch.Tau}
			probs := make([]float64, len(batch.Labels)*q.Classes)
			MAP(&q, rows, probs)
			kerneltest.WantClose(t, "probs", probs, flat(run.Steps[b].Probs), 2e-6)
			var r Report
			q, r = apply(&q, &star, collect(&q, rows, batch.Labels, cfg), cfg)
			clipped += r.Clipped
			kerneltest.WantClose(t, "precision", q.Precision, flat(run.Steps[b].Precision), 2e-6)
			kerneltest.WantClose(t, "mean", q.Mean, flat(run.Steps[b].Mean), 2e-6)
		}
		if clipped != run.Clipped {
			t.Errorf("λ %v %s: %d entries clipped, want %d", run.Lambda, run.Gradient, clipped, run.Clipped)
		}
	}
}

// TestScaledStatisticsAreDerivatives: with Scaled, the statistics are the gradient and the
// negative diagonal of the Hessian of the log-likelihood of eq:lik with respect to the
// weights.
func TestScaledStatisticsAreDerivatives(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	q := randomGaussian(rng, 3, 4)
	rows, labels := randomRows(rng, 7, 3, 4)
	logLikelihood := func(w []float64) (l float64) {
		at := q
		at.Mean = w
		for i, y := range labels {
			l += math.Log(plainSoftmax(&at, rows.Z[3*i:3*i+3], rows.Tau[i])[y])
		}
		return l
	}
	s := collect(&q, rows, labels, Config{Gradient: Scaled})
	kerneltest.WantClose(t, "gradient", s.gradient, fd.Gradient(nil, logLikelihood, q.Mean, &fd.Settings{Formula: fd.Central}), 1e-7)
	for i := range q.Mean {
		along := func(x float64) float64 {
			w := q.Clone().Mean
			w[i] = x
			return logLikelihood(w)
		}
		curvature := -fd.Derivative(along, q.Mean[i], &fd.Settings{Formula: fd.Central2nd, Step: 1e-4})
		kerneltest.WantClose(t, "precision", s.precision[i:i+1], []float64{curvature}, 1e-5)
	}
}

// TestStatisticsAddUp: the statistics of a batch are the sums over its parts.
func TestStatisticsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const dim, classes, n = 5, 3, 29
	q := randomGaussian(rng, dim, classes)
	rows, labels := randomRows(rng, n, dim, classes)
	for _, gradient := range []gradient{Scaled, AsWritten} {
		cfg := Config{Gradient: gradient}
		whole := collect(&q, rows, labels, cfg)
		sum := collect(&q, Rows{}, nil, cfg)
		for _, cut := range [][2]int{{0, 1}, {1, 10}, {10, 10}, {10, n}} {
			sum.add(&q, rows.part(cut[0], cut[1], dim), labels[cut[0]:cut[1]], gradient, new(evidence))
		}
		kerneltest.WantClose(t, "gradient", sum.gradient, whole.gradient, 1e-13)
		kerneltest.WantClose(t, "precision", sum.precision, whole.precision, 1e-13)
	}
}

// TestCollectBlocksKeepTheOrder: statistics are computed in blocks of rows, and have the
// bits of adding one row after the other.
func TestCollectBlocksKeepTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	const dim, classes = 6, 7
	q := randomGaussian(rng, dim, classes)
	for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 130} {
		rows, labels := randomRows(rng, n, dim, classes)
		got := collect(&q, rows, labels, DefaultConfig())
		want := collect(&q, Rows{}, nil, DefaultConfig())
		var scratch evidence
		for i := range n {
			want.add(&q, rows.part(i, i+1, dim), labels[i:i+1], Scaled, &scratch)
		}
		kerneltest.WantSame(t, "gradient", got.gradient, want.gradient)
		kerneltest.WantSame(t, "precision", got.precision, want.precision)
	}
}

// TestApplyWritesOnlyItsResult: the update does not write to its arguments, may be in
// place, and does not allocate.
func TestApplyWritesOnlyItsResult(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	q, star := randomGaussian(rng, 4, 3), randomGaussian(rng, 4, 3)
	rows, labels := randomRows(rng, 6, 4, 3)
	cfg := Config{Lambda: 0.9, Eta: 1, Beta: 0.2, Clip: 0.3, Epsilon: 1e-8}
	qWas, starWas := q.Clone(), star.Clone()
	s := collect(&q, rows, labels, cfg)
	sWas := collect(&q, rows, labels, cfg)

	next, report := apply(&q, &star, s, cfg)
	kerneltest.WantSame(t, "q mean", q.Mean, qWas.Mean)
	kerneltest.WantSame(t, "q precision", q.Precision, qWas.Precision)
	kerneltest.WantSame(t, "anchor mean", star.Mean, starWas.Mean)
	kerneltest.WantSame(t, "anchor precision", star.Precision, starWas.Precision)
	kerneltest.WantSame(t, "gradient", s.gradient, sWas.gradient)
	kerneltest.WantSame(t, "increment", s.precision, sWas.precision)

	if again := update(&q, &q, &star, &s, cfg); again != report {
		t.Errorf("report of the update in place %+v, want %+v", again, report)
	}
	kerneltest.WantSame(t, "in place, mean", q.Mean, next.Mean)
	kerneltest.WantSame(t, "in place, precision", q.Precision, next.Precision)
	if n := testing.AllocsPerRun(10, func() { update(&next, &q, &star, &s, cfg) }); n != 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
}

// TestBatchWithoutRowsForgetsAndIsAnchored: the update by an empty batch reduces precisions
// by λ and moves the mean towards the anchor.
func TestBatchWithoutRowsForgetsAndIsAnchored(t *testing.T) {
	star := Gaussian{Dim: 1, Classes: 2, Mean: []float64{0, 1}, Precision: []float64{4, 2}}
	q := Gaussian{Dim: 1, Classes: 2, Mean: []float64{1, 1}, Precision: []float64{10, 20}}
	cfg := Config{Lambda: 0.5, Eta: 1, Beta: 0.25, Clip: 1}
	next, _ := apply(&q, &star, collect(&q, Rows{}, nil, cfg), cfg)
	kerneltest.WantClose(t, "precision", next.Precision, []float64{6, 10.5}, 1e-15)
	kerneltest.WantClose(t, "mean", next.Mean, []float64{1 - 1.0/6, 1}, 1e-15)
}

// TestForgottenDimension: with λ = 0, a dimension that no row uses has precision 0 after an
// update. Its mean, the state and predictions stay valid.
func TestForgottenDimension(t *testing.T) {
	star := Gaussian{Dim: 2, Classes: 2, Mean: []float64{1, -1, 0.5, -0.5}, Precision: []float64{1, 1, 1, 1}}
	head := NewOnline(star, Config{Lambda: 0, Eta: 1, Clip: 0.1})
	rows := Rows{Z: []float32{0, 1}, Tau: []float64{1}}
	for range 3 {
		head.Learn(rows, []int32{1})
	}
	q := head.Posterior()
	if q.Precision[0] != 0 || q.Mean[0] != 1 || q.Mean[1] != -1 {
		t.Errorf("mean %v and precision %v, want 1 and -1, and 0, in the unused dimension", q.Mean, q.Precision)
	}
	if err := head.SetState(head.AppendState(nil)); err != nil {
		t.Error(err)
	}
	split := make([]Uncertainty, 2)
	both := Rows{Z: []float32{0, 1, 1, 1}, Tau: []float64{1, 1}}
	NewPredictive(2, 16).Predict(q, both, nil, split)
	for _, u := range split {
		if !(u.Total >= 0 && u.Total <= math.Ln2+1e-12 && u.Epistemic >= 0) {
			t.Errorf("uncertainty %+v, want entropies of two classes", u)
		}
	}
	if split[1].Epistemic < split[0].Epistemic {
		t.Errorf("uncertainties %+v, want the second row, which uses the forgotten dimension, less certain", split)
	}
}

// TestConfigValidate: the error names every invalid field with its value and what to give
// instead.
func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{Lambda: 1.5, Eta: 0, Beta: -1, Clip: math.NaN(), Epsilon: math.Inf(1), Gradient: 7}
	err := bad.Validate()
	if err == nil {
		t.Fatal("Validate accepts an invalid configuration")
	}
	for _, want := range []string{"lambda 1.5: give", "eta 0: give", "beta -1: give", "clip NaN: give", "epsilon +Inf: give", "gradient Gradient(7): give"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %q, want it to contain %q", err, want)
		}
	}
}
