package conformal

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The simulation: ten Gaussian classes in six dimensions. They are predicted by their
// posterior at the start, with logits 1.5 times too large, which is never updated. After
// the warm-up the centre of each class moves in a direction of its own: steadily, or at
// once in the middle of the stream.
const (
	simClasses = 10
	simDim     = 6
	simBatches = 100
	simBatch   = 57
	simWarmup  = 1000
)

// simulated is a simulated stream: the warm-up and then the batches.
type simulated struct {
	probs  []float64
	labels []int32
}

// rows returns the rows from lo to hi with their labels.
func (s *simulated) rows(lo, hi int) (Rows, []int32) {
	id := make([]uint64, hi-lo)
	for i := range id {
		id[i] = uint64(lo + i)
	}
	return Rows{Probs: s.probs[lo*simClasses : hi*simClasses], ID: id}, s.labels[lo:hi]
}

// simulate draws a stream with the given drift: none, gradual or abrupt.
func simulate(drift string, seed uint64) *simulated {
	rng := rand.New(rand.NewPCG(seed, 9))
	vector := func(length float64) (v [simDim]float64) {
		var sum float64
		for j := range v {
			v[j] = rng.NormFloat64()
			sum += v[j] * v[j]
		}
		for j := range v {
			v[j] *= length / math.Sqrt(sum)
		}
		return v
	}
	var centre, direction [simClasses][simDim]float64
	for c := range centre {
		centre[c], direction[c] = vector(2.4), vector(1)
	}
	s := &simulated{}
	for i := range simWarmup + simBatches*simBatch {
		at := float64(i-simWarmup) / (simBatches * simBatch)
		moved := 0.
		switch {
		case drift == "gradual" && at > 0:
			moved = 2 * at
		case drift == "abrupt" && at >= 0.5:
			moved = 1.3
		}
		y := rng.IntN(simClasses)
		var x [simDim]float64
		for j := range x {
			x[j] = centre[y][j] + moved*direction[y][j] + rng.NormFloat64()
		}
		var p [simClasses]float64
		var total float64
		for c := range p {
			var logit float64
			for j, x := range x {
				logit += x*centre[c][j] - centre[c][j]*centre[c][j]/2
			}
			p[c] = math.Exp(1.5 * logit)
			total += p[c]
		}
		for _, p := range p {
			s.probs = append(s.probs, p/total)
		}
		s.labels = append(s.labels, int32(y))
	}
	return s
}

// serve runs the stream with labels that come a number of batches late, and returns the
// coverage in its second half.
func (s *simulated) serve(cfg Config, delay int) (half Coverage) {
	p := New(cfg)
	p.calibrate(s.rows(0, simWarmup))
	var covered [simBatches][]bool
	batch := func(b int) (Rows, []int32) { return s.rows(simWarmup+b*simBatch, simWarmup+(b+1)*simBatch) }
	for b := range simBatches {
		rows, labels := batch(b)
		for i, set := range p.Sets(rows) {
			var c Coverage
			covered[b] = append(covered[b], c.Add(set, labels[i]))
			if b >= simBatches/2 {
				half.Merge(c)
			}
		}
		if b >= delay {
			rows, labels := batch(b - delay)
			p.Learn(rows, labels, covered[b-delay])
		}
	}
	return half
}

// TestCoverageHoldsUnderDriftAndDelay: coverage of the second half is within two points of
// 90 % on each of eight streams. go test -v prints the table.
func TestCoverageHoldsUnderDriftAndDelay(t *testing.T) {
	const seeds = 8
	// The default constants were chosen on seeds 0 to 29.
	const firstSeed = 100
	t.Logf("%-8s %5s  %-26s", "drift", "late", "covered, classes")
	for _, drift := range []string{"none", "gradual", "abrupt"} {
		var streams []*simulated
		for seed := range uint64(seeds) {
			streams = append(streams, simulate(drift, firstSeed+seed))
		}
		for _, delay := range []int{0, 1, 10} {
			var all Coverage
			least, most := 1., 0.
			for _, stream := range streams {
				half := stream.serve(DefaultConfig(simClasses), delay)
				least, most = min(least, half.Rate()), max(most, half.Rate())
				all.Merge(half)
			}
			t.Logf("%-8s %5d  %.3f (%.3f-%.3f) %5.2f", drift, delay, all.Rate(), least, most, all.MeanSize())
			if least < 0.88 || most > 0.92 {
				t.Errorf("%s drift, %d batches late: coverage %.3f, by stream from %.3f to %.3f, want .9 ± .02", drift, delay, all.Rate(), least, most)
			}
		}
	}
}

// TestVeryLateLabels: labels that come 40 batches late do not make the sets empty or full.
func TestVeryLateLabels(t *testing.T) {
	for seed := range uint64(4) {
		if half := simulate("gradual", seed).serve(DefaultConfig(simClasses), 40); half.MeanSize() < 1 || half.MeanSize() > 5 || half.Rate() < 0.8 {
			t.Errorf("seed %d: mean size %v and coverage %v, want 1 to 5 classes and at least .8", seed, half.MeanSize(), half.Rate())
		}
	}
}
