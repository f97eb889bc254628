package conformal

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// calibrated are rows whose labels are drawn from their probabilities.
func calibrated(rng *rand.Rand, from, n int) (rows Rows, labels []int32) {
	for i := range n {
		var p [4]float64
		sum := 0.
		for c := range p {
			p[c] = math.Exp(2 * rng.NormFloat64())
			sum += p[c]
		}
		u, class := rng.Float64()*sum, int32(0)
		for c := range p {
			rows.Probs = append(rows.Probs, p[c]/sum)
			if u >= 0 && u < p[c] {
				class = int32(c)
			}
			u -= p[c]
		}
		rows.ID = append(rows.ID, uint64(from+i))
		labels = append(labels, class)
	}
	return rows, labels
}

// TestBorrow: before any label, sets of a calibrated model cover as they should,
// and labels put borrowed scores out one by one.
func TestBorrow(t *testing.T) {
	cfg := DefaultConfig(4)
	cfg.Borrow = 50
	var seen Coverage
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg.Seed = seed
		p := New(cfg)
		rows, _ := calibrated(rng, 0, 200)
		p.Borrow(rows)
		if c := &p.cells[0]; c.borrowed != 50 || len(c.window) != 50 {
			t.Fatalf("%d borrowed of %d", c.borrowed, len(c.window))
		}
		fresh, labels := calibrated(rng, 200, 100)
		for i, set := range p.Sets(fresh) {
			seen.Add(set, labels[i])
		}
		p.Learn(fresh, labels, nil)
		if c := &p.cells[0]; c.borrowed != 0 || len(c.window) != 100 {
			t.Fatalf("%d borrowed of %d, after 100 labels", c.borrowed, len(c.window))
		}
		p.Borrow(rows)
		if c := &p.cells[0]; c.borrowed != 0 {
			t.Fatal("borrowed though there are labels")
		}
	}
	if r := seen.Rate(); math.Abs(r-0.9) > 0.025 {
		t.Errorf("coverage %v", r)
	}
}

// TestBorrowState: borrowed scores are part of the state.
func TestBorrowState(t *testing.T) {
	cfg := DefaultConfig(4)
	cfg.Borrow, cfg.PerClass = 20, true
	rng := rand.New(rand.NewPCG(7, 3))
	p, other := New(cfg), New(cfg)
	rows, labels := calibrated(rng, 0, 30)
	p.Borrow(rows)
	p.Learn(Rows{Probs: rows.Probs[:8], ID: rows.ID[:2]}, labels[:2], nil)
	if err := other.SetState(p.AppendState(nil)); err != nil {
		t.Fatal(err)
	}
	p.Learn(rows, labels, nil)
	other.Learn(rows, labels, nil)
	if !bytes.Equal(p.AppendState(nil), other.AppendState(nil)) {
		t.Error("other states")
	}
	few := cfg
	few.Borrow = 0
	if err := New(few).SetState(New(cfg).AppendState(nil)); err != nil {
		t.Error(err)
	}
}

// TestGain: what a label changes is bounded by how late it is.
func TestGain(t *testing.T) {
	cfg := DefaultConfig(4)
	cfg.Rate, cfg.Gain = 0.05, 0.5
	level := func(lag int) float64 {
		p := New(cfg)
		rng := rand.New(rand.NewPCG(9, 3))
		p.Calibrate(calibrated(rng, 0, 100))
		rows, labels := calibrated(rng, 100, 1)
		if lag > 0 {
			rows.Lag = []int{lag}
		}
		p.Learn(rows, labels, []bool{false})
		return p.cells[0].level
	}
	// A miss of α = .1 lowers the level by .9 times the rate.
	for lag, rate := range map[int]float64{0: 0.05, 1: 0.05, 10: 0.05, 20: 0.025, 1000: 0.0005} {
		if got := level(lag); math.Abs(got-(0.1-0.9*rate)) > 1e-12 {
			t.Errorf("lag %d: level %v, want %v", lag, got, 0.1-0.9*rate)
		}
	}
}
