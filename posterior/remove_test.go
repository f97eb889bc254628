package posterior

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// lessonsOf are rows as q learns them, so many updates ago.
func lessonsOf(q *Gaussian, rows Rows, labels []int32, age uint64) *Lessons {
	l, p := &Lessons{}, make([]float64, q.Classes)
	for i, y := range labels {
		row := rows.part(i, i+1, q.Dim)
		MAP(q, row, p)
		l.Add(row.Z, row.Tau[0], y, p, age)
	}
	return l
}

// TestRemoveLast: taking back some rows of the last batch gives what the batch
// without them would have given; in the precision to the last bits, in the mean up
// to the rows' share of the precision times by how far the batch moved it.
func TestRemoveLast(t *testing.T) {
	for _, cfg := range []Config{
		{Lambda: .9, Eta: 1, Clip: 1e9},
		{Lambda: .95, Eta: .5, Beta: .1, Clip: 1e9, Epsilon: 1e-8},
		{Lambda: .99, Eta: .7, Clip: 1e9, Gradient: AsWritten},
	} {
		t.Run(fmt.Sprint(cfg), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 51))
			prior := randomGaussian(rng, 6, 4)
			for i := range prior.Precision {
				prior.Precision[i] += 20
			}
			with, without := NewOnline(prior, cfg), NewOnline(prior, cfg)
			for range 3 {
				rows, labels := randomRows(rng, 9, 6, 4)
				with.Learn(rows, labels)
				without.Learn(rows, labels)
			}
			rows, labels := randomRows(rng, 9, 6, 4)
			before := with.Posterior().Clone()
			gone := lessonsOf(&before, rows.part(0, 3, 6), labels[:3], 0)
			shares := Collect(&before, rows.part(0, 3, 6), labels[:3], cfg)
			with.Learn(rows, labels)
			learned := with.Posterior().Clone()
			with.Remove(gone)
			without.Learn(rows.part(3, 9, 6), labels[3:])

			got, want := with.Posterior(), without.Posterior()
			wantClose(t, "precision", got.Precision, want.Precision, 1e-12)
			for i := range got.Mean {
				moved := learned.Mean[i] - before.Mean[i]
				share := cfg.Eta * shares.Precision[i] / want.Precision[i]
				if off := math.Abs(got.Mean[i] - want.Mean[i]); off > share*math.Abs(moved)*(1+1e-9)+1e-8 {
					t.Errorf("mean %d is %v, want %v, off by %v where %v is promised", i, got.Mean[i], want.Mean[i], off, share*math.Abs(moved))
				}
				// With what is left out, it is exact.
				if exact := got.Mean[i] + share*moved; math.Abs(exact-want.Mean[i]) > 1e-8 {
					t.Errorf("mean %d is %v with the term left out, want %v", i, exact, want.Mean[i])
				}
			}
			if with.Version() != without.Version() {
				t.Error("taking back counts as an update")
			}
		})
	}
}

// TestRemoveLater: taken back after other batches have come, a row leaves much
// less behind than it had taught, and of the precision what is due to how it
// moved other rows' probabilities alone.
func TestRemoveLater(t *testing.T) {
	cfg := Config{Lambda: .97, Eta: 1, Clip: 1e9, Epsilon: 1e-8}
	rng := rand.New(rand.NewPCG(1, 52))
	prior := randomGaussian(rng, 6, 4)
	for i := range prior.Precision {
		prior.Precision[i] += 20
	}
	with, without := NewOnline(prior, cfg), NewOnline(prior, cfg)
	first, labels := randomRows(rng, 4, 6, 4)
	gone := lessonsOf(&prior, first, labels, 10)
	with.Learn(first, labels)
	for i := range without.q.Precision { // time passes for both
		without.q.Precision[i] *= cfg.Lambda
	}
	for range 10 {
		rows, labels := randomRows(rng, 5, 6, 4)
		with.Learn(rows, labels)
		without.Learn(rows, labels)
	}
	distance := func() (mean, precision float64) {
		for i := range with.q.Mean {
			mean = math.Hypot(mean, with.q.Mean[i]-without.q.Mean[i])
			precision = math.Hypot(precision, with.q.Precision[i]-without.q.Precision[i])
		}
		return mean, precision
	}
	mean, precision := distance()
	with.Remove(gone)
	if m, p := distance(); m > mean/3 || p > precision/2 {
		t.Errorf("off by %v and %v, where it had been by %v and %v", m, p, mean, precision)
	} else {
		t.Logf("mean off by %.3g of %.3g, precision by %.3g of %.3g", m, mean, p, precision)
	}
}

// TestRemoveStaysPositive: whatever is taken back, and however often, no precision
// falls below ε, no entry moves by more than δ, and all stays finite.
func TestRemoveStaysPositive(t *testing.T) {
	for name, cfg := range updateConfigs {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 53))
			o := NewOnline(randomGaussian(rng, 5, 3), cfg)
			for range 20 {
				rows, labels := randomRows(rng, 4, 5, 3)
				gone := lessonsOf(o.Posterior(), rows, labels, uint64(rng.IntN(3)))
				o.Learn(rows, labels)
				for range 5 {
					before := o.Posterior().Clone()
					o.Remove(gone)
					for i := range before.Mean {
						if o.q.Precision[i] < min(cfg.Epsilon, before.Precision[i]) || math.Abs(o.q.Mean[i]-before.Mean[i]) > cfg.Clip*(1+1e-9) {
							t.Fatalf("precision %v, mean %v to %v", o.q.Precision[i], before.Mean[i], o.q.Mean[i])
						}
					}
				}
				if err := o.q.check(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestRemoveNothing(t *testing.T) {
	o := NewOnline(randomGaussian(rand.New(rand.NewPCG(1, 54)), 3, 2), DefaultConfig())
	before := o.Posterior().Clone()
	l := &Lessons{}
	l.Add([]float32{1, 2, 3}, 1, 0, []float64{.5, .5}, 0)
	l.Reset()
	if r := o.Remove(l); r != (Report{}) || l.Len() != 0 {
		t.Errorf("report %+v of nothing", r)
	}
	wantSame(t, "mean", o.q.Mean, before.Mean)
	wantSame(t, "precision", o.q.Precision, before.Precision)
}

func TestPower(t *testing.T) {
	for _, x := range []float64{0, .5, .99, 1} {
		for _, n := range []uint64{0, 1, 2, 7, 1000, math.MaxUint64} {
			if got, want := power(x, n), math.Pow(x, float64(n)); math.Abs(got-want) > 1e-9 {
				t.Errorf("%v to the power of %d is %v, want %v", x, n, got, want)
			}
		}
	}
}
