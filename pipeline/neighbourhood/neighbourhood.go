// Package neighbourhood computes the inputs of a pool's heads for nodes of a growing
// graph ([pool.Rows]): the node's raw features x, the sum s of its neighbours' features,
// and the counts n and q of the classes of its neighbours and of theirs, and n by kind of edge.
//
// Features, what was served and the counts n are stored for every node. The rest is computed when a row is
// appended, in the order of the adjacency lists, so that it has the same bits after a
// restart. This takes time proportional to the node's degree. For nodes of more than
// hubDegree neighbours, s is cached and only new neighbours are added to it, since hubs
// are learned from again and again.
package neighbourhood

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Graph is what a [Features] reads of the graph whose nodes these are.
type Graph interface {
	// Len is the number of nodes, whose numbers are below it.
	Len() int
	Degree(v int32) int
	// Neighbours returns distinct neighbours, without v, in the order in which
	// the edges came.
	Neighbours(v int32) []int32
	// EachWeighed calls count for v's neighbours by kinds of edges, see [gnn.Graph.Weigh], in the
	// order in which the edges came.
	EachWeighed(v int32, count func(u int32, mean uint8, weight float32))
}

// None is the label of an unlabelled node.
const None = -1

// Features has the features and labels of a graph's nodes. Every change of the graph must
// be reported to it. It is used by one goroutine at a time, but for its readers.
type Features struct {
	Reader   Reader // of whoever changes the features
	graph    Graph
	wants    wants
	classes  int
	features int
	means    int
	ranked   *gnn.Normalizer // makes what is stored of features; nil to store them as they are

	dense  *kernel.Table[float32] // features by node, or
	sparse *vectors               // these
	norms  []float32              // 1/|x| of each sparse vector, 0 of 0
	label  []int32                // class, or None
	served *kernel.Table[uint8]   // the part that counts of what was served while there is no label, in 1/whole
	counts *kernel.Table[uint32]  // n by node, in 1/whole; nil if no head needs it, as served

	hubs    map[int32]*hub // the cache of s, of nodes of more than hubDegree neighbours
	changed []int32        // scratch: classes whose difference is not 0

	known  int             // nodes with a label
	next   int32           // the number that the sweep over labelled nodes has come to
	rowOf  map[int32]int32 // scratch: by node of a batch, its row
	frozen frozen
}

// wants is what the heads ask for.
type wants struct {
	need     pool.Need
	standard bool    // heads scale by pool.Standard: features are dense
	share    float64 // that counts of what was served, see counts.go
	replay   int     // rows for each label
}

// frozen copies what changes while a snapshot is read.
type frozen struct {
	dense  snapshot.Freeze[float32]
	sparse snapshot.Freeze[entry]
	served snapshot.Freeze[uint8]
}

// Reader appends rows of nodes, with scratch memory of its own.
type Reader struct {
	of         *Features
	scratch    sum // s of a node without a cached one
	ranks      gnn.Vector
	adder      adder // of sparse features
	entries    []entry
	difference []uint32 // of one node's counts
	second     []float64
	kinds      []float64    // by mean and class
	weights    [][2]float64 // by mean: the sum of the weights, and their number
}

// NewReader returns another reader of f. Readers may be used at once, while f does not change,
// for nodes for which [Features.Ready] was called since it last did.
func (f *Features) NewReader() *Reader {
	r := &Reader{of: f}
	if f.sparse != nil {
		r.adder = newAdder(f.features)
	}
	if f.wants.need&pool.NeedKinds != 0 {
		r.kinds, r.weights = make([]float64, f.means*f.classes), make([][2]float64, f.means)
	}
	if f.counts != nil {
		r.difference, r.second = make([]uint32, f.classes), make([]float64, f.classes)
	}
	return r
}

// New returns the features of an empty graph. Only what the heads of spec need is stored
// and computed. ranked, unless nil, makes what is stored of features.
func New(graph Graph, spec pool.Config, shape pool.Shape, ranked *gnn.Normalizer) *Features {
	f := &Features{
		graph: graph, wants: wants{need: spec.Needs(), share: spec.Served, replay: spec.Replays(), standard: spec.Scale() == pool.Standard},
		classes: shape.Classes, features: shape.Features, means: shape.Means, ranked: ranked, hubs: make(map[int32]*hub),
	}
	if f.wants.need&(pool.NeedX|pool.NeedS) != 0 {
		if f.wants.standard {
			f.dense = kernel.NewTable[float32](f.features)
		} else {
			f.sparse = &vectors{}
		}
	}
	if f.wants.need&(pool.NeedLabelled|pool.NeedSecond|pool.NeedKinds) != 0 {
		f.counts, f.served = kernel.NewTable[uint32](f.classes), kernel.NewTable[uint8](f.classes)
	}
	f.Reader = *f.NewReader()
	return f
}

// SetFeatures sets the features of node v, as received. v is a node or the next one.
// x must fit the shape; it is copied.
func (f *Features) SetFeatures(v int32, x gnn.Vector) {
	switch {
	case int(v) == len(f.label):
		f.label = append(f.label, None)
		if f.counts != nil {
			f.counts.Grow(1)
			f.served.Grow(1)
		}
		if f.dense != nil {
			f.dense.Grow(1)
		}
		if f.sparse != nil {
			f.norms = append(f.norms, 0)
			f.sparse.grow(1)
		}
	case uint(v) > uint(len(f.label)):
		panic(fmt.Sprintf("neighbourhood: node %d, but %d is next", v, len(f.label)))
	default:
		f.keep(v)
		f.expire(v)
	}
	x = f.Reader.stored(x)
	switch {
	case f.dense != nil:
		row := f.dense.Row(v)
		if x.Dense != nil {
			copy(row, x.Dense)
			break
		}
		clear(row)
		for k, j := range x.Index {
			row[j] = x.Value[k]
		}
	case f.sparse != nil:
		f.Reader.entries = appendEntries(f.Reader.entries[:0], x)
		f.sparse.set(v, f.Reader.entries)
		f.norms[v] = inverseNorm(f.Reader.entries)
	}
}

// expire drops the cached sums that include v's features. A new node that is sent again
// within its window is not in the graph yet.
func (f *Features) expire(v int32) {
	if len(f.hubs) == 0 || f.wants.need&pool.NeedS == 0 || int(v) >= f.graph.Len() {
		return
	}
	for _, u := range f.graph.Neighbours(v) {
		f.forget(u)
	}
}

// Remove reports nodes that are about to leave the graph with their edges. Their labels,
// and what was served for them, are removed. Their features stay until [Features.ClearFeatures], since the label of a
// pending prediction may still be learned.
func (f *Features) Remove(nodes []int32) {
	for _, v := range nodes {
		f.expire(v)
		f.forget(v)
	}
	f.removeParts(nodes)
}

// ClearFeatures removes the features of v, which has left.
func (f *Features) ClearFeatures(v int32) { f.SetFeatures(v, gnn.Vector{}) }

// Reset makes rows empty, ready for the methods that append a row.
func (r *Reader) Reset(rows *pool.Rows) {
	rows.N = 0
	for _, x := range []*pool.Features{&rows.X, &rows.S} {
		x.Dense, x.Index, x.Value = x.Dense[:0], x.Index[:0], x.Value[:0]
		if r.of.sparse != nil {
			x.Start = append(x.Start[:0], 0)
		}
	}
	rows.Degree, rows.Labelled, rows.Second, rows.Kinds = rows.Degree[:0], rows.Labelled[:0], rows.Second[:0], rows.Kinds[:0]
}

// Append appends the current row of node v, without its embedding.
func (r *Reader) Append(rows *pool.Rows, v int32) {
	r.AppendFeatures(rows, v)
	r.appendCounts(rows, v, r.of.graph.Neighbours(v), nil)
}

// AppendFeatures appends the row of node v without the counts of labels.
func (r *Reader) AppendFeatures(rows *pool.Rows, v int32) {
	r.of.appendOwn(rows, v)
	r.appendSum(rows, v, r.of.graph.Neighbours(v))
}

// AppendOwn appends the features of node v to rows of which only X is read, or zeros for None.
func (r *Reader) AppendOwn(rows *pool.Rows, v int32) {
	rows.N++
	if v != None {
		r.of.appendOwn(rows, v)
	} else {
		r.appendFeatures(rows, gnn.Vector{})
	}
}

// AppendTrial appends the row that node v would have with features x, if any are given, without the edges to some
// neighbours, and where no label around it is known if unlabelled is set.
func (r *Reader) AppendTrial(rows *pool.Rows, v int32, x *gnn.Vector, without []int32, unlabelled bool) {
	near, cached := r.of.graph.Neighbours(v), v
	if len(without) > 0 {
		near = slices.DeleteFunc(slices.Clone(near), func(u int32) bool { return slices.Contains(without, u) })
		cached = None
	}
	if x != nil {
		r.appendFeatures(rows, *x)
	} else {
		r.of.appendOwn(rows, v)
	}
	r.appendSum(rows, cached, near)
	labelled, second, kinds := len(rows.Labelled), len(rows.Second), len(rows.Kinds)
	r.appendCounts(rows, v, near, without)
	if unlabelled {
		clear(rows.Labelled[labelled:])
		clear(rows.Second[second:])
		clear(rows.Kinds[kinds:])
	}
}

// AppendLike appends row i again, with other features.
func (r *Reader) AppendLike(rows *pool.Rows, i int, x gnn.Vector) {
	r.appendFeatures(rows, x)
	rows.Degree = append(rows.Degree, rows.Degree[i])
	if s := &rows.S; len(s.Start) > 1 {
		from, to := s.Start[i], s.Start[i+1]
		s.Index, s.Value = append(s.Index, s.Index[from:to]...), append(s.Value, s.Value[from:to]...)
		s.Start = append(s.Start, len(s.Index))
	}
	for _, list := range []*[]float32{&rows.S.Dense, &rows.Labelled, &rows.Second, &rows.Kinds} {
		width := len(*list) / rows.N
		*list = append(*list, (*list)[i*width:(i+1)*width]...)
	}
	rows.N++
}

// AppendArrival appends the row that a new node with features x and the given distinct
// neighbours would have.
func (r *Reader) AppendArrival(rows *pool.Rows, x gnn.Vector, near []int32, weighed []gnn.WeighedEdge) {
	r.appendFeatures(rows, x)
	r.appendSum(rows, None, near)
	r.appendCountsOf(rows, near, weighed)
}

// stored returns what is stored of the features x, valid until the next call.
func (r *Reader) stored(x gnn.Vector) gnn.Vector {
	if r.of.ranked == nil {
		return x
	}
	r.ranks = r.of.ranked.Apply(r.ranks, x)
	return r.ranks
}

// appendFeatures appends the features x, all of them zero where there are none.
func (r *Reader) appendFeatures(rows *pool.Rows, x gnn.Vector) {
	f := r.of
	x = r.stored(x)
	switch {
	case f.dense != nil && x.Dense != nil:
		rows.X.Dense = append(rows.X.Dense, x.Dense...)
	case f.dense != nil:
		at := len(rows.X.Dense)
		rows.X.Dense = append(rows.X.Dense, make([]float32, f.features)...)
		for k, j := range x.Index {
			rows.X.Dense[at+int(j)] = x.Value[k]
		}
	case f.sparse != nil:
		r.entries = appendEntries(r.entries[:0], x)
		appendSparse(&rows.X, r.entries)
	}
}

// appendOwn appends the features of v.
func (f *Features) appendOwn(rows *pool.Rows, v int32) {
	switch {
	case f.dense != nil:
		rows.X.Dense = append(rows.X.Dense, f.dense.Row(v)...)
	case f.sparse != nil:
		appendSparse(&rows.X, f.sparse.view(v))
	}
}

func appendSparse(x *pool.Features, entries []entry) {
	for _, e := range entries {
		x.Index, x.Value = append(x.Index, e.index), append(x.Value, e.value)
	}
	x.Start = append(x.Start, len(x.Index))
}
