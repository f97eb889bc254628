package calibration

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// equalMassECE returns the expected calibration error over bins of equal mass.
// Scores are sorted by confidence, equal confidences by index, and cut into
// min(bins, n) runs; the first n mod bins runs have one score more (numpy's
// array_split).
func equalMassECE(scores []Score, bins int) (ece float64) {
	if bins <= 0 {
		panic(fmt.Sprintf("calibration: %d bins", bins))
	}
	n := len(scores)
	s := sorters.Get().(*sorter)
	defer sorters.Put(s)
	order := s.ascending(scores)
	bins = min(bins, n)
	for b := range bins {
		size := n / bins
		if b < n%bins {
			size++
		}
		var run Bin
		for _, key := range order[:size] {
			score := &scores[uint32(key)]
			run.add(score.Confidence, score.Correct)
		}
		order = order[size:]
		ece += math.Abs(run.gap()) / float64(n)
	}
	return ece
}

// sorter is the scratch memory of equalMassECE, which runs once per window and
// head: it is pooled so that steady state allocates nothing.
type sorter struct{ keys []uint64 }

var sorters = sync.Pool{New: func() any { return new(sorter) }}

// ascending returns keys whose lower halves are the indices of the scores by ascending confidence,
// equal confidences by index. They are valid until the next call. Served confidences are
// float32: as they are not negative, their bits have their order, and each is sorted with its index
// as one integer. Others take the slow path.
func (s *sorter) ascending(scores []Score) []uint64 {
	s.keys = kernel.Resize(s.keys, len(scores))
	fast := true
	for i := range scores {
		x := math.Float32bits(float32(scores[i].Confidence))
		fast = fast && float64(float32(scores[i].Confidence)) == scores[i].Confidence && x < 1<<31
		s.keys[i] = uint64(x)<<32 | uint64(i)
	}
	if fast {
		slices.Sort(s.keys)
		return s.keys
	}
	for i := range s.keys {
		s.keys[i] = uint64(i)
	}
	slices.SortStableFunc(s.keys, func(i, j uint64) int { return cmp.Compare(scores[i].Confidence, scores[j].Confidence) })
	return s.keys
}
