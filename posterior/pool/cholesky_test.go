package pool

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// TestCholesky: factors and solutions are those of gonum's LAPACK, to the bit on amd64,
// where recorded streams were served with it. They are the same bits on every machine.
func TestCholesky(t *testing.T) {
	near := func(x, y float64) bool { return x == y }
	if runtime.GOARCH != "amd64" {
		near = func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*(math.Abs(x)+math.Abs(y)) }
	}
	rng := rand.New(rand.NewPCG(1, 2))
	hash := crc32.NewIEEE()
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 13, 48, 63, 64, 65, 100, 128, 131, 200} {
		m, b := positiveDefinite(rng, n), make([]float64, n)
		for i := range b {
			b[i] = rng.Float64() - 0.5
		}

		want, wantX := slices.Clone(m), slices.Clone(b)
		triangle := blas64.Symmetric{N: n, Stride: max(n, 1), Uplo: blas.Upper, Data: want}
		if u, ok := lapack64.Potrf(triangle); ok {
			lapack64.Potrs(u, blas64.General{Rows: n, Cols: 1, Stride: 1, Data: wantX})
		} else {
			t.Fatalf("n = %d: LAPACK does not factorise", n)
		}

		var c cholesky
		if !c.factorize(m, n) {
			t.Fatalf("n = %d: does not factorise", n)
		}
		c.solve(b)
		if !slices.EqualFunc(c.factor, want, near) {
			t.Errorf("n = %d: another factor than LAPACK's", n)
		}
		if !slices.EqualFunc(b, wantX, near) {
			t.Errorf("n = %d: another solution than LAPACK's", n)
		}
		binary.Write(hash, binary.LittleEndian, b)
	}
	if got, want := hash.Sum32(), uint32(0x82a86edd); got != want {
		t.Errorf("the solutions' bits have the hash %#x, want %#x, as on every machine", got, want)
	}
}

// TestCholeskyIndefinite: a matrix that is not positive definite, or holds NaN, is not
// factorised.
func TestCholeskyIndefinite(t *testing.T) {
	for _, m := range [][]float64{{0}, {-1}, {math.NaN()}, {1, 2, 0, 1}, {1, 1, 0, 1}, {1, math.NaN(), 0, 1}} {
		var c cholesky
		if n := int(math.Sqrt(float64(len(m)))); c.factorize(m, n) {
			t.Errorf("%v is factorised", m)
		}
	}
}

// positiveDefinite returns the upper triangle of I + Σ vvᵀ for n random vectors v.
func positiveDefinite(rng *rand.Rand, n int) []float64 {
	m, v := make([]float64, n*n), make([]float64, n)
	for range n {
		for i := range v {
			v[i] = rng.Float64() - 0.5
		}
		for i := range n {
			for j := i; j < n; j++ {
				m[i*n+j] += float64(v[i] * v[j])
			}
		}
	}
	for i := range n {
		m[i*n+i]++
	}
	return m
}
