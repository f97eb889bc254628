package dataset

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

// maxDensity is the share of numbers that are not zero up to which features are
// kept sparse.
const maxDensity = 0.25

// features gathers the nodes' vectors. While they come, each is in its smaller
// form, so that a bag of words never stands in memory with its zeros.
type features struct {
	memory  *budget
	x       []gnn.Vector
	nonzero int
}

// add takes the next node's numbers, and keeps nothing of row.
func (f *features) add(row []float32) error {
	n := 0
	for _, a := range row {
		if a != 0 {
			n++
		}
	}
	if 2*n > len(row) {
		if err := f.keep(n, 4*len(row)); err != nil {
			return err
		}
		f.x = append(f.x, gnn.Vector{Dense: slices.Clone(row)})
		return nil
	}
	if err := f.keep(n, 8*n); err != nil {
		return err
	}
	f.x = append(f.x, sparse(row, n))
	return nil
}

// addSparse takes the next node's numbers, indices strictly ascending and values
// other than zero, and keeps nothing of the slices.
func (f *features) addSparse(index []uint32, value []float32) error {
	if err := f.keep(len(index), 8*len(index)); err != nil {
		return err
	}
	v := gnn.Vector{Index: make([]uint32, len(index)), Value: make([]float32, len(index))}
	copy(v.Index, index)
	copy(v.Value, value)
	f.x = append(f.x, v)
	return nil
}

func (f *features) keep(nonzero, bytes int) error {
	if f.nonzero += nonzero; f.nonzero > maxNumbers {
		return fmt.Errorf("more than %d numbers other than zero in all features together: give fewer nodes or fewer features", maxNumbers)
	}
	return f.memory.take(nodeBytes + bytes)
}

// settle returns the vectors, all sparse or all dense, by how many of their
// numbers are not zero. Dense ones then take at most four numbers for each of
// those.
func (f *features) settle(dim int) (x []gnn.Vector, isSparse bool, err error) {
	all := float64(len(f.x)) * float64(dim)
	isSparse = float64(f.nonzero) <= maxDensity*all
	if !isSparse && all > maxNumbers {
		return nil, false, fmt.Errorf("%d nodes × %d features are more than %d numbers: give fewer of either, or features of which at most %g are not zero", len(f.x), dim, maxNumbers, maxDensity)
	}
	for i, v := range f.x {
		switch {
		case isSparse && v.Dense != nil:
			n := 0
			for _, a := range v.Dense {
				if a != 0 {
					n++
				}
			}
			f.x[i] = sparse(v.Dense, n)
		case !isSparse && v.Dense == nil:
			if err := f.memory.take(4 * dim); err != nil {
				return nil, false, err
			}
			w := gnn.Vector{Dense: make([]float32, dim)}
			for k, j := range v.Index {
				w.Dense[j] = v.Value[k]
			}
			f.x[i] = w
		}
	}
	return f.x, isSparse, nil
}

// sparse returns a row of which n numbers are not zero.
func sparse(row []float32, n int) gnn.Vector {
	v := gnn.Vector{Index: make([]uint32, 0, n), Value: make([]float32, 0, n)}
	for j, a := range row {
		if a != 0 {
			v.Index, v.Value = append(v.Index, uint32(j)), append(v.Value, a)
		}
	}
	return v
}

// parseFeature reads feature j of a node.
func parseFeature(text string, j int) (float32, error) {
	if len(text) == 1 && text[0] >= '0' && text[0] <= '9' { // most of a bag of words
		return float32(text[0] - '0'), nil
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("feature %d, %.40q, is not a finite number", j, text)
	}
	return float32(v), nil
}
