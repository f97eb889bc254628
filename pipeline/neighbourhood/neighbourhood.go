// Package neighbourhood keeps what the heads of a pool want to know of a node's
// surroundings in a growing graph: its raw features, the sum of its
// neighbours', and how many of the neighbours, and of theirs, are known to be of
// each class ([pool.Rows] defines them).
//
// Features and the counts of labelled neighbours are kept for every node; the
// rest is made of them when a row is asked for, in the order of the adjacency
// lists, so that it is the same to the bit after a restart. A row costs time by
// the node's degree, but for the sum of features: beyond a degree of hubDegree a
// sum is kept and brought up to date by what came since, so that a hub that is
// learned from again and again costs what is new to it.
package neighbourhood

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Graph is what is asked of the graph whose nodes these are.
type Graph interface {
	Degree(v int32) int
	// Neighbours returns distinct neighbours, without v, in the order in which
	// the edges came.
	Neighbours(v int32) []int32
}

// hubDegree is the largest degree at which a sum of features is made anew for
// every row.
const hubDegree = 32

// None is the label of a node that has none.
const None = -1

// Vicinity follows a graph: it must be told of every change. It is used by one
// goroutine.
type Vicinity struct {
	graph    Graph
	need     pool.Need
	standard bool // see pool.Standard
	classes  int
	features int

	dense  *kernel.Table[float32] // features by node, or
	sparse *lists                 // these
	by     []float32              // 1/|x|, 0 of 0; of sparse features
	label  []int32
	counts *kernel.Table[float32] // n_v

	hubs     map[int32]hub
	slots    int32
	free     []int32                // slots
	hubDense *kernel.Table[float32] // s of hubs, by slot, or
	hubLists *lists                 // these

	// A sum in the making: by feature, and which there are, a bit each.
	sum     []float32
	present []uint64
	entries []entry

	meeting meeting
	still   *still // nil unless it is frozen
}

// hub is where the sum of a node of many neighbours is, and how many of them
// are in it.
type hub struct {
	slot   int32
	summed int32
}

// New returns what is known of a graph without nodes. spec says which heads are
// served, of nodes with the given shape.
func New(graph Graph, spec pool.Config, shape pool.Shape) *Vicinity {
	s := &Vicinity{
		graph: graph, need: spec.Needs(), standard: spec.Scale() == pool.Standard,
		classes: shape.Classes, features: shape.Features, hubs: make(map[int32]hub),
	}
	if s.need&(pool.NeedX|pool.NeedS) != 0 {
		if s.standard {
			s.dense, s.hubDense = kernel.NewTable[float32](s.features), kernel.NewTable[float32](s.features)
		} else {
			s.sparse, s.hubLists = &lists{}, &lists{}
			s.present = make([]uint64, (s.features+63)/64)
		}
		s.sum = make([]float32, s.features)
	}
	if s.need&(pool.NeedLabelled|pool.NeedSecond) != 0 {
		s.counts = kernel.NewTable[float32](s.classes)
	}
	return s
}

// Len is the number of nodes.
func (s *Vicinity) Len() int { return len(s.label) }

// Put gives node v its features, as they came: v is the next node, or one that
// is there. The vector must fit; it is not kept.
func (s *Vicinity) Put(v int32, x gnn.Vector) {
	switch {
	case int(v) == len(s.label):
		s.label = append(s.label, None)
		if s.counts != nil {
			s.counts.Grow(1)
		}
		if s.dense != nil {
			s.dense.Grow(1)
		}
		if s.sparse != nil {
			s.by = append(s.by, 0)
			s.sparse.grow(1)
		}
	case uint(v) > uint(len(s.label)):
		panic(fmt.Sprintf("vicinity: node %d where %d is next", v, len(s.label)))
	default:
		s.keep(v)
		s.expire(v)
	}
	switch {
	case s.dense != nil:
		row := s.dense.Row(v)
		if x.Dense != nil {
			copy(row, x.Dense)
			break
		}
		clear(row)
		for k, j := range x.Index {
			row[j] = x.Value[k]
		}
	case s.sparse != nil:
		s.entries = appendEntries(s.entries[:0], x)
		s.sparse.set(v, s.entries)
		s.by[v] = inverse(s.entries)
	}
}

// expire forgets the sums that v's features are in.
func (s *Vicinity) expire(v int32) {
	if len(s.hubs) == 0 || s.need&pool.NeedS == 0 {
		return
	}
	for _, u := range s.graph.Neighbours(v) {
		s.forget(u)
	}
}

// forget forgets the sum of v's neighbours' features.
func (s *Vicinity) forget(v int32) {
	if h, is := s.hubs[v]; is {
		s.free = append(s.free, h.slot)
		delete(s.hubs, v)
	}
}

// Link is called when edges were added to v, with its new neighbours.
func (s *Vicinity) Link(v int32, neighbours []int32) {
	if s.counts == nil {
		return
	}
	for _, u := range neighbours {
		if y := s.label[u]; y != None {
			s.counts.Row(v)[y]++
		}
		if y := s.label[v]; y != None {
			s.counts.Row(u)[y]++
		}
	}
}

// Label is called when the class of v, which had none, becomes known.
func (s *Vicinity) Label(v, class int32) {
	if s.label[v] != None {
		panic(fmt.Sprintf("vicinity: node %d has a label", v))
	}
	s.label[v] = class
	s.count(v, class, 1)
}

// count adds to the counts of v's neighbours.
func (s *Vicinity) count(v, class int32, by float32) {
	if s.counts == nil {
		return
	}
	for _, u := range s.graph.Neighbours(v) {
		s.counts.Row(u)[class] += by
	}
}

// Leave is called before nodes and their edges leave the graph: it takes their
// features and labels from all that they are in. Their own features stay until
// [Vicinity.Clear], for what was served of them may still be learned from.
func (s *Vicinity) Leave(nodes []int32) {
	for _, v := range nodes {
		if y := s.label[v]; y != None {
			s.count(v, y, -1)
			s.label[v] = None
		}
		s.expire(v)
		s.forget(v)
	}
	if s.counts != nil {
		for _, v := range nodes {
			clear(s.counts.Row(v))
		}
	}
}

// Clear forgets the features of v, which has left.
func (s *Vicinity) Clear(v int32) { s.Put(v, gnn.Vector{}) }

// Reset makes rows ready for [Vicinity.Append].
func (s *Vicinity) Reset(rows *pool.Rows) {
	rows.N = 0
	for _, x := range []*pool.Features{&rows.X, &rows.S} {
		x.Dense, x.Index, x.Value = x.Dense[:0], x.Index[:0], x.Value[:0]
		if s.sparse != nil {
			x.Start = append(x.Start[:0], 0)
		}
	}
	rows.Degree, rows.Labelled, rows.Second = rows.Degree[:0], rows.Labelled[:0], rows.Second[:0]
}

// Append adds the row of node v as it is now. What the pool does not need, and
// the embedding, is left out.
func (s *Vicinity) Append(rows *pool.Rows, v int32) {
	near := s.graph.Neighbours(v)
	s.appendFeatures(rows, v, near, len(near) > hubDegree)
	if s.counts != nil {
		rows.Labelled = append(rows.Labelled, s.counts.Row(v)...)
		s.appendSecond(rows, near, s.label[v], 0)
	}
}

// AppendFeatures adds the row of node v without what is known of labels.
func (s *Vicinity) AppendFeatures(rows *pool.Rows, v int32) {
	near := s.graph.Neighbours(v)
	s.appendFeatures(rows, v, near, len(near) > hubDegree)
}

// AppendWithout adds the row that node v would have without the edge to u.
func (s *Vicinity) AppendWithout(rows *pool.Rows, v, u int32) {
	var near []int32
	for _, w := range s.graph.Neighbours(v) {
		if w != u {
			near = append(near, w)
		}
	}
	s.appendFeatures(rows, v, near, false)
	if s.counts != nil {
		rows.Labelled = append(rows.Labelled, s.counts.Row(v)...)
		if y := s.label[u]; y != None {
			rows.Labelled[len(rows.Labelled)-s.classes+int(y)]--
		}
		s.appendSecond(rows, near, s.label[v], 0)
	}
}

// AppendArrival adds the row that a node with features x would have if it came
// with the given distinct neighbours.
func (s *Vicinity) AppendArrival(rows *pool.Rows, x gnn.Vector, near []int32) {
	switch {
	case s.dense != nil && x.Dense != nil:
		rows.X.Dense = append(rows.X.Dense, x.Dense...)
	case s.dense != nil:
		at := len(rows.X.Dense)
		rows.X.Dense = append(rows.X.Dense, make([]float32, s.features)...)
		for k, j := range x.Index {
			rows.X.Dense[at+int(j)] = x.Value[k]
		}
	case s.sparse != nil:
		s.entries = appendEntries(s.entries[:0], x)
		appendSparse(&rows.X, s.entries)
	}
	s.appendSum(rows, near)
	if s.counts == nil {
		return
	}
	at := len(rows.Labelled)
	rows.Labelled = append(rows.Labelled, make([]float32, s.classes)...)
	for _, u := range near {
		if y := s.label[u]; y != None {
			rows.Labelled[at+int(y)]++
		}
	}
	s.appendSecond(rows, near, None, 1)
}

func (s *Vicinity) appendFeatures(rows *pool.Rows, v int32, near []int32, hub bool) {
	switch {
	case s.dense != nil:
		rows.X.Dense = append(rows.X.Dense, s.dense.Row(v)...)
	case s.sparse != nil:
		appendSparse(&rows.X, s.sparse.view(v))
	}
	if !hub || s.need&pool.NeedS == 0 {
		s.appendSum(rows, near)
		return
	}
	rows.N++
	rows.Degree = append(rows.Degree, int32(len(near)))
	h, kept := s.hubs[v]
	if !kept {
		h = s.newHub()
	}
	news := near[h.summed:]
	h.summed = int32(len(near))
	s.hubs[v] = h
	if s.dense != nil {
		row := s.hubDense.Row(h.slot)
		for _, u := range news {
			kernel.Add(row, s.dense.Row(u))
		}
		rows.S.Dense = append(rows.S.Dense, row...)
		return
	}
	for _, e := range s.hubLists.view(h.slot) {
		s.add(e.index, e.value)
	}
	s.addNeighbours(news)
	s.entries = s.takeSum(s.entries[:0])
	s.hubLists.set(h.slot, s.entries)
	appendSparse(&rows.S, s.entries)
}

// newHub returns an empty sum.
func (s *Vicinity) newHub() hub {
	if n := len(s.free); n > 0 {
		h := hub{slot: s.free[n-1]}
		s.free = s.free[:n-1]
		if s.dense != nil {
			clear(s.hubDense.Row(h.slot))
		} else {
			s.hubLists.set(h.slot, nil)
		}
		return h
	}
	if s.dense != nil {
		s.hubDense.Grow(1)
	} else {
		s.hubLists.grow(1)
	}
	s.slots++
	return hub{slot: s.slots - 1}
}

// appendSum adds s of a row whose neighbours these are, and counts it.
func (s *Vicinity) appendSum(rows *pool.Rows, near []int32) {
	rows.N++
	rows.Degree = append(rows.Degree, int32(len(near)))
	switch {
	case s.need&pool.NeedS == 0:
	case s.dense != nil:
		clear(s.sum)
		kernel.Prefetch(s.dense, near, 0, s.features)
		for _, u := range near {
			kernel.Add(s.sum, s.dense.Row(u))
		}
		rows.S.Dense = append(rows.S.Dense, s.sum...)
	default:
		s.addNeighbours(near)
		s.entries = s.takeSum(s.entries[:0])
		appendSparse(&rows.S, s.entries)
	}
}

func (s *Vicinity) addNeighbours(near []int32) {
	for _, u := range near {
		by := s.by[u]
		for _, e := range s.sparse.view(u) {
			s.add(e.index, e.value*by)
		}
	}
}

func (s *Vicinity) add(j int32, x float32) {
	s.present[j>>6] |= 1 << (j & 63)
	s.sum[j] += x
}

// takeSum appends the entries of the sum, ascending, and leaves it empty.
func (s *Vicinity) takeSum(to []entry) []entry {
	for i, word := range s.present {
		for ; word != 0; word &= word - 1 {
			j := i<<6 | bits.TrailingZeros64(word)
			to = append(to, entry{int32(j), s.sum[j]})
			s.sum[j] = 0
		}
		s.present[i] = 0
	}
	return to
}

// appendSecond adds q of a node of the given label. more is 1 if the neighbours'
// edges to it are still to come.
func (s *Vicinity) appendSecond(rows *pool.Rows, near []int32, label int32, more int) {
	if s.need&pool.NeedSecond == 0 {
		return
	}
	at := len(rows.Second)
	rows.Second = append(rows.Second, make([]float32, s.classes)...)
	second := rows.Second[at:]
	kernel.Prefetch(s.counts, near, 0, s.classes)
	if label == None {
		for _, u := range near {
			kernel.Axpy(second, 1/float32(s.graph.Degree(u)+more), s.counts.Row(u))
		}
		return
	}
	var own float32
	for _, u := range near {
		by, counts := 1/float32(s.graph.Degree(u)+more), s.counts.Row(u)
		kernel.Axpy(second, by, counts)
		own += float32((counts[label] - 1) * by)
	}
	second[label] = own
}

func appendSparse(x *pool.Features, entries []entry) {
	for _, e := range entries {
		x.Index, x.Value = append(x.Index, e.index), append(x.Value, e.value)
	}
	x.Start = append(x.Start, len(x.Index))
}

// appendEntries appends what is not zero.
func appendEntries(to []entry, x gnn.Vector) []entry {
	for j, value := range x.Dense {
		if value != 0 {
			to = append(to, entry{int32(j), value})
		}
	}
	for k, j := range x.Index {
		if x.Value[k] != 0 {
			to = append(to, entry{int32(j), x.Value[k]})
		}
	}
	return to
}

// inverse returns 1/|x|, 0 for x = 0.
func inverse(x []entry) float32 {
	var square float64
	for _, e := range x {
		square += float64(float64(e.value) * float64(e.value))
	}
	if square == 0 {
		return 0
	}
	return float32(1 / math.Sqrt(square))
}
