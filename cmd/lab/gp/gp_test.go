package gp

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clusters are classes whose rows are normal with variance 1 about a centre.
type clusters struct {
	dim     int
	centres [][]float64
}

// newClusters draws centres with the given standard deviation.
func newClusters(classes, dim int, apart float64) clusters {
	rng := rand.New(rand.NewPCG(1, 9))
	c := clusters{dim: dim}
	for range classes {
		centre := make([]float64, dim)
		for d := range centre {
			centre[d] = apart * rng.NormFloat64()
		}
		c.centres = append(c.centres, centre)
	}
	return c
}

// draw returns n rows, their labels and the true class probabilities.
func (c clusters) draw(n int, seed uint64) (z []float32, labels []int32, truth []float64) {
	rng := rand.New(rand.NewPCG(seed, 10))
	for range n {
		y := rng.IntN(len(c.centres))
		x := slices.Clone(c.centres[y])
		for d := range x {
			x[d] += rng.NormFloat64()
			z = append(z, float32(x[d]))
		}
		labels = append(labels, int32(y))
		p := make([]float64, len(c.centres))
		var sum float64
		for k, centre := range c.centres {
			p[k] = math.Exp(-squaredDistance(x, centre) / 2)
			sum += p[k]
		}
		for _, v := range p {
			truth = append(truth, v/sum)
		}
	}
	return z, labels, truth
}

// score returns accuracy and mean negative log-likelihood.
func score(probs []float64, labels []int32) (accuracy, nll float64) {
	classes := len(probs) / len(labels)
	for i, y := range labels {
		p := probs[i*classes : (i+1)*classes]
		if top(p) == int(y) {
			accuracy++
		}
		nll -= math.Log(p[y])
	}
	n := float64(len(labels))
	return accuracy / n, nll / n
}

// fit fits a classifier, and fails the test on an error.
func fit(t *testing.T, z []float32, dim, classes int, labels []int32, cfg Config) *Classifier {
	t.Helper()
	c, err := Fit(t.Context(), z, dim, classes, labels, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// predict returns the probabilities of the rows of z.
func predict(c *Classifier, z []float32) []float64 {
	probs := make([]float64, len(z)/c.process.dim*c.process.classes)
	c.Predict(z, probs)
	return probs
}

// TestNearBayes: accuracy and NLL on fresh rows are close to those of the true densities.
func TestNearBayes(t *testing.T) {
	for _, c := range []struct {
		name          string
		rows          int
		clusters      clusters
		cfg           Config
		worse, excess float64 // how much accuracy may be lower, and NLL higher, than with the true densities
	}{
		{"two dimensions", 140, newClusters(4, 2, 2), Config{}, 0.02, 0.06},
		{"a few dozen rows", 40, newClusters(3, 4, 2), Config{}, 0.03, 0.15},
		{"minibatches", 600, newClusters(4, 6, 1.2), Config{Batch: 100, Epochs: 50, Inducing: 32}, 0.03, 0.06},
	} {
		t.Run(c.name, func(t *testing.T) {
			z, labels, _ := c.clusters.draw(c.rows, 2)
			g := fit(t, z, c.clusters.dim, len(c.clusters.centres), labels, c.cfg)
			test, testLabels, truth := c.clusters.draw(2000, 3)
			accuracy, nll := score(predict(g, test), testLabels)
			best, least := score(truth, testLabels)
			t.Logf("accuracy %.3f (true densities %.3f), NLL %.3f (%.3f)", accuracy, best, nll, least)
			if accuracy < best-c.worse || nll > least+c.excess {
				t.Errorf("accuracy %.3f and NLL %.3f, want within %v and %v of %.3f and %.3f", accuracy, nll, c.worse, c.excess, best, least)
			}
		})
	}
}

// TestFarFromData: far from all rows the probabilities are about the class frequencies, not
// those of the nearest class.
func TestFarFromData(t *testing.T) {
	cl := newClusters(3, 2, 3)
	z, labels, _ := cl.draw(60, 2)
	g := fit(t, z, 2, 3, labels, Config{})
	accuracy, _ := score(predict(g, z), labels)
	if accuracy < 0.95 {
		t.Errorf("accuracy %.3f on the training rows, want at least .95", accuracy)
	}
	for _, p := range predict(g, []float32{1e4, 1e4, -1e4, 0, 0, 1e4}) {
		if math.Abs(p-1.0/3) > 0.1 {
			t.Errorf("probability %.3f far from all rows, want 1/3 ± .1", p)
		}
	}
}

// TestNoSignal: if rows are independent of their labels, probabilities are about the class
// frequencies.
func TestNoSignal(t *testing.T) {
	rng := noise()
	var z []float32
	var labels []int32
	for range 200 {
		z = append(z, float32(rng.NormFloat64()))
		labels = append(labels, int32(rng.IntN(4)/3)) // 3 of 4 are class 0
	}
	probs := predict(fit(t, z, 1, 2, labels, Config{}), z)
	var mean float64
	for i := range labels {
		mean += probs[2*i] / float64(len(labels))
	}
	if math.Abs(mean-0.75) > 0.05 {
		t.Errorf("mean probability of class 0 is %.3f, want .75 ± .05", mean)
	}
}

// TestProbabilities: probabilities are positive and sum to 1.
func TestProbabilities(t *testing.T) {
	cl := newClusters(5, 3, 1)
	z, labels, _ := cl.draw(30, 2)
	g := fit(t, z, 3, 5, labels, Config{Epochs: 20})
	probs := predict(g, z)
	for i := range labels {
		var sum float64
		for _, p := range probs[i*5 : (i+1)*5] {
			if !(p > 0) {
				t.Errorf("row %d: probability %v, want it positive", i, p)
			}
			sum += p
		}
		wantClose(t, "sum", []float64{sum}, []float64{1}, 1e-12)
	}
	g.Predict(nil, nil)
}

// TestSameBits: fits and predictions have the same bits whatever the number of processors,
// the other rows of the call and the goroutine. Another seed gives others.
func TestSameBits(t *testing.T) {
	cl := newClusters(9, 70, 0.5)
	z, labels, _ := cl.draw(300, 2)
	cfg := Config{Epochs: 3, Batch: 270, Seed: 7}
	want := predict(fit(t, z, cl.dim, 9, labels, cfg), z)

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	g := fit(t, z, cl.dim, 9, labels, cfg)
	if !slices.Equal(predict(g, z), want) {
		t.Error("a second fit, on one processor, differs")
	}
	runtime.GOMAXPROCS(4)
	done := make(chan []float64)
	for range 2 {
		go func() {
			var each []float64
			for i := range labels {
				each = append(each, predict(g, z[i*cl.dim:(i+1)*cl.dim])...)
			}
			done <- each
		}()
	}
	for range 2 {
		if !slices.Equal(<-done, want) {
			t.Error("rows predicted one by one differ from rows predicted together")
		}
	}
	cfg.Seed = 8
	if slices.Equal(predict(fit(t, z, cl.dim, 9, labels, cfg), z), want) {
		t.Error("another seed gives the same predictions")
	}
}

// TestProgress: every epoch is reported once, and the loss falls.
func TestProgress(t *testing.T) {
	cl := newClusters(3, 2, 3)
	z, labels, _ := cl.draw(50, 2)
	var all []Progress
	_, err := Fit(t.Context(), z, 2, 3, labels, Config{Epochs: 60, Batch: 20}, func(p Progress) { all = append(all, p) })
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 60 || all[59].Epoch != 59 {
		t.Fatalf("%d reports, the last of them %+v, want 60, the last of epoch 59", len(all), all[len(all)-1])
	}
	if first, last := all[0], all[59]; last.Loss > first.Loss/2 || last.Correct < 45 || last.Correct > 50 {
		t.Errorf("first epoch %+v, last %+v, want half the loss and at least 45 of 50 rows correct", first, last)
	}
}

// TestEqualRows: equal rows give fewer inducing points, not an error: their kernel matrix
// would be singular.
func TestEqualRows(t *testing.T) {
	g := fit(t, []float32{2, 2, 2, 2}, 1, 2, []int32{0, 0, 0, 1}, Config{Epochs: 100})
	if g.process.points != 1 {
		t.Errorf("%d inducing points for equal rows, want 1", g.process.points)
	}
	if p := predict(g, []float32{2}); p[0] < 0.5 || p[0] > 0.95 {
		t.Errorf("probability %.3f of the class of 3 in 4 equal rows, want .5 to .95", p[0])
	}
}

// TestErrors: the error for invalid data or settings says what is wrong.
func TestErrors(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name         string
		z            []float32
		dim, classes int
		labels       []int32
		cfg          Config
		want         string
	}{
		{"no rows", nil, 1, 2, nil, Config{}, "no labelled rows"},
		{"one class", []float32{1}, 1, 1, []int32{0}, Config{}, "in 1 classes"},
		{"no dimension", []float32{1}, 0, 2, []int32{0}, Config{}, "dimension 0"},
		{"too few numbers", []float32{1, 2, 3}, 2, 2, []int32{0, 1}, Config{}, "2 labels for 3 numbers"},
		{"too few labels", []float32{1, 2, 3, 4}, 2, 2, []int32{0}, Config{}, "1 labels for 4 numbers"},
		{"label too high", []float32{1, 2}, 1, 2, []int32{0, 2}, Config{}, "label of row 1 is 2"},
		{"label below 0", []float32{1, 2}, 1, 2, []int32{-1, 0}, Config{}, "label of row 0 is -1"},
		{"not a number", []float32{1, 2, 3, nan}, 2, 2, []int32{0, 1}, Config{}, "row 1 has NaN in dimension 1"},
		{"bad numbers", []float32{1}, 1, 2, []int32{0}, Config{Inducing: -1, Epochs: -2, LearningRate: -1}, "epochs are -2"},
		{"bad rate", []float32{1}, 1, 2, []int32{0}, Config{LearningRate: math.NaN()}, "learning rate is NaN"},
		{"rate too high", []float32{1, 2}, 1, 2, []int32{0, 1}, Config{LearningRate: 1e300}, "lower learning rate"},
		{"too many classes", []float32{1}, 1, 1 << 30, []int32{0}, Config{}, "fewer inducing points"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := Fit(t.Context(), c.z, c.dim, c.classes, c.labels, c.cfg, nil)
			if err == nil || g != nil || !strings.HasPrefix(err.Error(), "gp: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestCancel: a fit ends after the epoch in which its context is cancelled, with the cause.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var epochs []int
	_, err := Fit(ctx, []float32{1, 2}, 1, 2, []int32{0, 1}, Config{}, func(p Progress) {
		epochs = append(epochs, p.Epoch)
		if p.Epoch == 2 {
			cancel(enough)
		}
	})
	if !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, epochs); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

// TestPredictPanics: shapes that do not fit the classifier panic.
func TestPredictPanics(t *testing.T) {
	g := fit(t, []float32{1, 2, 3, 4}, 2, 2, []int32{0, 1}, Config{Epochs: 1})
	for _, c := range []struct{ numbers, probs int }{{3, 2}, {4, 2}, {2, 4}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d numbers into %d probabilities: want a panic", c.numbers, c.probs)
				}
			}()
			g.Predict(make([]float32, c.numbers), make([]float64, c.probs))
		}()
	}
}

// wantClose fails unless got is within tol of want, relative to 1 or to want if that is
// larger.
func wantClose(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tol*max(1, math.Abs(want[i]))) {
			t.Errorf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// BenchmarkFit fits as many labelled rows as the paper's streams start from.
func BenchmarkFit(b *testing.B) {
	z, labels, _ := newClusters(7, 32, 0.5).draw(135, 2)
	for b.Loop() {
		if _, err := Fit(b.Context(), z, 32, 7, labels, Config{}, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPredict predicts as many rows as BenchmarkFit fits.
func BenchmarkPredict(b *testing.B) {
	z, labels, _ := newClusters(7, 32, 0.5).draw(135, 2)
	c, err := Fit(b.Context(), z, 32, 7, labels, Config{Epochs: 1}, nil)
	if err != nil {
		b.Fatal(err)
	}
	probs := make([]float64, 135*7)
	for b.Loop() {
		c.Predict(z, probs)
	}
}
