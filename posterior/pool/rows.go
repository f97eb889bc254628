package pool

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/posterior"
)

// Shape is what all rows of a pool have in common.
type Shape struct {
	Classes   int // C
	Features  int // d
	Embedding int // d_e, 0 where no head is on the embedding
}

// Features are n rows of d numbers. They are dense, n × d in Dense, or sparse:
// the entries of row i are those from Start[i] to below Start[i+1] of Index and
// Value, indices ascending. Start has n+1 entries.
type Features struct {
	Dense []float32
	Start []int
	Index []int32
	Value []float32
}

// Rows are nodes as the heads see them. Only what a head of the pool uses need
// be there (Config.Needs).
type Rows struct {
	N int
	// X are the features as they came, not normalised.
	X Features
	// S is the sum over the distinct neighbours of their features: of unit
	// length each (Euclidean) where heads scale by Unit, as they came where heads
	// scale by Standard.
	S Features
	// Degree is the number of distinct neighbours, n.
	Degree []int32
	// Labelled is n_v[k], the number of neighbours known to be of class k, n × C.
	Labelled []float32
	// Second is q_v[k] = Σ_{u∈N(v)} (n_u[k] - [v is known to be k])/deg u, n × C.
	Second []float32
	// Embedded are z_v and τ_v.
	Embedded posterior.Rows
}

// Batch is labelled rows to learn from. Embedded, Labelled and Second are as
// they were when the node was served; X, S and Degree as they are now, so that
// no features need be kept until the label comes.
type Batch struct {
	Rows
	Labels []int32
	// LogProbs is what Predict logProbs of the rows when they were served.
	LogProbs []float32
	// Pairs are the edges between two rows of the batch, each once.
	Pairs [][2]int32
	// Refresh are neighbours of the batch's rows that were labelled before it, as
	// they are now, and RefreshLabels their labels: heads on neighbours' features
	// learn from them again, for those features have changed. X, S and Degree
	// suffice.
	Refresh       Rows
	RefreshLabels []int32
}

// Need is a set of the parts of Rows that a pool uses.
type Need uint8

// The parts of Rows.
const (
	NeedX        Need = 1 << iota // X
	NeedS                         // S and Degree
	NeedLabelled                  // Labelled
	NeedSecond                    // Second
	NeedEmbedded                  // Embedded
)

func (r *Rows) check(s Shape, need Need) {
	if need&NeedX != 0 {
		r.X.check(r.N, s.Features)
	}
	if need&NeedS != 0 {
		r.S.check(r.N, s.Features)
		checkLength("degrees", len(r.Degree), r.N)
	}
	if need&NeedLabelled != 0 {
		checkLength("counts of labelled neighbours", len(r.Labelled), r.N*s.Classes)
	}
	if need&NeedSecond != 0 {
		checkLength("second-order counts", len(r.Second), r.N*s.Classes)
	}
	if need&NeedEmbedded != 0 {
		checkLength("temperatures", len(r.Embedded.Tau), r.N)
		checkLength("embeddings", len(r.Embedded.Z), r.N*s.Embedding)
	}
}

func (f *Features) check(n, d int) {
	if f.Start == nil {
		checkLength("dense features", len(f.Dense), n*d)
		return
	}
	checkLength("starts of sparse rows", len(f.Start), n+1)
	if len(f.Index) != len(f.Value) || f.Start[0] < 0 || f.Start[n] > len(f.Index) || !slices.IsSorted(f.Start) {
		panic(fmt.Sprintf("pool: sparse rows from %d to %d of %d indices and %d values", f.Start[0], f.Start[n], len(f.Index), len(f.Value)))
	}
}

func checkLength(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("pool: %d %s, want %d", got, what, want))
	}
}

// entries returns the entries of row i, in order: of sparse features what is
// stored, of dense ones those that are not zero, written to buffer.
func (f *Features) entries(i, d int, buffer *entries) (index []int32, value []float32) {
	if f.Start != nil {
		from, to := f.Start[i], f.Start[i+1]
		return f.Index[from:to], f.Value[from:to]
	}
	buffer.index, buffer.value = buffer.index[:0], buffer.value[:0]
	for j, x := range f.Dense[i*d : (i+1)*d] {
		if x != 0 {
			buffer.index, buffer.value = append(buffer.index, int32(j)), append(buffer.value, x)
		}
	}
	return buffer.index, buffer.value
}

// entries holds the entries of a row.
type entries struct {
	index []int32
	value []float32
}

// resize returns s with length n; the numbers are of no meaning.
func resize[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}
