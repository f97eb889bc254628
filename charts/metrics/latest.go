package metrics

import (
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Bounds of what is kept of a class, of float32.
const (
	latestOwn  = 64  // labels of the class, up to twice as many
	mostOthers = 256 // the highest of the others
)

// latest is how well a class is ranked among its latest labels, at least latestOwn of them and fewer than twice as many, and all
// others in between: of as few, bins of log odds are off by up to .04, and one node by more than the others of a thousand below it.
type latest struct{ older, younger ranked }

func (l *latest) add(p float32, own bool) {
	l.older.add(p, own)
	l.younger.add(p, own)
	if n := len(l.older.own); own && n%latestOwn == 0 {
		if n == 2*latestOwn {
			l.older = l.younger
		}
		l.younger = ranked{}
	}
}

// ranked are the probabilities of nodes whose labels came: of the class, the highest of the others, and how many others are in
// each bin. It takes 2.5 KB.
type ranked struct {
	own, others []float32 // others ascend
	all         calibration.Odds
}

func (r *ranked) add(p float32, own bool) {
	if own {
		r.own = append(r.own, p)
		return
	}
	r.all.Add(float64(p), false, 1)
	i, _ := slices.BinarySearch(r.others, p)
	switch {
	case len(r.others) < mostOthers:
		r.others = slices.Insert(r.others, i, p)
	case i > 0:
		copy(r.others, r.others[1:i])
		r.others[i-1] = p
	}
}

// averagePrecision is the mean of the precision at each label of the class, itself among them. Equal probabilities are one step. It is
// exact but for labels that are behind mostOthers others, whose number is that of their bins. It is not ok below 30
// labels, or of few others.
func (r *ranked) averagePrecision() (ap float64, ok bool) {
	for _, p := range r.own {
		own := 0.
		for _, other := range r.own {
			if other >= p {
				own++
			}
		}
		at, _ := slices.BinarySearch(r.others, p)
		others := float64(len(r.others) - at)
		if at == 0 && len(r.others) == mostOthers {
			others = max(others, r.behind(float64(p)))
		}
		ap += float64(own / (own + others))
	}
	const few = 30
	return ap / max(float64(len(r.own)), 1), len(r.own) >= few && len(r.others) >= few
}

// behind returns how many others are above a probability, by their bins: of those in its own, about half.
func (r *ranked) behind(p float64) float64 {
	b := 0
	for b+1 < calibration.OddsBins && p >= calibration.OddsEdge(b+1) {
		b++
	}
	return r.all.From(b).Rows - float64(.529*r.all[b].Rows)
}
