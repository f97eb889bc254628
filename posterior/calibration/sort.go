package calibration

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// sorter sorts confidences, which a stream's every window does for every head.
type sorter struct {
	bits, bitsToo   []uint32
	order, orderToo []int32
}

var sorters = sync.Pool{New: func() any { return new(sorter) }}

// ascending returns the indices of conf by confidence, equal ones ascending, until
// it is called again. Confidences that float32 holds, as those that were served,
// have bits in their order, so they are sorted as integers.
func (s *sorter) ascending(conf []float64) []int32 {
	n := len(conf)
	s.bits, s.order = resize(s.bits, n), resize(s.order, n)
	for i, c := range conf {
		x := math.Float32bits(float32(c))
		if float64(float32(c)) != c || x >= 1<<31 {
			return sorted(conf, cmp.Compare)
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

// few are sorted sooner than bytes are counted.
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

// byBytes sorts by each byte, the lowest first, and leaves those with equal ones in
// their order (Knuth, TAOCP 3, 5.2.5).
func (s *sorter) byBytes() {
	s.bitsToo, s.orderToo = resize(s.bitsToo, len(s.bits)), resize(s.orderToo, len(s.order))
	for shift := 0; shift < 32; shift += 8 {
		var at [256]int32
		for _, x := range s.bits {
			at[uint8(x>>shift)]++
		}
		next := int32(0)
		for value, count := range at { // now where the first of each value goes
			at[value] = next
			next += count
		}
		for i, x := range s.bits {
			to := &at[uint8(x>>shift)]
			s.bitsToo[*to], s.orderToo[*to] = x, s.order[i]
			*to++
		}
		s.bits, s.bitsToo, s.order, s.orderToo = s.bitsToo, s.bits, s.orderToo, s.order
	}
}

// sorted returns the indices of conf in the given order, equal ones ascending.
func sorted(conf []float64, compare func(a, b float64) int) []int32 {
	order := make([]int32, len(conf))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return compare(conf[i], conf[j]) })
	return order
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
