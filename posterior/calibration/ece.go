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
	s.confidence = kernel.Resize(s.confidence, n)
	for i := range scores {
		s.confidence[i] = scores[i].Confidence
	}
	order := s.ascending(s.confidence)
	bins = min(bins, n)
	for b := range bins {
		size := n / bins
		if b < n%bins {
			size++
		}
		var run Bin
		for _, i := range order[:size] {
			run.add(scores[i].Confidence, scores[i].Correct)
		}
		order = order[size:]
		ece += math.Abs(run.gap()) / float64(n)
	}
	return ece
}

// sorter is the scratch memory of equalMassECE, which runs once per window and
// head: it is pooled so that steady state allocates nothing.
type sorter struct {
	confidence []float64

	// Of every confidence in sorted order: the bits of its float32 and its index;
	// and the buffers that a pass of byBytes writes to.
	bits, nextBits   []uint32
	order, nextOrder []int32
}

var sorters = sync.Pool{New: func() any { return new(sorter) }}

// ascending returns the indices of conf by ascending confidence, equal confidences
// by index. The result is valid until the next call. Served confidences are
// float32: as they are not negative, their bits have their order, and they are
// sorted as integers. Others take the slow path.
func (s *sorter) ascending(conf []float64) []int32 {
	n := len(conf)
	s.bits, s.order = kernel.Resize(s.bits, n), kernel.Resize(s.order, n)
	for i, c := range conf {
		x := math.Float32bits(float32(c))
		if float64(float32(c)) != c || x >= 1<<31 {
			return sorted(conf)
		}
		s.bits[i], s.order[i] = x, int32(i)
	}
	if n > few {
		s.byBytes()
	} else {
		s.byInsertion()
	}
	return s.order
}

// few is the most confidences for which insertion sort is faster than the four
// passes of byBytes (measured).
const few = 48

func (s *sorter) byInsertion() {
	for i, x := range s.bits {
		v := s.order[i]
		for ; i > 0 && s.bits[i-1] > x; i-- {
			s.bits[i], s.order[i] = s.bits[i-1], s.order[i-1]
		}
		s.bits[i], s.order[i] = x, v
	}
}

// byBytes is a radix sort: stable passes by each byte, from the lowest to the
// highest (Knuth, TAOCP 3, 5.2.5).
func (s *sorter) byBytes() {
	n := len(s.bits)
	s.nextBits, s.nextOrder = kernel.Resize(s.nextBits, n), kernel.Resize(s.nextOrder, n)
	for shift := 0; shift < 32; shift += 8 {
		var at [256]int32
		for _, x := range s.bits {
			at[uint8(x>>shift)]++
		}
		next := int32(0)
		for value, count := range at { // from counts to where the first of each value goes
			at[value] = next
			next += count
		}
		for i, x := range s.bits {
			to := &at[uint8(x>>shift)]
			s.nextBits[*to], s.nextOrder[*to] = x, s.order[i]
			*to++
		}
		s.bits, s.nextBits, s.order, s.nextOrder = s.nextBits, s.bits, s.nextOrder, s.order
	}
}

// sorted is ascending for any confidences.
func sorted(conf []float64) []int32 {
	order := make([]int32, len(conf))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(conf[i], conf[j]) })
	return order
}
