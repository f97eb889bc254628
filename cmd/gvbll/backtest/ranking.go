package backtest

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

// Ranks returns the exact ranks of the classes that have labels among others. probs is labels × classes.
func Ranks(probs []float64, names []string, labels []int32) (list []Rank) {
	for c, name := range names {
		r, ok := calibration.Rank(len(labels), func(i int) float64 { return probs[i*len(names)+c] },
			func(i int) bool { return labels[i] == int32(c) })
		if ok {
			list = append(list, Rank{name, r})
		}
	}
	return list
}

// Overall returns AUC and AP: of two classes those of the rarer one, which is of, of more the means over classes.
func Overall(ranks []Rank) (auc, ap float64, of string) {
	if len(ranks) == 2 {
		rarer := slices.MinFunc(ranks, func(a, b Rank) int { return cmp.Compare(a.Labels, b.Labels) })
		ranks, of = []Rank{rarer}, rarer.Class
	}
	for _, k := range ranks {
		auc += k.AUC / float64(len(ranks))
		ap += k.AP / float64(len(ranks))
	}
	return auc, ap, of
}
