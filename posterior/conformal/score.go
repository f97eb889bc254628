package conformal

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// Kind is the kind of a score.
type Kind uint8

const (
	// LAC is 1 - p(c). It gives the smallest sets on average (Sadinle, Lei & Wasserman
	// 2019).
	LAC Kind = iota
	// APS is the sum of the probabilities of c and of all more probable classes. Its
	// sets grow with the difficulty of the row (Romano, Sesia & Candès 2020).
	APS
	// RAPS is APS with a penalty on low ranks, which makes sets smaller (Angelopoulos
	// et al. 2021).
	RAPS
)

// String returns "lac", "aps" or "raps".
func (k Kind) String() string {
	switch k {
	case LAC:
		return "lac"
	case APS:
		return "aps"
	case RAPS:
		return "raps"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Score measures how badly a class conforms to a row of probabilities.
type Score struct {
	Kind Kind
	// Penalty ≥ 0 is what RAPS adds for every rank beyond Free; ranks count from 1.
	Penalty float64
	Free    int
	// Randomized subtracts u·p(c), u uniform, from APS and RAPS: coverage is then
	// exactly as stated instead of at least, and sets are smaller. LAC is never
	// randomized.
	Randomized bool
}

// Validate reports every field that is out of range, with the remedy.
func (s Score) Validate() error {
	var r check.Remedies
	r.Unless(s.Kind <= RAPS, "score %v: give lac, aps or raps", s.Kind)
	r.Unless(s.Penalty >= 0 && !math.IsInf(s.Penalty, 0), "penalty %v: give 0 or more, such as 0.05", s.Penalty)
	r.Unless(s.Free >= 0, "free ranks %d: give 0 or more, such as 2", s.Free)
	return r.Join()
}

// one returns the score of one class of a row. u is a uniform number, which is read only
// if the score is randomized.
func (s Score) one(probs []float64, class int32, u float64) float64 {
	if s.Kind == LAC {
		return 1 - probs[class]
	}
	var before float64
	rank := 1
	for _, c := range ranked(probs) {
		if c == int(class) {
			break
		}
		before += probs[c]
		rank++
	}
	return s.sum(before, probs[class], rank, u)
}

func (s Score) randomized() bool { return s.Randomized && s.Kind != LAC }

// all writes the score of every class of one row to dst. Of classes with equal
// probabilities the lowest ranks first. If the score is randomized, it calls u for the
// uniform number of every rank, from 0 for the most probable class.
func (s Score) all(dst, probs []float64, u func(rank int) float64) {
	if s.Kind == LAC {
		for c, p := range probs {
			dst[c] = 1 - p
		}
		return
	}
	var before float64
	for rank, c := range ranked(probs) {
		var chance float64
		if s.Randomized {
			chance = u(rank)
		}
		dst[c] = s.sum(before, probs[c], rank+1, chance)
		before += probs[c]
	}
}

// sum returns the score of the class of probability p at a rank, from 1, where the
// classes ranked before it have the probability before together.
func (s Score) sum(before, p float64, rank int, u float64) float64 {
	score := before + p
	if s.Kind == RAPS {
		score += float64(s.Penalty * float64(max(rank-s.Free, 0)))
	}
	if s.Randomized {
		score -= float64(u * p)
	}
	return score
}

// ranked returns the classes by descending probability.
func ranked(probs []float64) []int {
	order := make([]int, len(probs))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(probs[b], probs[a]) })
	return order
}

// Threshold returns the split conformal threshold, the ⌈(n+1)(1-α)⌉-th smallest of n
// scores of labels (Vovk, Gammerman & Shafer 2005). It is infinite if n is less than
// that.
func Threshold(scores []float64, alpha float64) float64 {
	sorted := slices.Clone(scores)
	slices.Sort(sorted)
	return quantile(alpha, sorted, nil)
}

// quantile is Threshold of the scores of two sorted lists together, for any α: the
// threshold is +Inf for α ≤ 0 and -Inf for α ≥ 1.
func quantile(alpha float64, a, b []float64) float64 {
	n := len(a) + len(b)
	if alpha <= 0 {
		return math.Inf(1)
	}
	if alpha >= 1 {
		return math.Inf(-1)
	}
	// ⌈(n+1)(1-α)⌉ = n+1 - ⌊(n+1)α⌋, without the rounding of 1-α.
	switch rank := n + 1 - int(math.Floor(float64(n+1)*alpha)); {
	case rank > n:
		return math.Inf(1)
	case rank < 1:
		return math.Inf(-1)
	default:
		for above := n - rank; ; above-- {
			from := &a
			if len(a) == 0 || len(b) > 0 && last(b) > last(a) {
				from = &b
			}
			if above == 0 {
				return last(*from)
			}
			*from = (*from)[:len(*from)-1]
		}
	}
}
