package neighbourhood

import (
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
)

// entry is one number of a sparse vector.
type entry struct {
	index int32
	value float32
}

// vectors are sparse vectors, numbered from 0: the entries of each, ascending by
// index and without zeros.
type vectors struct {
	lists   []kernel.List
	arena   kernel.Arena[entry]
	entries int // in all vectors
}

// grow adds empty vectors.
func (s *vectors) grow(n int) { s.lists = append(s.lists, make([]kernel.List, n)...) }

// view returns vector i, until it is next set. It may not be written to.
func (s *vectors) view(i int32) []entry { return s.arena.View(s.lists[i]) }

// set replaces vector i.
func (s *vectors) set(i int32, x []entry) {
	l := &s.lists[i]
	s.entries += len(x) - l.Len()
	s.arena.Set(l, x)
}

// appendEntries appends what of x is not zero.
func appendEntries(to []entry, x gnn.Vector) []entry {
	for j, value := range x.Dense {
		if value != 0 {
			to = append(to, entry{int32(j), value})
		}
	}
	for k, j := range x.Index {
		if x.Value[k] != 0 {
			to = append(to, entry{int32(j), x.Value[k]})
		}
	}
	return to
}

// inverseNorm returns 1/|x|, the Euclidean length, or 0 for x = 0.
func inverseNorm(x []entry) float32 {
	var square float64
	for _, e := range x {
		square += float64(float64(e.value) * float64(e.value))
	}
	if square == 0 {
		return 0
	}
	return float32(1 / math.Sqrt(square))
}
