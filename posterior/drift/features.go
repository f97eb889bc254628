package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// fourier is the kernel with the D features √(2/D) cos(2π(w·x/σ + b)). Angles are in
// turns, so that they are reduced without error.
type fourier struct {
	dim   int
	waves []float64 // w, dim × features; entries approximately N(0, 1/4π²)
	phase []float64 // b, one for each feature, in [0, 1)
	scale float64   // 1/σ

	scaled, turns []float64 // scratch of add: x/σ, and the angles
}

func newFourier(cfg mmdConfig) *fourier {
	rng := rand.New(rand.NewPCG(cfg.Seed, featureStream))
	f := &fourier{
		dim: cfg.Dim, scale: 1,
		waves:  make([]float64, cfg.Dim*cfg.Features),
		phase:  make([]float64, cfg.Features),
		scaled: make([]float64, cfg.Dim), turns: make([]float64, cfg.Features),
	}
	for i := range f.waves {
		f.waves[i] = normal(rng) / (2 * math.Pi)
	}
	for k := range f.phase {
		f.phase[k] = rng.Float64()
	}
	return f
}

// normal returns a sum of twelve uniforms less 6: mean 0, variance 1, and close enough to
// a normal for a kernel's spectrum. rand's own normals use math.Exp, whose bits differ
// between processors.
func normal(rng *rand.Rand) (x float64) {
	for range 12 {
		x += float64(rng.Float64())
	}
	return x - 6
}

// check panics if a row has the wrong dimension.
func (f *fourier) check(x []float32) {
	if len(x) != f.dim {
		panic(fmt.Sprintf("drift: embedding of dimension %d, not %d", len(x), f.dim))
	}
}

// pairRows is the number of rows whose distances give the median, up to twice as many.
const pairRows = 128

// fit sets σ, 1 if more than half of the distances are 0.
func (f *fourier) fit(reference [][]float32) {
	every := max(len(reference)/pairRows, 1)
	var distances []float64
	for i := 0; i < len(reference); i += every {
		for j := 0; j < i; j += every {
			var sum float64
			for k, x := range reference[i] {
				d := float64(x) - float64(reference[j][k])
				sum += float64(d * d)
			}
			distances = append(distances, sum)
		}
	}
	slices.Sort(distances)
	f.scale = 1
	if median := distances[len(distances)/2]; median > 0 {
		f.scale = 1 / math.Sqrt(median)
	}
}

// add adds the features of a row to sum.
func (f *fourier) add(sum []float64, x []float32) {
	for j, x := range x {
		f.scaled[j] = float64(x) * f.scale
	}
	copy(f.turns, f.phase)
	double.AddProduct(f.turns, f.scaled, f.waves, 1, f.dim, len(f.turns))
	height := math.Sqrt(2 / float64(len(f.turns)))
	for k, t := range f.turns {
		sum[k] += float64(height * cosine(t))
	}
}

// sums adds the features of the reference to total, and returns a function that sets sum to
// the sum of the features of the reference's rows with the given indices.
func (f *fourier) sums(total []float64, reference [][]float32) func(sum []float64, rows []int32) {
	width := len(f.phase)
	stride := (width + 7) / 8 * 8 // see posterior.Sparse
	all, some := make([]float64, len(reference)*stride), make([]float64, stride)
	for i, x := range reference {
		row := all[i*stride : i*stride+width]
		f.add(row, x)
		for k, feature := range row {
			total[k] += feature
		}
	}
	ones := slices.Repeat([]float64{1}, len(reference))
	return func(sum []float64, rows []int32) {
		block := double.Sparse{Start: []int{0, len(rows)}, Column: rows, Value: ones[:len(rows)]}
		block.Product(some, all, stride)
		copy(sum, some)
	}
}

// cosine returns cos(2πt) by the Taylor polynomial of the sine about its nearest zero,
// with an error below 1e-11 as long as float64 resolves t to that, and the same bits
// everywhere.
func cosine(t float64) float64 {
	const s3, s5, s7, s9, s11, s13, s15 = -1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800, 1. / 6227020800, -1. / 1307674368000
	x := (0.25 - math.Abs(t-math.RoundToEven(t))) * (2 * math.Pi)
	u := x * x
	return x * (1 + float64(u*(s3+float64(u*(s5+float64(u*(s7+float64(u*(s9+float64(u*(s11+float64(u*(s13+float64(u*s15))))))))))))))
}

// appendRow and row write and read a row, appendFit and setFit the scale.
func (f *fourier) appendRow(b []byte, x []float32) []byte {
	for _, x := range x {
		b = appendNumbers(b, float64(x))
	}
	return b
}

func (f *fourier) row(r *reader) (x []float32, ok bool) {
	if !r.holds(uint64(f.dim)) {
		return nil, false
	}
	x, ok = make([]float32, f.dim), true
	for j := range x {
		wide := r.number()
		x[j] = float32(wide)
		ok = ok && check.Finite(wide) && float64(x[j]) == wide
	}
	return x, ok
}

func (f *fourier) appendFit(b []byte) []byte { return appendNumbers(b, f.scale) }

func (f *fourier) setFit(r *reader) (*fourier, bool) {
	next := *f
	next.scale = r.number()
	next.scaled, next.turns = make([]float64, f.dim), make([]float64, len(f.turns))
	return &next, next.scale > 0 && check.Finite(next.scale)
}
