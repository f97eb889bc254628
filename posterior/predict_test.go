package posterior

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// TestMAP compares MAP with the formula eq:lik.
func TestMAP(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	q := randomGaussian(rng, 5, 4)
	rows, _ := randomRows(rng, 9, 5, 4)
	got := make([]float64, 9*4)
	MAP(&q, rows, got)
	for i, tau := range rows.Tau {
		kerneltest.WantClose(t, "probs", got[4*i:4*i+4], plainSoftmax(&q, rows.Z[5*i:5*i+5], tau), 1e-14)
	}
}

// TestMAPOfBlocks: MAP works in blocks of rows, and a row has the same bits in any block as
// alone.
func TestMAPOfBlocks(t *testing.T) {
	const dim, classes = 5, 9
	rng := rand.New(rand.NewPCG(3, 1))
	q := randomGaussian(rng, dim, classes)
	for _, n := range []int{0, 1, 7, 8, 9, double.BlockRows, double.BlockRows + 1, 2*double.BlockRows + 13} {
		rows, _ := randomRows(rng, n, dim, classes)
		got, alone := make([]float64, n*classes), make([]float64, n*classes)
		MAP(&q, rows, got)
		for i := range n {
			MAP(&q, rows.part(i, i+1, dim), alone[i*classes:(i+1)*classes])
		}
		kerneltest.WantSame(t, "probs", got, alone)
	}
}

// TestMAPIsStable: huge logits give probabilities of 0 and 1, not NaN.
func TestMAPIsStable(t *testing.T) {
	q := Gaussian{Dim: 1, Classes: 3, Mean: []float64{1, 0, -1}, Precision: []float64{1, 1, 1}}
	got := make([]float64, 6)
	MAP(&q, Rows{Z: []float32{1e30, -1e30}, Tau: []float64{1, tauFloor}}, got)
	kerneltest.WantClose(t, "probs", got, []float64{1, 0, 0, 0, 0, 1}, 0)
}

type laplaceGolden struct {
	Z           [][]float64
	Labels      []int32
	Mean        [][]float64
	ZTest       [][]float64 `json:"z_test"`
	Diagonal    laplaceDiagonal
	WithoutBias struct {
		Probs    [][]float64
		Diagonal [][]float64 `json:"ggn_diag_de_by_c"`
	} `json:"no_bias"`
}

type laplaceDiagonal struct {
	Variance      [][]float64
	Tau           []float64
	LogitMean     [][]float64 `json:"logit_mean"`
	LogitVariance [][]float64 `json:"logit_variance"`
	PlugIn        [][]float64 `json:"plug_in"`
	Expected      [][]float64 `json:"expected_softmax"`
	MonteCarlo    [][]float64 `json:"monte_carlo_1000000"`
	StandardError [][]float64 `json:"monte_carlo_standard_error"`
	KL            float64     `json:"kl_to_standard_normal"`
	Labels        []int32     `json:"labels_test"`
	ELL           float64
}

func (g *laplaceGolden) posterior() Gaussian {
	q := Gaussian{Dim: len(g.Mean), Classes: len(g.Mean[0]), Mean: flat(g.Mean), Precision: flat(g.Diagonal.Variance)}
	for i, v := range q.Precision {
		q.Precision[i] = 1 / v
	}
	return q
}

// TestStatisticsGolden compares the statistics of labelled rows with the diagonal of the
// generalised Gauss-Newton matrix, computed in Python.
func TestStatisticsGolden(t *testing.T) {
	var g laplaceGolden
	golden(t, "laplace.json", &g)
	q := g.posterior()
	rows := Rows{Z: float32s(flat(g.Z)), Tau: make([]float64, len(g.Z))}
	for i := range rows.Tau {
		rows.Tau[i] = 1
	}
	probs := make([]float64, len(g.Z)*q.Classes)
	MAP(&q, rows, probs)
	kerneltest.WantClose(t, "probs", probs, flat(g.WithoutBias.Probs), 1e-6)
	s := collect(&q, rows, g.Labels, DefaultConfig())
	kerneltest.WantClose(t, "GGN diagonal", s.precision, flat(g.WithoutBias.Diagonal), 1e-6)
}

// TestPredictiveGolden compares the plug-in and the Monte Carlo predictive with values
// computed in Python.
func TestPredictiveGolden(t *testing.T) {
	var g laplaceGolden
	golden(t, "laplace.json", &g)
	q, d := g.posterior(), &g.Diagonal
	rows := Rows{Z: float32s(flat(g.ZTest)), Tau: d.Tau}
	got := make([]float64, len(d.Tau)*q.Classes)
	MAP(&q, rows, got)
	kerneltest.WantClose(t, "plug-in", got, flat(d.PlugIn), 1e-6)

	NewPredictive(q.Classes, 1<<19).Predict(&q, rows, got, nil)
	kerneltest.WantClose(t, "expected softmax", got, flat(d.Expected), 1e-3)
	mc, se := flat(d.MonteCarlo), flat(d.StandardError)
	for i := range mc {
		if math.Abs(got[i]-mc[i]) > 5*se[i]+1e-3 {
			t.Errorf("probability %d is %v, want %v ± %v", i, got[i], mc[i], se[i])
		}
	}
	NewPredictive(q.Classes, 64).Predict(&q, rows, got, nil)
	kerneltest.WantClose(t, "expected softmax from 64 samples", got, flat(d.Expected), 0.04)
}

// TestPredictiveSamplesTheWeights: sampling C logits is equivalent to sampling d_e·C
// weights. The logits have the same distribution, and the predictive has the same mean and
// uncertainties.
func TestPredictiveSamplesTheWeights(t *testing.T) {
	const dim, classes, n, samples = 6, 4, 5, 40_000
	rng := rand.New(rand.NewPCG(2, 3))
	q := randomGaussian(rng, dim, classes)
	rows, _ := randomRows(rng, n, dim, classes)

	p := NewPredictive(classes, samples)
	probs, split := make([]float64, n*classes), make([]Uncertainty, n)
	p.Predict(&q, rows, probs, split)

	for i, tau := range rows.Tau {
		z := rows.Z[i*dim : (i+1)*dim]
		drawn := make([][]float64, classes) // logits, by class
		mean := make([]float64, classes)
		var aleatoric float64
		w := q.Clone()
		for range samples {
			for k := range w.Mean {
				w.Mean[k] = q.Mean[k] + rng.NormFloat64()/math.Sqrt(q.Precision[k])
			}
			for c := range classes {
				var a float64
				for j, x := range z {
					a += float64(x) * w.Mean[j*classes+c]
				}
				drawn[c] = append(drawn[c], a/tau)
			}
			for c, x := range plainSoftmax(&w, z, tau) {
				mean[c] += x / samples
				aleatoric -= x * math.Log(x) / samples
			}
		}
		kerneltest.WantClose(t, "probabilities", probs[i*classes:(i+1)*classes], mean, 0.01)
		total := 0.0
		for _, x := range mean {
			total -= x * math.Log(x)
		}
		kerneltest.WantClose(t, "split", []float64{split[i].Total, split[i].Aleatoric, split[i].Epistemic}, []float64{total, aleatoric, total - aleatoric}, 0.01)

		own := NewPredictive(classes, samples)
		own.Predict(&q, rows.part(i, i+1, dim), nil, nil)
		for c := range classes {
			logits := make([]float64, samples)
			for s := range logits {
				logits[s] = own.mean[c*own.lanes] + math.Sqrt(own.spread[c*own.lanes])*float64(own.normals[s*classes+c])
			}
			m, sd := stat.MeanStdDev(drawn[c], nil)
			kerneltest.WantClose(t, "mean of logits", []float64{stat.Mean(logits, nil)}, []float64{m}, 5*sd/math.Sqrt(samples))
			kerneltest.WantClose(t, "deviation of logits", []float64{stat.StdDev(logits, nil)}, []float64{sd}, 5*sd/math.Sqrt(2*samples))
			slices.Sort(logits)
			slices.Sort(drawn[c])
			// Two-sample Kolmogorov-Smirnov at a level of 1e-5.
			if ks, bound := stat.KolmogorovSmirnov(logits, nil, drawn[c], nil), 2.47*math.Sqrt(2.0/samples); ks > bound {
				t.Errorf("row %d class %d: KS statistic %v, bound %v", i, c, ks, bound)
			}
		}
	}
}

// TestSplitIsTheFormula: with few samples, the mean and the uncertainties are those of the
// formula on the same samples.
func TestSplitIsTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	const dim, classes, n, samples = 3, 5, 8, 7
	q := randomGaussian(rng, dim, classes)
	rows, _ := randomRows(rng, n, dim, classes)
	p := NewPredictive(classes, samples)
	got, split := make([]float64, n*classes), make([]Uncertainty, n)
	p.Predict(&q, rows, got, split)
	for i, tau := range rows.Tau {
		mean := make([]float64, classes)
		var aleatoric float64
		for s := range samples {
			a := make([]float64, classes)
			for c := range a {
				var m, v float64
				for j, x := range rows.Z[i*dim : (i+1)*dim] {
					m += float64(x) * q.Mean[j*classes+c]
					v += float64(x) * float64(x) / q.Precision[j*classes+c]
				}
				a[c] = m/tau + math.Sqrt(v)/tau*float64(p.normals[s*classes+c])
			}
			softmax(a)
			for c, x := range a {
				mean[c] += x / samples
				aleatoric -= x * math.Log(x) / samples
			}
		}
		kerneltest.WantClose(t, "mean", got[i*classes:(i+1)*classes], mean, 1e-6)
		total := 0.0
		for _, x := range mean {
			total -= x * math.Log(x)
		}
		kerneltest.WantClose(t, "split", []float64{split[i].Total, split[i].Aleatoric, split[i].Epistemic}, []float64{total, aleatoric, total - aleatoric}, 1e-6)
	}
}

// TestSplitOfACertainPosterior: with variances near 0 the predictive is MAP, and the
// epistemic uncertainty is 0.
func TestSplitOfACertainPosterior(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 7))
	q := randomGaussian(rng, 4, 3)
	for i := range q.Precision {
		q.Precision[i] = 1e30
	}
	rows, _ := randomRows(rng, 20, 4, 3)
	mode, got, split := make([]float64, 60), make([]float64, 60), make([]Uncertainty, 20)
	MAP(&q, rows, mode)
	NewPredictive(3, 8).Predict(&q, rows, got, split)
	kerneltest.WantClose(t, "probabilities", got, mode, 1e-6)
	for _, u := range split {
		if u.Epistemic < 0 || u.Epistemic > 1e-6 || u.Aleatoric > u.Total {
			t.Errorf("uncertainty %+v with variances near 0, want an epistemic part in [0, 1e-6]", u)
		}
	}
}

// TestPredictiveIsAFunctionOfItsInputs: the samples depend neither on how rows are divided
// into calls nor on earlier calls, and Predict does not allocate in steady state.
func TestPredictiveIsAFunctionOfItsInputs(t *testing.T) {
	const n, cut = 2*double.BlockRows + 10, 5
	rng := rand.New(rand.NewPCG(8, 9))
	q := randomGaussian(rng, 4, 3)
	rows, _ := randomRows(rng, n, 4, 3)
	p := NewPredictive(3, 16)
	a, b := make([]Uncertainty, n), make([]Uncertainty, n)
	p.Predict(&q, rows, nil, a)
	p.Predict(&q, rows.part(0, cut, 4), nil, b[:cut])
	NewPredictive(3, 16).Predict(&q, rows.part(cut, n, 4), nil, b[cut:])
	if !slices.Equal(a, b) {
		t.Errorf("uncertainties of two calls %v, want those of one %v", b, a)
	}
	if n := testing.AllocsPerRun(10, func() { p.Predict(&q, rows, nil, a) }); n != 0 {
		t.Errorf("%v allocations a call, want none", n)
	}
}

// TestServe: Serve has the bits of MAP for each posterior, and of the uncertainties of
// Predict for the one that serves.
func TestServe(t *testing.T) {
	const n, classes = 2*double.BlockRows + 10, 5
	rng := rand.New(rand.NewPCG(8, 10))
	a, b := randomGaussian(rng, 6, classes), randomGaussian(rng, 6, classes)
	posteriors := []*Gaussian{&a, &b}
	rows, _ := randomRows(rng, n, 6, classes)
	p := NewPredictive(classes, 16)
	mode := make([]float64, n*classes)
	for serves, q := range posteriors {
		probs, split, want := make([]float32, 2*n*classes), make([]Uncertainty, n), make([]Uncertainty, n)
		p.Serve(posteriors, serves, rows, probs, split)
		p.Predict(q, rows, nil, want)
		if !slices.Equal(split, want) {
			t.Errorf("posterior %d serves: uncertainties %v, want %v", serves, split, want)
		}
		for h, q := range posteriors {
			MAP(q, rows, mode)
			for i, x := range mode {
				if got := probs[(2*(i/classes)+h)*classes+i%classes]; got != float32(x) {
					t.Fatalf("posterior %d, probability %d is %v, want %v", h, i, got, x)
				}
			}
		}
	}
}

// TestNormals: the points for each class have mean 0 and variance 1 exactly, and are spread
// like quantiles of the normal distribution.
func TestNormals(t *testing.T) {
	for _, samples := range []int{1, 2, 16, 101} {
		const classes = 5
		set := normals(samples, classes)
		for c := range classes {
			column := make([]float64, samples)
			for s := range column {
				column[s] = set[s*classes+c]
			}
			slices.Sort(column)
			var square float64
			for s, x := range column {
				square += x * x
				if samples > 1 && math.Abs(distuv.UnitNormal.CDF(x)-(float64(s)+0.5)/float64(samples)) > 0.1 {
					t.Errorf("point %d of %d is %v, far from its quantile", s, samples, x)
				}
			}
			if samples > 1 {
				kerneltest.WantClose(t, "variance", []float64{square / float64(samples)}, []float64{1}, 1e-12)
			}
			kerneltest.WantClose(t, "mean", []float64{stat.Mean(column, nil)}, []float64{0}, 1e-12)
		}
	}
}
