package attributes

import (
	"math"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/gnn"
)

// Places returns the first column of each attribute, and then the number of columns.
func (s *Schema) Places() []int {
	from := make([]int, 1, len(s.Attributes)+1)
	for i := range s.Attributes {
		from = append(from, from[i]+s.Attributes[i].Columns())
	}
	return from
}

// Gapped returns a row as it would be with gaps in place of some attributes, given by their places in the schema.
// from is what Places returns.
func (s *Schema) Gapped(x gnn.Vector, from, gaps []int) gnn.Vector {
	gapOf := func(i int) (column int, has bool) { return from[i+1] - 1, s.Attributes[i].hasGapColumn() }
	if x.Dense != nil {
		dense := slices.Clone(x.Dense)
		for _, i := range gaps {
			clear(dense[from[i]:from[i+1]])
			if column, has := gapOf(i); has {
				dense[column] = 1
			}
		}
		return gnn.Vector{Dense: dense}
	}
	to := gnn.Vector{Index: []uint32{}}
	next := 0 // of x
	for _, i := range slices.Sorted(slices.Values(gaps)) {
		for ; next < len(x.Index) && int(x.Index[next]) < from[i+1]; next++ {
			if int(x.Index[next]) < from[i] {
				to.Index, to.Value = append(to.Index, x.Index[next]), append(to.Value, x.Value[next])
			}
		}
		if column, has := gapOf(i); has {
			to.Index, to.Value = append(to.Index, uint32(column)), append(to.Value, 1)
		}
	}
	to.Index, to.Value = append(to.Index, x.Index[next:]...), append(to.Value, x.Value[next:]...)
	return to
}

// Given reports whether a row has a value of the i-th attribute, and how far its columns are from 0 at most.
func (s *Schema) Given(x gnn.Vector, from []int, i int) (furthest float32, given bool) {
	gap := -1
	if s.Attributes[i].hasGapColumn() {
		gap = from[i+1] - 1
	}
	note := func(j int, v float32) {
		given = given || j == gap && v != 1 || j != gap && v != 0
		furthest = max(furthest, v, -v)
	}
	if x.Dense != nil {
		for j := from[i]; j < from[i+1]; j++ {
			note(j, x.Dense[j])
		}
		return furthest, given
	}
	k, _ := slices.BinarySearch(x.Index, uint32(from[i]))
	given = gap >= 0 // unless the column is there
	for ; k < len(x.Index) && int(x.Index[k]) < from[i+1]; k++ {
		given = given && int(x.Index[k]) != gap
		note(int(x.Index[k]), x.Value[k])
	}
	return furthest, given
}

// Usual returns the median of the training rows of a number as a text, "" where the schema does not know it.
func (a *Attribute) Usual() string {
	if a.Knots == nil {
		return ""
	}
	return strconv.FormatFloat(a.Median(), 'g', 4, 64)
}

// An attribute is like another if their columns are correlated so closely in the training rows.
const (
	likeness  = .95
	likeRows  = 2048 // that are compared
	likeWidth = maxValues + 2
	likeMost  = 512 // columns
)

// learnLikeness sets Like of the attributes that say what one before them says. x are encoded rows.
func (s *Schema) learnLikeness(x []gnn.Vector) {
	from := s.Places()
	width := from[len(from)-1]
	if len(x) < leastKnown || width > likeMost || s.Sparse {
		return
	}
	columns := make([][]float64, width) // of mean 0 and length 1
	spread := make([]float64, width)    // their lengths before
	for j := range columns {
		c := make([]float64, len(x))
		for i := range x {
			c[i] = float64(x[i].Dense[j])
		}
		mean, _ := moments(c)
		for i := range c {
			c[i] -= mean
		}
		spread[j] = dot(c, c)
		if length := math.Sqrt(spread[j]); length > 0 {
			for i := range c {
				c[i] /= length
			}
		}
		columns[j] = c
	}
	// says returns the share of the variance of attribute a's columns that single columns of b have.
	says := func(a, b int) float64 {
		var all, told float64
		for j := from[a]; j < from[a+1]; j++ {
			most := 0.0
			for k := from[b]; k < from[b+1]; k++ {
				r := dot(columns[j], columns[k])
				most = max(most, float64(r*r))
			}
			all += spread[j]
			told += float64(spread[j] * most)
		}
		return told / max(all, math.SmallestNonzeroFloat64)
	}
	for b := range s.Attributes {
		for a := 0; a < b && s.Attributes[b].Like == ""; a++ {
			if from[a+1]-from[a] > likeWidth || from[b+1]-from[b] > likeWidth || s.Attributes[a].Like != "" {
				continue
			}
			if says(a, b) >= likeness*likeness && says(b, a) >= likeness*likeness {
				s.Attributes[b].Like = s.Attributes[a].Name
			}
		}
	}
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
}
