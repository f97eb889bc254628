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

// Ranked is how well labels were ranked: of two classes the rarer one's, of more the means over classes. All are 0 where one class
// has all labels.
type Ranked struct {
	AUC    float64 `json:"auc"`
	AP     float64 `json:"ap"`
	Recall float64 `json:"recall_at_1_percent"`
}

// Overall returns how well labels were ranked, and of two classes the one that it is of.
func Overall(ranks []Rank) (r Ranked, of string) {
	if len(ranks) == 2 {
		rarer := slices.MinFunc(ranks, func(a, b Rank) int { return cmp.Compare(a.Labels, b.Labels) })
		ranks, of = []Rank{rarer}, rarer.Class
	}
	for _, k := range ranks {
		r.AUC += k.AUC / float64(len(ranks))
		r.AP += k.AP / float64(len(ranks))
		r.Recall += k.Recall / float64(len(ranks))
	}
	return r, of
}
