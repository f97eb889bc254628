package pool

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The bound on a mixture's loss. Let ℓ_e(t) = -Σ log p_e(y) be the loss of expert e in batch t of T full ones, and ω(t) the shares
// after t batches. The mix loss of a batch is M(t) = -(1/η) ln Σ_e ω_e(t-1) exp(-η ℓ_e(t)).
//
//  1. Let A(t) = -(1/η) ln Σ_e π_e exp(-η D_e(t)), with the discounted loss D_e(t) = λ D_e(t-1) + ℓ_e(t). The shares ω(t-1) belong
//     to λ D(t-1), so M(t) = A(t) + (1/η) ln Σ_e π_e exp(-ηλ D_e(t-1)) ≤ A(t) - λ A(t-1), because Σ π x^λ ≤ (Σ π x)^λ. Summed,
//     Σ M ≤ A(T) + (1-λ) Σ_{t<T} A(t).
//  2. A(t) ≤ D_e(t) + ln(1/π_e)/η for every e. With one e for all t the discounted losses add up to Σ ℓ_e(t):
//     Σ M ≤ Σ_t ℓ_e(t) + [1 + (1-λ)(T-1)] ln(1/π_e)/η. With the best e for each t it is the loss of the best of the discounted
//     past, plus the same.
//  3. Where a row's label comes before the next row is served and η ≤ 1, the mixture's loss is at most M, because x^η is concave.
//  4. Rows served together, or with late labels, were served with older shares ω(s). Let r be the range of ℓ_e(t) over the experts.
//     Their loss is at most Σ ω_e(s) ℓ_e(t) (Jensen), which is at most Σ ω_e(t-1) ℓ_e(t) + r TV(ω(s), ω(t-1)), and that sum is at
//     most M(t) + η r²/8 (Hoeffding). So late labels add at most r(t) [η r(t)/8 + TV(t)] a batch, where TV(t) in [0, 1] is how much
//     the shares moved meanwhile.

// regret is what the bound says of a mixture on a stream:
// what it served, what each expert would have lost, and the two sums of the bound.
type regret struct {
	*mixture
	start  []float64 // ω of the experts at the start
	loss   float64
	losses []float64 // by expert
	// kept is the share that the last batch kept, and forgotten the sum of what those
	// before it did not keep.
	kept, forgotten float64
	// late is what late labels add at most: for each batch η r²/8, where r is the range of
	// its loss over experts, and for each of its rows the range of the row's loss times
	// the total variation by which the shares moved while its label was away.
	late float64
}

// servedRow is a row as it was served.
type servedRow struct {
	said  [][]float32 // by expert
	label int32
	share []float64 // ω of the experts, then
	loss  float64   // of the mixture
}

// newRegret returns a mixture whose experts have random scores at the start.
func newRegret(rng *rand.Rand, cfg mixtureConfig, members, classes int) *regret {
	scores := make([]float64, products+members)
	for e := range scores {
		scores[e] = -10 * rng.Float64()
	}
	r := &regret{mixture: newMixture(cfg, scores, members, classes, false), losses: make([]float64, len(scores)), kept: 1}
	r.start = r.shares()
	return r
}

// serve serves a row with a random label, of which each expert says at random how probable
// it is: mostly a little, and now and then certain and wrong.
func (r *regret) serve(rng *rand.Rand) servedRow {
	row := servedRow{label: rng.Int32N(int32(r.classes)), share: r.shares()}
	for range r.score {
		right := .1 + .8*rng.Float64()
		if rng.IntN(60) == 0 {
			right = 1e-9
		}
		logp := make([]float32, r.classes)
		for c := range logp {
			logp[c] = float32(math.Log((1 - right) / float64(r.classes-1)))
		}
		logp[row.label] = float32(math.Log(right))
		row.said = append(row.said, logp)
	}
	got := make([]float32, r.classes)
	r.predict(1, func(_, e int) []float32 { return row.said[e] }, func(int) []float32 { return got })
	row.loss = -float64(got[row.label])
	return row
}

// learn learns a batch of labels.
func (r *regret) learn(batch []servedRow) {
	r.forgotten += 1 - r.kept
	now, total := r.shares(), make([]float64, len(r.losses))
	spread := func(losses []float64) float64 { return slices.Max(losses) - slices.Min(losses) }
	var labels []int32
	for _, row := range batch {
		losses, variation := make([]float64, len(total)), 0.0
		for e := range losses {
			losses[e] = -float64(row.said[e][row.label])
			variation += math.Abs(now[e]-row.share[e]) / 2
			total[e] += losses[e]
			r.losses[e] += losses[e]
		}
		r.late += spread(losses) * variation
		r.loss += row.loss
		labels = append(labels, row.label)
	}
	r.late += r.Rate * spread(total) * spread(total) / 8
	share := min(1, float64(len(batch))/50)
	r.kept = math.Pow(r.Lambda, share)
	r.mixture.learn(labels, share, nil, func(i, e int) []float32 { return batch[i].said[e] }, nil)
}

// shares returns ω of every expert.
func (r *regret) shares() (list []float64) {
	for e := range r.score {
		list = append(list, r.share(e))
	}
	return list
}

// above returns for how many experts the regret is above the bound of labels at once plus
// what late labels add.
func (r *regret) above(late float64) (broken int) {
	for e, l := range r.losses {
		bound := -(math.Log(r.start[e])+r.forgotten*r.logPrior[e])/r.Rate + late
		if r.loss-l > bound {
			broken++
		}
	}
	return broken
}

// TestRegretOfLateLabels: on random streams, with labels that come in batches of random sizes
// after random delays, the mixture's regret against each expert is never above the bound.
// Without the part of late labels it would be.
func TestRegretOfLateLabels(t *testing.T) {
	without := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(3, seed))
		pick := func(x ...float64) float64 { return x[rng.IntN(len(x))] }
		r := newRegret(rng, mixtureConfig{Heads: pick(.02, .5), Rate: pick(1, .3, .05), Lambda: pick(1, .99, .8)}, 1+rng.IntN(6), 3)
		delay := rng.IntN(300)
		var waiting []servedRow
		for range 300 {
			for range 1 + rng.IntN(40) { // rows that are served together
				waiting = append(waiting, r.serve(rng))
			}
			if n := min(max(0, len(waiting)-delay), 1+rng.IntN(60)); n > 0 { // labels that come together
				r.learn(waiting[:n])
				waiting = waiting[n:]
			}
		}
		if n := r.above(r.late); n > 0 {
			t.Errorf("seed %d, %+v, delay %d: the bound does not hold for %d experts: the mixture lost %.1f, they %.1f", seed, r.mixtureConfig, delay, n, r.loss, r.losses)
		}
		without += r.above(0)
	}
	if without == 0 {
		t.Error("the bound of labels at once holds for all late ones too: the streams are too easy to show anything")
	}
}

// TestRegretOfSlowRate: if at most 1/η rows are served between two updates, the bound is that
// of labels at once, with nothing added.
func TestRegretOfSlowRate(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(5, seed))
		together := 1 + rng.IntN(40)
		r := newRegret(rng, mixtureConfig{Heads: .5, Rate: 1 / float64(together), Lambda: []float64{1, .9}[rng.IntN(2)]}, 3, 3)
		for range 200 {
			var batch []servedRow
			for range 1 + rng.IntN(together) {
				batch = append(batch, r.serve(rng))
			}
			r.learn(batch)
		}
		if n := r.above(0); n > 0 {
			t.Errorf("seed %d, %+v: the bound does not hold for %d experts: the mixture lost %.1f, they %.1f", seed, r.mixtureConfig, n, r.loss, r.losses)
		}
	}
}
