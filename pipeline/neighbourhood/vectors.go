package neighbourhood

import (
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
)

// entry is a nonzero element of a sparse vector.
type entry struct {
	index int32
	value float32
}

// vectors is a list of sparse vectors. The entries of each are ascending by index and not
// zero.
type vectors struct {
	lists   []kernel.List
	arena   kernel.Arena[entry]
	entries int // of all vectors
}

// grow appends n empty vectors.
func (s *vectors) grow(n int) { s.lists = append(s.lists, make([]kernel.List, n)...) }

// view returns vector i for reading, valid until it is set.
func (s *vectors) view(i int32) []entry { return s.arena.View(s.lists[i]) }

// set replaces vector i.
func (s *vectors) set(i int32, x []entry) {
	l := &s.lists[i]
	s.entries += len(x) - l.Len()
	s.arena.Set(l, x)
}

// appendEntries appends the nonzero elements of x.
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

// inverseNorm returns 1/|x|, with the Euclidean norm, or 0 for x = 0.
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
