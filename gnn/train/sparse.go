package train

import "github.com/gvbll/gvbll/gnn"

// sparse is a matrix by rows: row i has value[t] in column index[t] for t from
// start[i] to start[i+1].
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

// add appends an entry to the last row, and next begins another.
func (s *sparse[T]) add(column int32, value T) {
	s.index, s.value = append(s.index, column), append(s.value, value)
}

func (s *sparse[T]) next() { s.start = append(s.start, len(s.index)) }

// top returns the first rows, which share memory with s.
func (s *sparse[T]) top(rows int) sparse[T] {
	n := s.start[rows]
	return sparse[T]{start: s.start[:rows+1], index: s.index[:n], value: s.value[:n]}
}

// transpose sets t to the transpose of s. t must have a row for each column of
// s, and room for its entries.
func (s *sparse[T]) transpose(t *sparse[T]) {
	clear(t.start)
	for _, k := range s.index[:s.start[s.rows()]] {
		t.start[k+1]++
	}
	for k := range t.rows() {
		t.start[k+1] += t.start[k]
	}
	// start[k] moves on to the end of row k, which is the start of row k+1.
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

// features returns the features of the given nodes: dense if all are, else as
// a sparse matrix.
func features[T float](x []gnn.Vector, nodes []int32, dim int) (dense []T, s *sparse[T]) {
	all := true
	for _, v := range nodes {
		all = all && x[v].Dense != nil
	}
	if all {
		dense = make([]T, 0, len(nodes)*dim)
		for _, v := range nodes {
			for _, value := range x[v].Dense {
				dense = append(dense, T(value))
			}
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
		s.next()
	}
	return nil, s
}
