package train

import "github.com/gvbll/gvbll/gnn"

// sparse is a matrix in compressed sparse rows: row i has value[t] in column
// index[t] for start[i] ≤ t < start[i+1].
type sparse[T float] struct {
	start []int
	index []int32
	value []T
}

// newSparse returns a matrix with storage for the given numbers of rows and
// entries.
func newSparse[T float](rows, entries int) sparse[T] {
	return sparse[T]{start: make([]int, rows+1), index: make([]int32, entries), value: make([]T, entries)}
}

func (s *sparse[T]) rows() int { return len(s.start) - 1 }

func (s *sparse[T]) row(i int) (index []int32, value []T) {
	from, to := s.start[i], s.start[i+1]
	return s.index[from:to], s.value[from:to]
}

// add appends an entry to the last row.
func (s *sparse[T]) add(column int32, value T) {
	s.index, s.value = append(s.index, column), append(s.value, value)
}

// endRow ends the last row and begins another.
func (s *sparse[T]) endRow() { s.start = append(s.start, len(s.index)) }

// top returns the first rows. It shares storage with s.
func (s *sparse[T]) top(rows int) sparse[T] {
	n := s.start[rows]
	return sparse[T]{start: s.start[:rows+1], index: s.index[:n], value: s.value[:n]}
}

// transpose sets t to the transpose of s. t must have a row for each column of s
// and room for its entries.
func (s *sparse[T]) transpose(t *sparse[T]) {
	clear(t.start)
	for _, k := range s.index[:s.start[s.rows()]] {
		t.start[k+1]++
	}
	for k := range t.rows() {
		t.start[k+1] += t.start[k]
	}
	// While rows are filled, start[k] moves to the end of row k, which is the
	// start of row k+1.
	for i := range s.rows() {
		index, value := s.row(i)
		for e, k := range index {
			at := t.start[k]
			t.index[at], t.value[at] = int32(i), value[e]
			t.start[k]++
		}
	}
	copy(t.start[1:], t.start[:t.rows()])
	t.start[0] = 0
}

// features returns the features of the given nodes: as a dense matrix,
// len(nodes)×dim, if all of them are dense, else as a sparse one.
func features[T float](x []gnn.Vector, nodes []int32, dim int) (dense []T, s *sparse[T]) {
	allDense := true
	for _, v := range nodes {
		allDense = allDense && x[v].Dense != nil
	}
	if allDense {
		dense = make([]T, len(nodes)*dim)
		for i, v := range nodes {
			convert(dense[i*dim:(i+1)*dim], x[v].Dense)
		}
		return dense, nil
	}
	s = &sparse[T]{start: make([]int, 1, len(nodes)+1)}
	for _, v := range nodes {
		for k, value := range x[v].Dense {
			if value != 0 {
				s.add(int32(k), T(value))
			}
		}
		for i, k := range x[v].Index {
			s.add(int32(k), T(x[v].Value[i]))
		}
		s.endRow()
	}
	return nil, s
}
