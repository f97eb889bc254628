package calibration

import (
	"cmp"
	"math"
	"slices"
)

// MuchMajority is the share of a class above which accuracy says next to nothing of the others.
const MuchMajority = 0.9

// Ranking is how well the probabilities of one class rank labels, of all of them and not by bins.
type Ranking struct {
	Labels int     `json:"labels"` // of the class
	AUC    float64 `json:"auc"`    // chance that one of the class has a larger probability than another
	AP     float64 `json:"ap"`     // average precision
	// Recall is the share of the class that is among the 1 % of all labels, at least one, with the largest probabilities.
	Recall float64 `json:"recall_at_1_percent"`
}

// Rank returns the ranking of n labels: p is the probability that one was given of the class, is whether it is the class.
// Equal probabilities are one step. It is not ok unless there are labels of the class and others.
func Rank(n int, p func(i int) float64, is func(i int) bool) (r Ranking, ok bool) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p(b), p(a)) })
	others, first := 0, math.Round(max(float64(n)/100, 1))
	for i := 0; i < n; {
		begin, hits := i, 0
		for at := p(order[i]); i < n && !(p(order[i]) < at); i++ {
			if is(order[i]) {
				hits++
			}
		}
		step := i - begin
		r.AUC += float64(float64(step-hits) * (float64(r.Labels) + float64(float64(hits)/2)))
		r.Labels, others = r.Labels+hits, others+step-hits
		r.AP += float64(float64(hits) * float64(r.Labels) / float64(i))
		r.Recall += float64(float64(hits) * min(max(first-float64(begin), 0)/float64(step), 1))
	}
	if r.Labels == 0 || others == 0 {
		return r, false
	}
	of := float64(r.Labels)
	r.AUC, r.AP, r.Recall = r.AUC/of/float64(others), r.AP/of, r.Recall/of
	return r, true
}
