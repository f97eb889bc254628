package gnn

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNormalizer: each kind of normalisation gives its formula for dense and sparse
// vectors, does not change its argument, and reuses memory.
func TestNormalizer(t *testing.T) {
	half := float32(math.Sqrt(0.5))
	for _, c := range []struct {
		kind        Normalization
		x, want     []float32
		keepsSparse bool
	}{
		{NormalizeNone, []float32{2, 0, -2}, []float32{2, 0, -2}, true},
		{normalizeRowL1, []float32{1, 0, 3}, []float32{0.25, 0, 0.75}, true},
		{normalizeRowL1, []float32{0.5, 0, 0.25}, []float32{0.5, 0, 0.25}, true}, // sums below 1 count as 1
		{normalizeRowL1, []float32{0, 0, 0}, []float32{0, 0, 0}, true},
		{NormalizeRowL2, []float32{-3, 0, 3}, []float32{-half, 0, half}, true},
		{NormalizeRowL2, []float32{0, 0, 0}, []float32{0, 0, 0}, true},
		// Training features: means 2, 5, 0; deviations 1, none (so 1), 2.
		{NormalizeStandard, []float32{4, 6, 0}, []float32{2, 1, 0}, false},
	} {
		n, err := FitNormalizer(c.kind, []Vector{{Dense: []float32{1, 5, 2}}, {Dense: []float32{3, 5, -2}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Validate(3); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
		x := Vector{Dense: slices.Clone(c.x)}
		want := Vector{Dense: c.want}
		got := n.Apply(Vector{}, x)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s %v, dense (-want +got)\n%s", c.kind, c.x, d)
		}
		if !slices.Equal(x.Dense, c.x) {
			t.Errorf("%s: the argument was changed to %v", c.kind, x.Dense)
		}
		if c.keepsSparse {
			want = sparse(want)
		}
		// The destination may hold anything from an earlier call.
		storage := Vector{Dense: []float32{7, 7, 7}, Index: []uint32{9, 9}, Value: []float32{7, 7}}
		got = n.Apply(storage, sparse(x))
		if d := cmp.Diff(want.Dense, got.Dense); d != "" || !slices.Equal(got.Index, want.Index) || !slices.Equal(got.Value, want.Value) {
			t.Errorf("%s %v, sparse: got %+v, want %+v", c.kind, c.x, got, want)
		}
	}
}

// TestNormalizerSparseAndDenseSameBits: normalising a vector in sparse and in dense form
// gives the same bits.
func TestNormalizerSparseAndDenseSameBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, kind := range []Normalization{normalizeRowL1, NormalizeRowL2} {
		n := &Normalizer{Kind: kind}
		for range 100 {
			x := randomVector(rng, 30, 0.3)
			dense, thin := n.Apply(Vector{}, x), n.Apply(Vector{}, sparse(x))
			if !slices.Equal(sparse(dense).Value, thin.Value) {
				t.Fatalf("%s: dense %v, sparse %v", kind, dense, thin)
			}
		}
	}
}

// TestNormalizerRefuses: training features and parameters with which no vector can be
// normalised are errors.
func TestNormalizerRefuses(t *testing.T) {
	for _, c := range []struct {
		kind Normalization
		x    []Vector
		want string
	}{
		{"minmax", nil, "not one of"},
		{NormalizeStandard, nil, "no nodes"},
		{NormalizeStandard, []Vector{{Index: []uint32{1}, Value: []float32{1}}}, "choose"},
		{NormalizeStandard, []Vector{{Dense: []float32{1}}, {Dense: []float32{1, 2}}}, "want 1"},
		{NormalizeStandard, []Vector{{Dense: []float32{float32(math.NaN())}}}, "mean NaN"},
	} {
		if _, err := FitNormalizer(c.kind, c.x); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.kind, err, c.want)
		}
	}
	for _, n := range []Normalizer{
		{},
		{Kind: normalizeRowL1, Mean: []float32{1, 2}, Std: []float32{1, 1}},
		{Kind: NormalizeStandard, Mean: []float32{1}, Std: []float32{1}},
		{Kind: NormalizeStandard, Mean: []float32{1, 2}, Std: []float32{1, 0}},
	} {
		if err := n.Validate(2); err == nil {
			t.Errorf("%+v: want an error", n)
		}
	}
}

// TestRanks: a feature that is not about normal is its rank's log odds, which are nearly the same on any scale; one that is, or
// that has two values, is standardised as ever, and so are all where each is.
func TestRanks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 400
	fit := func(scale func(float64) float64, draw ...func(i int) float64) (*Normalizer, []Vector) {
		x := make([]Vector, n)
		for i := range x {
			for _, d := range draw {
				x[i].Dense = append(x[i].Dense, float32(scale(d(i))))
			}
		}
		f, err := FitNormalizer(NormalizeRanks, x)
		if err == nil {
			err = f.Validate(len(draw))
		}
		if err != nil {
			t.Fatal(err)
		}
		return f, x
	}
	skewed := make([]float64, n)
	for i := range skewed {
		skewed[i] = math.Exp(rng.NormFloat64())
	}
	normal := func(i int) float64 { return 5 + math.Log(skewed[i]) }
	amount := func(i int) float64 { return skewed[i] }
	two := func(i int) float64 { return float64(i % 7 / 6) }
	same := func(int) float64 { return 3 }
	plain := func(x float64) float64 { return x }

	if f, _ := fit(plain, normal, two, same); f.Kind != NormalizeStandard || f.Of != nil || f.Ranked() != nil {
		t.Errorf("features about normal are normalised by %s", f.Kind)
	}
	f, x := fit(plain, normal, two, same, amount)
	if f.Ranked() != f || f.Of[0].Knots != nil || f.Of[1].Knots != nil || f.Of[2].Knots == nil || f.Of[3].Knots == nil {
		t.Errorf("normalised by %s: %+v, want ranks of what is not normal, and of what nothing is known of", f.Kind, f.Of)
	}
	if u := f.Usual(3); u < .8 || u > 1.25 {
		t.Errorf("the usual amount is %v, want the median, about 1", u)
	}
	for name, scale := range map[string]func(float64) float64{
		"x³": func(x float64) float64 { return x * x * x }, "exp": math.Exp, "ln": func(x float64) float64 { return math.Log(x + .001) },
	} {
		g, y := fit(scale, normal, two, same, amount)
		var square float64
		for i := range x {
			a, b := f.Apply(Vector{}, x[i]).Dense, g.Apply(Vector{}, y[i]).Dense
			square += float64((a[3]-b[3])*(a[3]-b[3])) / n
			if a[2] != 0 || b[2] != 0 || a[3] != f.Deviations(3, x[i].Dense[3]) {
				t.Fatalf("row %d is %v and %v", i, a, b)
			}
		}
		if off := math.Sqrt(square); name != "ln" && off > .05 {
			t.Errorf("%s: amounts are off by %.3f standard deviations", name, off)
		}
	}
	if f, _ := fit(plain, same, amount); f.Deviations(0, 4) <= 0 || f.Deviations(0, 4) != f.Deviations(0, 400) {
		t.Errorf("beyond a feature that never varied: %v and %v", f.Deviations(0, 4), f.Deviations(0, 400))
	}
	wide := make([]Vector, 3)
	for i := range wide {
		wide[i].Dense = slices.Repeat([]float32{float32(100 * i * i * i)}, mostRanked+1)
	}
	if f, err := FitNormalizer(NormalizeRanks, wide); err != nil || f.Kind != NormalizeStandard {
		t.Errorf("%d features are normalised by %v (%v), and no table has so many", mostRanked+1, f, err)
	}
}
