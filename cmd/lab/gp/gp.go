package gp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
)

// Config holds the constants of a fit. The zero value is a good choice for up to a few
// thousand rows. For more, set Batch, to 1000 say, and fewer Epochs: what counts is the
// number of steps, which should be at least 300.
type Config struct {
	Inducing     int     // inducing points, at most; 0 for 64. There are never more than distinct rows
	Samples      int     // of the expected log likelihood; 0 for 10. An even number is pairs ±ε
	Epochs       int     // 0 for 300
	Batch        int     // rows per step; 0 for all
	LearningRate float64 // Adam's at the start; it falls to 0 along a cosine; 0 for 0.1
	Seed         uint64  // of starting points, batches and samples
}

// withDefaults returns the configuration with zeros replaced by defaults, or an error that
// lists everything that is out of range.
func (c Config) withDefaults(rows int) (Config, error) {
	var errs []error
	for _, f := range []struct {
		name  string
		value *int
		usual int
	}{
		{"inducing points", &c.Inducing, 64},
		{"samples", &c.Samples, 10},
		{"epochs", &c.Epochs, 300},
		{"rows a step", &c.Batch, rows},
	} {
		if *f.value < 0 {
			errs = append(errs, fmt.Errorf("%s are %d, want at least 1, or 0 for %d", f.name, *f.value, f.usual))
		}
		if *f.value == 0 {
			*f.value = f.usual
		}
	}
	if c.LearningRate == 0 {
		c.LearningRate = 0.1
	}
	if !(c.LearningRate > 0) || math.IsInf(c.LearningRate, 0) {
		errs = append(errs, fmt.Errorf("learning rate is %v, want a positive number, or 0 for 0.1", c.LearningRate))
	}
	c.Inducing = min(c.Inducing, rows)
	c.Batch = min(c.Batch, rows)
	return c, errors.Join(errs...)
}

// Progress describes a finished epoch.
type Progress struct {
	Epoch   int     // from 0
	Loss    float64 // negative ELBO per row, nats: the mean over the epoch's steps, each before it is taken
	Correct int     // rows whose latent means are largest at their label
}

// Classifier is a fitted classifier. It never changes, so any number of goroutines may use
// it at once.
type Classifier struct {
	standard standard
	process  *process
	normals  []float64 // of the predictive: samples × classes
}

// Fit fits a classifier to the labelled rows z, len(labels)×dim row-major. It
// standardises every dimension by the rows' mean and standard deviation, starts
// the inducing points at distinct rows (k-means++), the kernel at the middle of
// its prior and q at the inducing variables' prior. It calls progress, if not
// nil, after every epoch.
//
// It returns an error if shapes, labels or configuration are invalid, if a row is not
// finite, if the bound or the kernel matrix becomes infinite or singular, and the cause
// of ctx within one step of its cancellation.
func Fit(ctx context.Context, z []float32, dim, classes int, labels []int32, cfg Config, progress func(Progress)) (*Classifier, error) {
	cfg, err := cfg.withDefaults(len(labels))
	if err == nil {
		err = checkRows(z, dim, classes, labels)
	}
	if err == nil {
		err = checkSize(cfg, dim, classes)
	}
	if err != nil {
		return nil, fmt.Errorf("gp: %w", err)
	}

	n := len(labels)
	s := newStandard(z, dim)
	x := matrix(n, dim)
	for i := range n {
		s.row(rowOf(x, i), z, i)
	}
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x67700001))
	prior := newHyperprior(medianDistance(x))
	p := start(x, classes, prior, cfg.Inducing, rng)

	b := newBound(n, cfg.Batch, cfg.Samples, logFrequencies(labels, classes), p)
	if err := b.maximise(ctx, x, labels, prior, cfg, rng, progress); err != nil {
		return nil, fmt.Errorf("gp: %w", err)
	}
	return &Classifier{standard: s, process: b.at, normals: normals(256, classes)}, nil
}

// Predict writes the class probabilities of the rows z to probs, n×C: the
// softmax averaged over q(f) at 512 fixed quasi-random points, so that a row's
// probabilities depend only on the row. The rows must be finite.
func (c *Classifier) Predict(z []float32, probs []float64) {
	dim, classes := c.process.dim, c.process.classes
	n := len(z) / dim
	if len(z)%dim != 0 || len(probs) != n*classes {
		panic(fmt.Sprintf("gp: %d numbers in rows of dimension %d into %d probabilities of %d classes", len(z), dim, len(probs), classes))
	}
	m := newMarginals(min(n, chunk), c.process)
	likelihood := newSoftmax(classes, 0)
	for lo := 0; lo < n; lo += chunk {
		hi := min(lo+chunk, n)
		m.resize(hi - lo)
		for i := lo; i < hi; i++ {
			c.standard.row(rowOf(m.x, i-lo), z, i)
		}
		c.process.at(m)
		for i := lo; i < hi; i++ {
			likelihood.average(rowOf(m.mean, i-lo), rowOf(m.variance, i-lo), c.normals, probs[i*classes:(i+1)*classes])
		}
	}
}

// checkRows returns an error if rows and labels are not valid.
func checkRows(z []float32, dim, classes int, labels []int32) error {
	n := len(labels)
	switch {
	case dim < 1 || classes < 2:
		return fmt.Errorf("rows of dimension %d in %d classes, want at least 1 and 2", dim, classes)
	case n == 0:
		return errors.New("no labelled rows, want at least 1")
	case len(z)/dim != n || len(z)%dim != 0:
		return fmt.Errorf("%d labels for %d numbers in rows of dimension %d", n, len(z), dim)
	}
	for i, y := range labels {
		if y < 0 || int(y) >= classes {
			return fmt.Errorf("label of row %d is %d, want 0 to %d", i, y, classes-1)
		}
	}
	for i, x := range z {
		if x := float64(x); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("row %d has %v in dimension %d, want finite numbers", i/dim, x, i%dim)
		}
	}
	return nil
}

// checkSize returns an error if parameters or scratch memory would take more than half a
// GiB; training holds about six arrays of that size.
func checkSize(cfg Config, dim, classes int) error {
	const most = 1 << 26
	m := float64(cfg.Inducing)
	if size := m*float64(classes)*max(m, chunk) + m*float64(dim); size > most {
		return fmt.Errorf("%d inducing points of dimension %d in %d classes take %.0f numbers, want at most %d: use fewer inducing points", cfg.Inducing, dim, classes, size, most)
	}
	return nil
}

// start returns the starting parameters: q at the prior of the inducing variables, the
// kernel at the centre of its prior.
func start(x blas64.General, classes int, prior hyperprior, most int, rng *rand.Rand) *params {
	points := spread(x, most, rng)
	p := newParams(len(points), x.Cols, classes) // zeros are q = N(0, I): L's diagonal is of logarithms
	for j, point := range points {
		copy(rowOf(p.inducing, j), point)
	}
	copy(p.kernel, prior.centre[:])
	return p
}

// logFrequencies returns the logarithm of each class's share of the labels, with one more
// label of each class.
func logFrequencies(labels []int32, classes int) []float64 {
	count := make([]float64, classes)
	for _, y := range labels {
		count[y]++
	}
	for c, n := range count {
		count[c] = math.Log((n + 1) / float64(len(labels)+classes))
	}
	return count
}
