package table

import (
	"cmp"
	"slices"
)

// Rank is how well the probabilities of one class rank the labels of a whole stream.
type Rank struct {
	Class  string  `json:"class"`
	Labels int     `json:"labels"` // of the class
	AUC    float64 `json:"auc"`    // chance that one of the class has a larger probability than another
	AP     float64 `json:"ap"`     // average precision
}

// ranks returns the exact ranks of the classes that have labels among others.
func ranks(probs []float64, names []string, labels []int32) (list []Rank) {
	order := make([]int, len(labels))
	for i := range order {
		order[i] = i
	}
	for c, name := range names {
		p := func(i int) float64 { return probs[i*len(names)+c] }
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p(b), p(a)) })
		r := Rank{Class: name}
		others := 0
		for i := 0; i < len(order); { // equal probabilities are one step
			step, hits := 0, 0
			for at := p(order[i]); i < len(order) && !(p(order[i]) < at); i++ {
				step++
				if labels[order[i]] == int32(c) {
					hits++
				}
			}
			r.AUC += float64(step-hits) * (float64(r.Labels) + float64(hits)/2)
			r.Labels, others = r.Labels+hits, others+step-hits
			r.AP += float64(hits) * float64(r.Labels) / float64(i)
		}
		if r.Labels > 0 && others > 0 {
			r.AUC, r.AP = r.AUC/float64(r.Labels)/float64(others), r.AP/float64(r.Labels)
			list = append(list, r)
		}
	}
	return list
}

// setRanks sets AUC and AP: of two classes those of the rarer one, of more the means over classes.
func (r *Result) setRanks(ranks []Rank) {
	r.Ranks = ranks
	of := ranks
	if len(ranks) == 2 {
		rarer := slices.MinFunc(ranks, func(a, b Rank) int { return cmp.Compare(a.Labels, b.Labels) })
		of, r.Ranked = []Rank{rarer}, rarer.Class
	}
	for _, k := range of {
		r.AUC += k.AUC / float64(len(of))
		r.AP += k.AP / float64(len(of))
	}
}
