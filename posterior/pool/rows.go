package pool

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior"
)

// Shape is the shape of a pool's rows.
type Shape struct {
	Classes   int // C
	Features  int // d
	Embedding int // d_e, 0 if no head uses the embedding
	Means     int // by which Rows.Kinds are counted, 0 if edges have no kinds
}

// Features are n rows of d numbers, dense or sparse. If Start is nil, they are
// dense: Dense is n × d. Otherwise they are compressed sparse rows: the entries of
// row i are Index[Start[i]:Start[i+1]], ascending in [0, d), with the values beside
// them; Start has n+1 entries.
type Features struct {
	Dense []float32
	Start []int
	Index []int32
	Value []float32
}

// Rows are nodes as the heads see them. A field need only be set if a head of the
// pool reads it, see [Config.Needs].
type Rows struct {
	N int
	// X is x_v, the features as they came, not normalised.
	X Features
	// S is s_v, the sum of the features of v's distinct neighbours. They are summed
	// as x_u/|x_u| if heads scale by Unit, and as they came if heads scale by
	// Standard.
	S Features
	// Degree is deg v, the number of distinct neighbours, n.
	Degree []int32
	// Labelled is n_v[k], the number of neighbours of class k, n × C. Neighbours without
	// a label may count for parts of classes.
	Labelled []float32
	// Second is q_v[k] = Σ_{u∈N(v)} (n_u[k] - what v counts for in it)/deg u, n × C: the
	// expected class at the end of a random walk of two steps, v's own left out.
	Second []float32
	// Kinds is n_v by kind of edge, and by direction where a kind has one, n × Means × C. An edge
	// counts with its weight, of which the mean is 1 over those that v has in the same mean.
	Kinds []float32
	// Embedded is z_v and τ_v, n × d_e and n.
	Embedded posterior.Rows
}

// Batch is labelled rows to learn from. Embedded, Labelled, Second and Kinds have the values
// with which the node was served. X, S and Degree have the present values: heads learn
// equally well from these, and features need not be stored until the label comes.
type Batch struct {
	Rows
	Labels []int32
	// LogProbs is what Predict wrote for the first rows when they were served. The further rows
	// have a corrected label, and present values in all fields: heads learn them, and neither
	// scores nor weights do.
	LogProbs []float32
	// Taken are nodes whose label was learned and is theirs no more, and TakenLabels those
	// labels: heads that count take them from their counts. Only X is read, which is what was
	// learned, or 0 if that is not known any more.
	Taken       Rows
	TakenLabels []int32
	// Nodes, ReplayNodes and TakenNodes are numbers of the nodes of Rows, Replay and Taken that no two nodes
	// have at once. They are nil where nodes have none: then a fitted head keeps rows as they were.
	Nodes, ReplayNodes, TakenNodes []int32
	// Pairs are the edges between two rows of the batch, by index, each once.
	Pairs [][2]int32
	// Replay are labelled nodes of before the batch with present values in all fields but Embedded,
	// which is not read, and ReplayLabels their labels; Known is the number of all labelled
	// nodes, of which a sweep replays one after the other. Heads with Wide.Replay learn them
	// again, because what is around a node goes on changing.
	Replay       Rows
	ReplayLabels []int32
	Known        int
	// LogRates are by class the log of the share of its nodes whose label comes, up to a constant, nil
	// where all are alike. Then a label says y with p(y) r_y/Σ_c p(c) r_c, which is the likelihood that
	// regressions, products and the mixture learn from.
	LogRates []float64
}

// Need is a set of the fields of Rows that a pool reads.
type Need uint8

// The fields of Rows.
const (
	NeedX        Need = 1 << iota // X
	NeedS                         // S
	needDegree                    // Degree
	NeedLabelled                  // Labelled
	NeedSecond                    // Second
	NeedEmbedded                  // Embedded
	NeedKinds                     // Kinds
)

func (r *Rows) check(s Shape, need Need) {
	if need&NeedX != 0 {
		r.X.check(r.N, s.Features)
	}
	if need&NeedS != 0 {
		r.S.check(r.N, s.Features)
	}
	if need&needDegree != 0 {
		checkLength("degrees", len(r.Degree), r.N)
	}
	if need&NeedLabelled != 0 {
		checkLength("counts of labelled neighbours", len(r.Labelled), r.N*s.Classes)
	}
	if need&NeedSecond != 0 {
		checkLength("second-order counts", len(r.Second), r.N*s.Classes)
	}
	if need&NeedKinds != 0 {
		checkLength("counts by kind", len(r.Kinds), r.N*s.Means*s.Classes)
	}
	if need&NeedEmbedded != 0 {
		checkLength("temperatures", len(r.Embedded.Tau), r.N)
		checkLength("embeddings", len(r.Embedded.Z), r.N*s.Embedding)
	}
}

// some returns n of the first so many rows, spread evenly.
func (r *Rows) some(n, of int, s Shape) Rows {
	z := posterior.Rows{Z: some(r.Embedded.Z, n, of, s.Embedding), Tau: some(r.Embedded.Tau, n, of, 1)}
	return Rows{
		N: n, X: r.X.some(n, of, s.Features), S: r.S.some(n, of, s.Features), Degree: some(r.Degree, n, of, 1), Embedded: z,
		Labelled: some(r.Labelled, n, of, s.Classes), Second: some(r.Second, n, of, s.Classes), Kinds: some(r.Kinds, n, of, s.Means*s.Classes),
	}
}

func (f *Features) some(n, of, d int) (to Features) {
	if f.Start == nil {
		return Features{Dense: some(f.Dense, n, of, d)}
	}
	to.Start = make([]int, 1, n+1)
	for i := range n {
		from, end := f.Start[i*of/n], f.Start[i*of/n+1]
		to.Index, to.Value = append(to.Index, f.Index[from:end]...), append(to.Value, f.Value[from:end]...)
		to.Start = append(to.Start, len(to.Index))
	}
	return to
}

// some returns n of the first so many rows of a width, spread evenly, and nothing where there are none.
func some[T any](x []T, n, of, width int) (list []T) {
	if len(x) == 0 {
		return nil
	}
	list = make([]T, 0, n*width)
	for i := range n {
		list = append(list, x[i*of/n*width:][:width]...)
	}
	return list
}

func (f *Features) check(n, d int) {
	if f.Start == nil {
		checkLength("dense features", len(f.Dense), n*d)
		return
	}
	checkLength("starts of sparse rows", len(f.Start), n+1)
	if len(f.Index) != len(f.Value) || f.Start[0] < 0 || f.Start[n] > len(f.Index) || !slices.IsSorted(f.Start) {
		panic(fmt.Sprintf("pool: sparse rows from %d to %d of %d indices and %d values", f.Start[0], f.Start[n],
			len(f.Index), len(f.Value)))
	}
}

func checkLength(what string, got, want int) {
	if got != want {
		panic(fmt.Sprintf("pool: %d %s, want %d", got, what, want))
	}
}

// entries returns the indices and values of row i, indices ascending: of sparse
// features those stored, of dense ones those that are not 0. Dense ones are written
// to buffer and valid until its next use.
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

// unit returns what entries returns, nothing if all of it is 0, and the factor that makes it of unit length.
func (f *Features) unit(i, d int, buffer *entries) (index []int32, value []float32, by float64) {
	index, value = f.entries(i, d, buffer)
	var square float64
	for _, x := range value {
		square += float64(float64(x) * float64(x))
	}
	if square == 0 {
		return nil, nil, 0
	}
	return index, value, 1 / math.Sqrt(square)
}

// entries is a buffer for the entries of a row.
type entries struct {
	index []int32
	value []float32
}

// check panics unless the batch has what a pool of that shape needs.
func (b *Batch) check(shape Shape, needs Need) {
	b.Rows.check(shape, needs)
	b.Taken.check(shape, needs&NeedX)
	b.Replay.check(shape, needs&^NeedEmbedded)
	shape.checkLabels("labels", b.Labels, b.N)
	shape.checkLabels("labels that are taken", b.TakenLabels, b.Taken.N)
	shape.checkLabels("labels to replay", b.ReplayLabels, b.Replay.N)
	for _, pair := range b.Pairs {
		for _, i := range pair {
			if i < 0 || int(i) >= b.N {
				panic(fmt.Sprintf("pool: a pair with row %d of %d", i, b.N))
			}
		}
	}
}

func (s Shape) checkLabels(what string, labels []int32, n int) {
	checkLength(what, len(labels), n)
	for _, y := range labels {
		if y < 0 || int(y) >= s.Classes {
			panic(fmt.Sprintf("pool: label %d of %d classes", y, s.Classes))
		}
	}
}
