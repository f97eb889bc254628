package gnn

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// The tensors of a graph of n nodes. Whole rows are kept as such, see
// incremental; rows of bfloat16 as their two parts.
const (
	tensorDegrees    = "graph.degrees"    // n
	tensorNeighbours = "graph.neighbours" // 2·edges, by node, in the order in which the edges came
	tensorStale      = "graph.stale"      // n: 1 where what was heard is to be made anew
	tensorRows       = "graph.rows"       // n×(own+heard)
	tensorOwn        = "graph.own"        // n×own
	tensorHeard      = "graph.heard"      // n×heard
)

// Frozen is a graph as it was when [Graph.Freeze] was called. What is small was
// copied then. Rows and adjacency stay where they are and are read from there:
// where an adjacency list only grows, its beginning is what it was, and a row
// that is changed or a list that gets shorter before it was read is copied
// before.
type Frozen struct {
	g      *Graph
	edges  int
	degree []int32
	stale  []uint8
	read   int32             // adjacency lists
	lists  map[int32][]int32 // those that got shorter, as they were

	whole *frozenRows[float32]
	// Or, with rows of bfloat16:
	half *frozenRows[uint16]
	sums *frozenRows[float32] // nil if nothing is heard
}

// Freeze holds the graph as it is, for [Frozen.Parts] to be read while nodes
// and edges come, until [Frozen.Release]. It takes a few nanoseconds a node.
// Meanwhile the graph takes some more time to change, and memory for the rows
// that are changed before they were read. It panics when the graph is frozen
// already.
func (g *Graph) Freeze() *Frozen {
	if g.frozen != nil {
		panic("gnn: the graph is frozen already")
	}
	f := &g.freezer
	if f.g == nil {
		f.g = g
		f.whole, f.half, f.sums = freezerOf(g.rows.whole, g.rowLen), freezerOf(g.rows.half, g.selfLen), freezerOf(g.rows.sums, g.rows.aggregateLen)
	}
	n := g.Len()
	f.edges, f.read = g.edges, 0
	f.degree, f.stale = kernel.Room(f.degree, n), kernel.Room(f.stale, n)
	for v := 0; v < n; {
		some := g.nodes.From(int32(v))
		degree, stale := f.degree[v:][:len(some)], f.stale[v:][:len(some)]
		for i := range some {
			degree[i], stale[i] = some[i].adj.len, 0
			if some[i].stale {
				stale[i] = 1
			}
		}
		v += len(some)
	}
	f.whole.begin(n)
	f.half.begin(n)
	f.sums.begin(n)
	g.frozen = f
	return f
}

// Release ends what Freeze began. Room that was taken is kept for the next
// time. Parts may not be read any more.
func (f *Frozen) Release() { f.g.frozen, f.lists = nil, nil }

// keep copies a row that is about to be changed.
func (f *Frozen) keep(v int32) {
	f.whole.keep(v)
	f.half.keep(v)
	f.sums.keep(v)
}

// keepList copies an adjacency list that is about to get shorter.
func (f *Frozen) keepList(v int32) {
	if v < f.read || int(v) >= len(f.degree) {
		return
	}
	if _, kept := f.lists[v]; kept {
		return
	}
	if f.lists == nil {
		f.lists = make(map[int32][]int32)
	}
	f.lists[v] = slices.Clone(f.g.Neighbours(v)[:f.degree[v]])
}

// list returns the next adjacency list as it was.
func (f *Frozen) list() []int32 {
	v := f.read
	f.read++
	if list, kept := f.lists[v]; kept {
		delete(f.lists, v)
		return list
	}
	return f.g.Neighbours(v)[:f.degree[v]]
}

// Parts returns the tensors that [Thaw] makes the graph of. They are to be read
// between calls of the graph's methods, and once.
func (f *Frozen) Parts() []safetensors.Part {
	n := len(f.degree)
	parts := []safetensors.Part{
		safetensors.PartOf(tensorDegrees, f.degree, n),
		safetensors.NewPart[int32](tensorNeighbours, func(b []byte) []byte { return safetensors.Append(b, f.list()...) }, 2*f.edges),
		safetensors.PartOf(tensorStale, f.stale, n),
	}
	if f.whole != nil {
		return append(parts, f.whole.part(tensorRows, f.g.rowLen))
	}
	if f.sums != nil {
		parts = append(parts, f.sums.part(tensorHeard, f.g.rows.aggregateLen))
	}
	return append(parts, f.half.part(tensorOwn, f.g.selfLen))
}

// frozenRows is the first rows of a table as they were. A nil one is of no
// table.
type frozenRows[T safetensors.Element] struct {
	table  *kernel.Table[T]
	next   int32   // the first row that was not read
	place  []int32 // by row: 0 where it is as it was, or the number of its copy and 1
	copies *kernel.Table[T]
	count  int32 // of the copies
}

func freezerOf[T safetensors.Element](table *kernel.Table[T], width int) *frozenRows[T] {
	if table == nil {
		return nil
	}
	return &frozenRows[T]{table: table, copies: kernel.NewTable[T](width)}
}

func (f *frozenRows[T]) begin(n int) {
	if f != nil {
		f.place = kernel.Room(f.place, n)
		clear(f.place)
		f.next, f.count = 0, 0
	}
}

func (f *frozenRows[T]) keep(v int32) {
	if f == nil || v < f.next || int(v) >= len(f.place) || f.place[v] != 0 {
		return
	}
	if int(f.count) == f.copies.Len() {
		f.copies.Grow(1)
	}
	copy(f.copies.Row(f.count), f.table.Row(v))
	f.count++
	f.place[v] = f.count
}

func (f *frozenRows[T]) part(name string, width int) safetensors.Part {
	return safetensors.NewPart[T](name, func(b []byte) []byte {
		row := f.table.Row(f.next)
		if place := f.place[f.next]; place != 0 {
			row = f.copies.Row(place - 1)
		}
		f.next++
		return safetensors.Append(b, row...)
	}, len(f.place), width)
}

// Thaw makes a graph of the tensors that [Frozen.Parts] gave, of the same
// encoder and with the same options but for [Workers]. It returns an error that
// wraps [safetensors.ErrDamaged] when they are no graph's.
func Thaw(encoder Encoder, file *safetensors.Reader, options ...Option) (*Graph, error) {
	g := NewGraph(encoder, options...)
	n := file.Len(tensorDegrees)
	degree, err := safetensors.Read[int32](file, tensorDegrees, n)
	if err != nil {
		return nil, err
	}
	if n > math.MaxInt32 {
		return nil, notAGraph("%d nodes, at most %d are possible", n, math.MaxInt32)
	}
	stale, err := safetensors.Read[uint8](file, tensorStale, n)
	if err != nil {
		return nil, err
	}
	neighbours, err := safetensors.Read[int32](file, tensorNeighbours, file.Len(tensorNeighbours))
	if err != nil {
		return nil, err
	}
	g.nodes.Grow(n)
	for v := range int32(n) {
		node := g.nodes.At(v)
		switch {
		case stale[v] == 1 && g.aggregates():
			g.markStale(node)
		case stale[v] != 0:
			return nil, notAGraph("node %d cannot be stale as %d says", v, stale[v])
		}
	}
	// Adjacency is mostly the wait for memory, and one goroutine's.
	var edges error
	var other sync.WaitGroup
	other.Go(func() { edges = g.thawEdges(degree, neighbours) })
	err = g.rows.thaw(file, n)
	other.Wait()
	if err == nil {
		err = edges
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// thaw reads n rows. Numbers in them may be infinite or none, as features beyond
// float32's sums make them.
func (t *rowTable) thaw(file *safetensors.Reader, n int) error {
	if t.whole != nil {
		return safetensors.ReadRows(file, tensorRows, t.whole, nil, n, t.selfLen+t.aggregateLen)
	}
	if t.sums != nil {
		if err := safetensors.ReadRows(file, tensorHeard, t.sums, nil, n, t.aggregateLen); err != nil {
			return err
		}
	}
	return safetensors.ReadRows(file, tensorOwn, t.half, nil, n, t.selfLen)
}

// thawEdges gives nodes without edges those of the lists of neighbours, of the
// given lengths, one after the other. The lists must be those of a simple,
// undirected graph: that each edge stands at both of its ends is not looked for
// edge by edge, for which the lists would have to be sorted, but taken from a
// sum of one 64-bit hash an edge, added at one end and subtracted at the other.
func (g *Graph) thawEdges(degree, neighbours []int32) error {
	n := len(degree)
	met := make([]int32, n) // by node: the last whose neighbour it is, and 1
	sum := uint64(0)
	rest := neighbours
	for v := range int32(n) {
		d := int(degree[v])
		if d < 0 || d > len(rest) || d > 1<<30 {
			return notAGraph("node %d has %d neighbours, there are %d more", v, d, len(rest))
		}
		for _, u := range rest[:d] {
			if uint(u) >= uint(n) || u == v || met[u] == v+1 {
				return notAGraph("node %d of %d has the neighbour %d, or has it twice", v, n, u)
			}
			met[u] = v + 1
			if u > v {
				sum += edgeHash(v, u)
			} else {
				sum -= edgeHash(u, v)
			}
		}
		g.adj.fill(&g.nodes.At(v).adj, rest[:d])
		rest = rest[d:]
	}
	if len(rest) > 0 || sum != 0 {
		return notAGraph("an edge stands at one of its ends only")
	}
	g.edges = len(neighbours) / 2
	return nil
}

// edgeHash mixes an edge's ends (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, 2014).
func edgeHash(u, v int32) uint64 {
	x := (uint64(u)<<32 | uint64(uint32(v))) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func notAGraph(format string, args ...any) error {
	return fmt.Errorf("%w: graph: "+format, append([]any{safetensors.ErrDamaged}, args...)...)
}
