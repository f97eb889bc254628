package conformal

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// calibrated draws rows with ids from the given one on, and their labels from the
// probabilities of the rows.
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

// TestImpute: before any label, the sets of a calibrated model have the stated coverage.
// Imputed scores of rows served after the latest labelled one stay, and of older rows as
// many as are needed for Config.Impute scores in all.
func TestImpute(t *testing.T) {
	cfg := DefaultConfig(4)
	cfg.Impute = 50
	var seen Coverage
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cfg.Seed = seed
		p := New(cfg)
		rows, _ := calibrated(rng, 0, 200)
		p.Impute(rows)
		if c := &p.cells[0]; len(c.rows) != 200 || len(c.window) != 0 {
			t.Fatalf("%d imputed and %d labelled scores after 200 rows without labels, want 200 and 0", len(c.rows), len(c.window))
		}
		fresh, labels := calibrated(rng, 200, 100)
		for i, set := range p.Sets(fresh) {
			seen.Add(set, labels[i])
		}
		p.Impute(fresh)
		for k, want := range map[int]int{10: 290, 100: 200, 180: 120, 280: 20, 300: 0} {
			q := New(cfg)
			q.Impute(rows)
			q.Impute(fresh)
			labelled := Rows{Probs: rows.Probs[4*(min(k, 200)-1):][:4], ID: []uint64{uint64(k - 1)}}
			q.Learn(labelled, []int32{0}, nil)
			// With one labelled score, at least 49 imputed ones stay.
			if c := &q.cells[0]; len(c.rows) != max(want, 49) || len(c.sortedImputed) != len(c.rows) || len(c.window) != 1 {
				t.Fatalf("%d imputed scores after the label of row %d, want %d", len(c.rows), k-1, max(want, 49))
			}
		}
		p.Learn(fresh, labels, nil)
		if c := &p.cells[0]; len(c.rows) != 0 || len(c.window) != 100 {
			t.Fatalf("%d imputed and %d labelled scores after 100 labels, want 0 and 100", len(c.rows), len(c.window))
		}
	}
	if r := seen.Rate(); math.Abs(r-0.9) > 0.025 {
		t.Errorf("coverage %v before any label, want 0.9 ± 0.025", r)
	}
}

// TestImputeState: imputed scores are part of the state. A state without any can be
// restored with imputation off.
func TestImputeState(t *testing.T) {
	cfg := DefaultConfig(4)
	cfg.Impute, cfg.PerClass = 20, true
	rng := rand.New(rand.NewPCG(7, 3))
	p, other := New(cfg), New(cfg)
	rows, labels := calibrated(rng, 0, 30)
	p.Impute(rows)
	p.Learn(Rows{Probs: rows.Probs[:8], ID: rows.ID[:2]}, labels[:2], nil)
	if err := other.SetState(p.AppendState(nil)); err != nil {
		t.Fatal(err)
	}
	p.Learn(rows, labels, nil)
	other.Learn(rows, labels, nil)
	if !bytes.Equal(p.AppendState(nil), other.AppendState(nil)) {
		t.Error("the saved and the restored predictor differ after the same labels")
	}
	few := cfg
	few.Impute = 0
	if err := New(few).SetState(New(cfg).AppendState(nil)); err != nil {
		t.Error(err)
	}
}

// TestGain: the step of the level by a label is at most Gain divided by its lag, so that
// late labels do not make the level oscillate.
func TestGain(t *testing.T) {
	cfg := DefaultConfig(4)
	cfg.Rate, cfg.Gain = 0.05, 0.5
	level := func(lag int) float64 {
		p := New(cfg)
		rng := rand.New(rand.NewPCG(9, 3))
		p.calibrate(calibrated(rng, 0, 100))
		rows, labels := calibrated(rng, 100, 1)
		if lag > 0 {
			rows.Lag = []int{lag}
		}
		p.Learn(rows, labels, []bool{false})
		return p.cells[0].level
	}
	// With α = .1, a miss lowers the level by .9 times the rate.
	for lag, rate := range map[int]float64{0: 0.05, 1: 0.05, 10: 0.05, 20: 0.025, 1000: 0.0005} {
		if got := level(lag); math.Abs(got-(0.1-0.9*rate)) > 1e-12 {
			t.Errorf("lag %d: level %v, want %v", lag, got, 0.1-0.9*rate)
		}
	}
}
