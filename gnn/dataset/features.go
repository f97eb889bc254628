package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

// maxDensity is the share of nonzero numbers up to which features are kept
// sparse. An entry of a sparse vector takes 8 bytes, of a dense one 4, so at a
// quarter sparse takes half the memory.
const maxDensity = 0.25

// features collects the nodes' feature vectors while they are read. Until
// finish, each is in its smaller form, so that a bag of words is never in
// memory with its zeros.
type features struct {
	memory  *budget
	x       []gnn.Vector
	nonzero int // nonzero numbers of all vectors
}

// add adds the next node's vector. It does not keep row.
func (f *features) add(row []float32) error {
	n := nonzero(row)
	if 2*n > len(row) {
		if err := f.claim(n, 4*len(row)); err != nil {
			return err
		}
		f.x = append(f.x, gnn.Vector{Dense: slices.Clone(row)})
		return nil
	}
	if err := f.claim(n, 8*n); err != nil {
		return err
	}
	f.x = append(f.x, sparse(row, n))
	return nil
}

// addSparse adds the next node's vector, given by strictly increasing indices and
// nonzero values. It does not keep the slices.
func (f *features) addSparse(index []uint32, value []float32) error {
	if err := f.claim(len(index), 8*len(index)); err != nil {
		return err
	}
	f.x = append(f.x, gnn.Vector{Index: append([]uint32{}, index...), Value: append([]float32{}, value...)})
	return nil
}

// claim counts nonzero numbers against their limit and bytes against the budget.
func (f *features) claim(nonzero, bytes int) error {
	if f.nonzero += nonzero; f.nonzero > maxNumbers {
		return fmt.Errorf("more than %d numbers other than zero in all features together: give fewer nodes or fewer features", maxNumbers)
	}
	return f.memory.claim(nodeBytes + bytes)
}

// finish returns the vectors, all sparse or all dense, by maxDensity. Dense
// vectors then take at most four numbers for each nonzero one.
func (f *features) finish(dim int) (x []gnn.Vector, isSparse bool, err error) {
	all := float64(len(f.x)) * float64(dim)
	isSparse = float64(f.nonzero) <= maxDensity*all
	if !isSparse && all > maxNumbers {
		return nil, false, fmt.Errorf("%d nodes × %d features are more than %d numbers: give fewer of either, or "+
			"features of which at most %g are not zero", len(f.x), dim, maxNumbers, maxDensity)
	}
	for i, v := range f.x {
		switch {
		case isSparse && v.Dense != nil:
			f.x[i] = sparse(v.Dense, nonzero(v.Dense))
		case !isSparse && v.Dense == nil:
			if err := f.memory.claim(4 * dim); err != nil {
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

func nonzero(row []float32) (n int) {
	for _, a := range row {
		if a != 0 {
			n++
		}
	}
	return n
}

// sparse returns the sparse form of a row with n nonzero numbers.
func sparse(row []float32, n int) gnn.Vector {
	v := gnn.Vector{Index: make([]uint32, 0, n), Value: make([]float32, 0, n)}
	for j, a := range row {
		if a != 0 {
			v.Index, v.Value = append(v.Index, uint32(j)), append(v.Value, a)
		}
	}
	return v
}

// addFeatures appends the features that a line lists, parted by commas.
func addFeatures(row []float32, line string) ([]float32, error) {
	for item := range strings.SplitSeq(line, ",") {
		if len(row) == maxDim {
			return nil, fmt.Errorf("more than %d features", maxDim)
		}
		v, err := parseFeature(item)
		if err != nil {
			return nil, fmt.Errorf("feature %d: %w", len(row), err)
		}
		row = append(row, v)
	}
	return row, nil
}

// parseFeature reads a feature, a finite float32. The words true and false, in which
// pandas writes the columns of get_dummies, are 1 and 0.
func parseFeature(text string) (float32, error) {
	if len(text) == 1 && text[0] >= '0' && text[0] <= '9' { // most of a bag of words
		return float32(text[0] - '0'), nil
	}
	text = strings.TrimSpace(text)
	v, err := strconv.ParseFloat(text, 32)
	switch {
	case err == nil && !math.IsNaN(v) && !math.IsInf(v, 0):
		return float32(v), nil
	case strings.EqualFold(text, "true"):
		return 1, nil
	case strings.EqualFold(text, "false"):
		return 0, nil
	case text == "":
		return 0, errors.New("is empty: fill it in (pandas: fillna), or leave the column out")
	case errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("%.40q is text, and features are numbers: give each category a column (pandas: "+
			"get_dummies), or leave the column out", text)
	}
	return 0, fmt.Errorf("%.40q is not a finite number", text)
}
