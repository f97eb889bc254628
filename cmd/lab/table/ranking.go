package table

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Rank is how well the probabilities of one class rank the labels of a whole stream.
type Rank struct {
	Class string `json:"class"`
	calibration.Ranking
}

// ranks returns the exact ranks of the classes that have labels among others.
func ranks(probs []float64, names []string, labels []int32) (list []Rank) {
	for c, name := range names {
		r, ok := calibration.Rank(len(labels), func(i int) float64 { return probs[i*len(names)+c] },
			func(i int) bool { return labels[i] == int32(c) })
		if ok {
			list = append(list, Rank{name, r})
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
