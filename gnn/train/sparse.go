package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// sparse is a matrix by rows: row i has value[t] in column index[t] for t from
// start[i] to start[i+1], columns ascending. All that a layer is fed is held
// so: bags of words, adjacency, and hidden states too, of which ReLU and
// dropout leave a quarter.
type sparse[T float] struct {
	start []int
	index []int32
	value []T
}

// newSparse returns a matrix with room for so many rows and entries.
func newSparse[T float](rows, entries int) sparse[T] {
	return sparse[T]{start: make([]int, rows+1), index: make([]int32, entries), value: make([]T, entries)}
}

func (s *sparse[T]) rows() int { return len(s.start) - 1 }

func (s *sparse[T]) row(i int) (index []int32, value []T) {
	from, to := s.start[i], s.start[i+1]
	return s.index[from:to], s.value[from:to]
}

// features returns the features of the given nodes, a row each.
func features[T float](x []gnn.Vector, nodes []int32) sparse[T] {
	s := sparse[T]{start: make([]int, 1, len(nodes)+1)}
	put := func(k int, v float32) {
		if v != 0 {
			s.index, s.value = append(s.index, int32(k)), append(s.value, T(v))
		}
	}
	for _, v := range nodes {
		for k, value := range x[v].Dense {
			put(k, value)
		}
		for i, k := range x[v].Index {
			put(int(k), x[v].Value[i])
		}
		s.start = append(s.start, len(s.index))
	}
	return s
}

// transpose sets t to the transpose of s and split[k] to the end of those
// entries of t's row k that come from s's rows below upto. t must have a row
// for each column of s, and room for its entries.
func (s *sparse[T]) transpose(t *sparse[T], upto int, split []int) {
	clear(t.start)
	for _, k := range s.index[:s.start[s.rows()]] {
		t.start[k+1]++
	}
	for k := range t.rows() {
		t.start[k+1] += t.start[k]
	}
	// split is where the next entry of each row goes; past the last of the
	// rows below upto, that is the answer, and t.start moves on instead.
	next := split
	copy(next, t.start)
	for i := range upto {
		s.scatter(i, t, next)
	}
	if upto == s.rows() {
		return
	}
	next = t.start[:t.rows()]
	copy(next, split)
	for i := upto; i < s.rows(); i++ {
		s.scatter(i, t, next)
	}
	// next[k] is now the end of row k, the start of row k+1.
	copy(t.start[1:], t.start[:t.rows()])
	t.start[0] = 0
}

// scatter puts the entries of s's row i in t, each where next says.
func (s *sparse[T]) scatter(i int, t *sparse[T], next []int) {
	index, value := s.row(i)
	for e, k := range index {
		t.index[next[k]], t.value[next[k]] = int32(i), value[e]
		next[k]++
	}
}

// dropout leaves out entries, each with the same chance, and enlarges the rest
// so that the expectation stays (inverted dropout).
type dropout[T float] struct {
	chance float64
	scale  T
	below  uint64 // an entry stays when its draw of 32 bits is below
}

func newDropout[T float](chance float64) dropout[T] {
	return dropout[T]{chance: chance, scale: T(1 / (1 - chance)), below: uint64((1 - chance) * (1 << 32))}
}

// sparse sets dst to what is left of src.
func (d *dropout[T]) sparse(dst, src *sparse[T], source *rand.PCG) {
	draw, n := draws{source: source}, 0
	for i := range src.rows() {
		index, value := src.row(i)
		for e, k := range index {
			// Written always, counted if it stays: no branch to mispredict.
			dst.index[n], dst.value[n] = k, d.scale*value[e]
			n += one(draw.next() < d.below)
		}
		dst.start[i+1] = n
	}
}

// rectified sets dst to what is left of the positive entries of src, rows of
// the given width. Every entry takes a draw, so which stay does not hang on
// the weights.
func (d *dropout[T]) rectified(dst *sparse[T], src []T, width int, source *rand.PCG) {
	draw, n := draws{source: source}, 0
	for i := range dst.rows() {
		for k, v := range src[i*width : (i+1)*width] {
			dst.index[n], dst.value[n] = int32(k), d.scale*v
			stays := 1
			if d.chance > 0 {
				stays = one(draw.next() < d.below)
			}
			n += stays & one(v > 0)
		}
		dst.start[i+1] = n
	}
}

// draws gives two draws of 32 bits for each of the source's 64.
type draws struct {
	source *rand.PCG
	bits   uint64
	left   int
}

func (d *draws) next() uint64 {
	if d.left == 0 {
		d.bits, d.left = d.source.Uint64(), 2
	}
	d.left--
	draw := d.bits & (1<<32 - 1)
	d.bits >>= 32
	return draw
}

// one is 1 for true, without a branch.
func one(b bool) int {
	var i int
	if b {
		i = 1
	}
	return i
}
