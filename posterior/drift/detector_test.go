package drift

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// shifted draws a row of normal numbers with the given mean.
func shifted(rng *rand.Rand, dim int, mean float64) []float32 {
	x := make([]float32, dim)
	for j := range x {
		x[j] = float32(rng.NormFloat64() + mean)
	}
	return x
}

// smallMMD is a configuration with which a test needs few rows.
func smallMMD(dim int) mmdConfig {
	return mmdConfig{Dim: dim, Features: 32, Reference: 256, Block: 32, FalseAlarms: 0.01, InARow: 1, Seed: 3}
}

// TestADWINFollowsTheMean: ADWIN fires soon after the mean has changed and not before, and
// its window then has the new mean.
func TestADWINFollowsTheMean(t *testing.T) {
	a, rng, fired := NewADWIN(DefaultADWIN()), rand.New(rand.NewPCG(1, 2)), 0
	for i := range 4000 {
		if a.Add(rng.NormFloat64() + 2*float64(i/2000)) {
			fired++
			if i < 2000 || i > 2500 {
				t.Errorf("fires at %d, want between 2000 and 2500 only", i)
			}
		}
	}
	if fired == 0 || math.Abs(a.Mean()-2) > 0.1 || a.Width() < 1500 || a.Width() > 2050 {
		t.Errorf("%d drifts, then mean %v of %d values, want at least one, then mean 2 of about 2000", fired, a.Mean(), a.Width())
	}
}

// TestADWINBuckets: the sums of the buckets are those of the values in the window, and the
// number of sizes is logarithmic in their number.
func TestADWINBuckets(t *testing.T) {
	cfg := DefaultADWIN()
	cfg.Delta = 1e-300
	a, rng := NewADWIN(cfg), rand.New(rand.NewPCG(1, 2))
	var values []float64
	for range 5000 {
		x := rng.NormFloat64() + 3
		values = append(values, x)
		a.Add(x)
	}
	var mean, squares float64
	for _, x := range values {
		mean += x / float64(len(values))
	}
	for _, x := range values {
		squares += (x - mean) * (x - mean)
	}
	if a.Width() != 5000 || math.Abs(a.Mean()-mean) > 1e-9 || math.Abs(a.sum.squares-squares) > 1e-6 {
		t.Errorf("width %d, mean %v, squares %v; want 5000, %v, %v", a.Width(), a.Mean(), a.sum.squares, mean, squares)
	}
	if len(a.rows) > 11 {
		t.Errorf("%d sizes of buckets, want at most 11", len(a.rows))
	}
}

// TestFalseAlarmsAreAsStated: of blocks with the distribution of the reference, the
// configured share fires, on average over many references.
func TestFalseAlarmsAreAsStated(t *testing.T) {
	const references, blocks = 60, 100
	cfg := smallMMD(4)
	cfg.FalseAlarms = 0.05
	rng := rand.New(rand.NewPCG(5, 6))
	fired := 0
	for seed := range uint64(references) {
		cfg.Seed = seed
		e := newMMD(cfg)
		for range cfg.Reference + blocks*cfg.Block {
			if e.Add(shifted(rng, 4, 0)) {
				fired++
				e.done = false // keep the reference
			}
		}
		if got := e.Last().Blocks; got != blocks {
			t.Fatalf("%d blocks were compared, want %d", got, blocks)
		}
	}
	share := float64(fired) / (references * blocks)
	t.Logf("%.4f of blocks fire", share)
	if share < 0.03 || share > 0.07 {
		t.Errorf("a share of %.4f of blocks fires, want .05 ± .02", share)
	}
}

// TestMMDSeesAShift: the detector fires within a few blocks of a shift of the mean.
// Afterwards it compares with a new reference.
func TestMMDSeesAShift(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	cfg := smallMMD(16)
	cfg.FalseAlarms = 0.001
	m, fired := newMMD(cfg), -1
	for i := range 2000 {
		mean := 0.
		if i >= 1000 {
			mean = 0.4
		}
		if m.Add(shifted(rng, 16, mean)) && fired < 0 {
			fired = i
		}
	}
	if fired < 1000 || fired > 1000+4*cfg.Block {
		t.Errorf("fires at %d for a shift at 1000, want within %d rows", fired, 4*cfg.Block)
	}
	if c := m.Last(); c.Threshold <= 0 || c.MMD > c.Threshold {
		t.Errorf("last comparison %+v, want it below the threshold of the new reference", c)
	}
}

// TestMMDInARow: where two blocks in a row are asked for, one by itself is no drift.
func TestMMDInARow(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	cfg := smallMMD(16)
	cfg.FalseAlarms, cfg.InARow = 0.001, 2
	m := newMMD(cfg)
	far := map[int]bool{2: true, 5: true, 6: true} // blocks
	for block := range 8 {
		rows, mean, drift := cfg.Block, 0., false
		if block == 0 {
			rows += cfg.Reference
		}
		if far[block] {
			mean = 1
		}
		for range rows {
			drift = drift || m.Add(shifted(rng, 16, mean))
		}
		if drift != (block == 6) {
			t.Errorf("block %d: drift %v", block, drift)
		}
	}
}

// TestMMDSeesAChangeOfSpread: the detector fires when the spread changes and the mean does
// not.
func TestMMDSeesAChangeOfSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	cfg := smallMMD(8)
	m, late := newMMD(cfg), 0
	for i := range 2000 {
		x := shifted(rng, 8, 0)
		if i >= 1000 {
			for j := range x {
				x[j] *= 2
			}
		}
		if m.Add(x) && i >= 1000 {
			late++
		}
		m.done = false // keep the reference
	}
	if late < 25 {
		t.Errorf("%d of 31 blocks fire, want at least 25", late)
	}
}

// TestConstantRowsNeverFire: rows that are all the same are not a change, though the
// reference has no spread.
func TestConstantRowsNeverFire(t *testing.T) {
	e := newMMD(smallMMD(2))
	for range 2000 {
		if e.Add([]float32{1, 2}) {
			t.Fatal("the detector fires on constant rows")
		}
	}
}

// TestCosine compares cosine with math.Cos.
func TestCosine(t *testing.T) {
	for turns := -40.; turns < 40; turns += 0.0037 {
		if got, want := cosine(turns), math.Cos(2*math.Pi*turns); math.Abs(got-want) > 1e-11 {
			t.Fatalf("cosine(%v) = %v, want %v", turns, got, want)
		}
	}
}

// TestFeaturesMakeAGaussianKernel: the inner product of random features approximates the
// Gaussian kernel.
func TestFeaturesMakeAGaussianKernel(t *testing.T) {
	cfg := smallMMD(3)
	cfg.Features = 1 << 14
	m := newMMD(cfg)
	rng := rand.New(rand.NewPCG(9, 9))
	for range 10 {
		x, y := shifted(rng, 3, 0), shifted(rng, 3, 0)
		fx, fy := make([]float64, cfg.Features), make([]float64, cfg.Features)
		m.add(fx, x, 1)
		m.add(fy, y, 1)
		var dot, d float64
		for k := range fx {
			dot += fx[k] * fy[k]
		}
		for j := range x {
			d += math.Pow(float64(x[j])-float64(y[j]), 2)
		}
		if want := math.Exp(-d / 2); math.Abs(dot-want) > 0.03 {
			t.Errorf("inner product %v at a squared distance of %v, want %v", dot, d, want)
		}
	}
}

// detector watches a stream of values of type X.
type detector[X any] interface {
	Add(x X) (drift bool)
	AppendState(b []byte) []byte
	SetState(b []byte) error
}

// resumes runs a stream through one detector, and through another whose state is saved and
// restored at random places. Both must fire at the same values and have the same states,
// and damaged states must be errors that change nothing.
func resumes[X any](t *testing.T, fresh func() detector[X], next func(i int) X) {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	whole, carried, drifts := fresh(), fresh(), 0
	for i := range 3000 {
		x := next(i)
		a, b := whole.Add(x), carried.Add(x)
		if a != b {
			t.Fatalf("value %d: fires %v, but %v after restoring", i, a, b)
		}
		if a {
			drifts++
		}
		if a || rng.IntN(50) == 0 {
			state := whole.AppendState(nil)
			if !bytes.Equal(state, carried.AppendState(nil)) {
				t.Fatalf("value %d: states differ", i)
			}
			for _, bad := range [][]byte{state[:len(state)-1], state[:len(state)/2], append(bytes.Clone(state), 0), nil} {
				if carried.SetState(bad) == nil {
					t.Fatalf("value %d: SetState accepts %d bytes, want %d", i, len(bad), len(state))
				}
			}
			if !bytes.Equal(state, carried.AppendState(nil)) {
				t.Fatal("a refused state changed the detector")
			}
			carried = fresh()
			if err := carried.SetState(state); err != nil {
				t.Fatal(err)
			}
		}
	}
	if drifts == 0 {
		t.Error("the stream has no drift: the test shows nothing of resuming after one")
	}
}

// TestStateResumes: every detector goes on from a restored state as if it had not been
// stopped.
func TestStateResumes(t *testing.T) {
	numbers := func() func(int) float64 {
		rng := rand.New(rand.NewPCG(1, 2))
		return func(i int) float64 { return rng.NormFloat64() + 2*float64(i/700) }
	}
	resumes(t, func() detector[float64] { return NewADWIN(DefaultADWIN()) }, numbers())
	rng := rand.New(rand.NewPCG(1, 2))
	resumes(t, func() detector[[]float32] { return newMMD(smallMMD(3)) }, func(i int) []float32 {
		return shifted(rng, 3, float64(i/700))
	})
}

// FuzzSetState: SetState does not panic. A detector that accepts a state saves the same
// bytes and can go on.
func FuzzSetState(f *testing.F) {
	cfg := mmdConfig{Dim: 2, Features: 2, Reference: 8, Block: 2, FalseAlarms: 0.5, InARow: 1}
	a, e, m := NewADWIN(DefaultADWIN()), newMMD(cfg), NewMonitor()
	for i := range 30 {
		for _, state := range [][]byte{a.AppendState(nil), e.AppendState(nil), m.AppendState(nil)} {
			f.Add(state)
		}
		a.Add(float64(i))
		e.Add([]float32{float32(i), 1})
		m.Serve(0.5)
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		accepts := func(set func([]byte) error, get func([]byte) []byte) bool {
			if set(state) != nil {
				return false
			}
			if !bytes.Equal(get(nil), state) {
				t.Error("an accepted state is saved as other bytes")
			}
			return true
		}
		if a := NewADWIN(DefaultADWIN()); accepts(a.SetState, a.AppendState) {
			for i := range 100 {
				a.Add(float64(i))
			}
		}
		if e := newMMD(cfg); accepts(e.SetState, e.AppendState) {
			for range 20 {
				e.Add([]float32{1, 2})
			}
		}
		m := NewMonitor()
		accepts(m.SetState, m.AppendState)
	})
}

// TestMisusePanics: a row of another dimension panics.
func TestMisusePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewMMD(2).Add([]float32{1})
}

// BenchmarkAdd measures one value or row, and the fit of a threshold when a reference is
// full.
func BenchmarkAdd(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	b.Run("adwin", func(b *testing.B) {
		a := NewADWIN(DefaultADWIN())
		for b.Loop() {
			a.Add(rng.NormFloat64())
		}
	})
	b.Run("embeddings", func(b *testing.B) {
		m, x := NewMMD(64), shifted(rng, 64, 0)
		for range 1024 {
			m.Add(shifted(rng, 64, 0))
		}
		b.ReportAllocs()
		for b.Loop() {
			m.Add(x)
			m.done = false
		}
	})
	b.Run("threshold", func(b *testing.B) {
		m := NewMMD(64)
		for range 511 {
			m.Add(shifted(rng, 64, 0))
		}
		m.reference = append(m.reference, shifted(rng, 64, 0))
		for b.Loop() {
			m.fit()
		}
	})
}
