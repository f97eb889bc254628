package gnn

import (
	"math"
	"sync"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// The tensors of a graph of n nodes. Rows are kept whole or, as bfloat16, in
// their two parts, see rowTable.
const (
	tensorDegrees    = "graph.degrees"    // I32, n
	tensorNeighbours = "graph.neighbours" // I32, 2·edges: by node, in the order in which its edges came
	tensorStale      = "graph.stale"      // U8, n: 1 where the aggregate is to be recomputed
	tensorRows       = "graph.rows"       // F32, n × (self term and aggregate)
	tensorSelf       = "graph.own"        // BF16, n × self term
	tensorAggregate  = "graph.heard"      // F32, n × aggregate
	tensorApart      = "graph.apart"      // U8, 1: there if a graph that did not tell edges apart at first does
)

// frozenLinks is the view of a graph's edges at the time of [Graph.State], for saving.
// Degrees and stale marks are copied at that time. Rows, and adjacency lists that
// lose neighbours, are copied before they change. A list that only grows needs no
// copy: its first degree[v] elements are the old list.
type frozenLinks struct {
	degree []int32
	stale  []uint8
	lists  snapshot.Freeze[int32]
}

// frozenRows are the views of a rowTable's tables.
type frozenRows struct {
	whole snapshot.Freeze[float32]
	half  snapshot.Freeze[uint16]
	sums  snapshot.Freeze[float32]
}

// keep lets a snapshot copy v's row, which is about to change.
func (g *Graph) keep(v int32) {
	if g.links.frozen.lists.On() {
		g.rows.keep(v)
	}
}

func (t *rowTable) keep(v int32) {
	if t.whole != nil {
		t.frozen.whole.Keep(v, t.whole.Row(v))
		return
	}
	t.frozen.half.Keep(v, t.half.Row(v))
	if t.sums != nil {
		t.frozen.sums.Keep(v, t.sums.Row(v))
	}
}

// keepList lets a snapshot copy v's adjacency list, which is about to lose
// neighbours.
func (l *links) keepList(v int32) {
	if f := &l.frozen; f.lists.Wants(v) {
		f.lists.Keep(v, l.near(v)[:f.degree[v]])
	}
}

// State declares the graph to a schema, which saves or restores it.
//
// When saving, the call takes a few nanoseconds for each node. Until the schema
// is released, changes of the graph take somewhat longer, and rows that change
// before they are read are copied. It panics when the graph is already being
// saved.
//
// When restoring, the graph must be empty and have the encoder and options of the
// saved one; [Workers] and [Reserve] may differ.
func (g *Graph) State(s *snapshot.Schema) {
	f := &g.links.frozen
	n := s.Len(tensorDegrees, g.Len(), math.MaxInt32)
	if g.apart != nil && s.Has(tensorApart, g.TellsApart()) {
		snapshot.Array(s, tensorApart, []uint8{1}, 1)
		g.TellApart()
	}
	s.Freeze(&f.lists, n)
	if s.Saving() {
		f.degree, f.stale = g.links.degreesAndStale(f.degree, f.stale)
	}
	list := f.lists.Walk(func(v int32) []int32 { return g.Neighbours(v)[:f.degree[v]] })
	degree := snapshot.Array(s, tensorDegrees, f.degree, n)
	neighbours := snapshot.Lists(s, tensorNeighbours, list, s.Len(tensorNeighbours, 2*g.links.edges, math.MaxInt))
	stale := snapshot.Array(s, tensorStale, f.stale, n)

	var edges error
	var other sync.WaitGroup
	s.Check(func() error {
		g.links.nodes.Grow(n)
		g.kinds.grow(n)
		// Setting the edges is serial and mostly waits for memory, so the rows are
		// read at the same time.
		other.Go(func() { edges = g.links.setEdges(degree, neighbours) })
		return nil
	})
	g.rows.state(s, n)
	g.kinds.state(s, n)
	other.Wait()
	s.Check(func() error { return edges })
	s.Check(func() error { return g.links.setStale(stale, g.rows.aggregates()) })
}

// state declares n rows. Their elements may be infinite or NaN: features can be
// so large that their sums are beyond float32.
func (t *rowTable) state(s *snapshot.Schema, n int) {
	if t.whole != nil {
		snapshot.Rows(s, tensorRows, t.whole, &t.frozen.whole, nil, n, t.selfLen+t.aggregateLen)
		return
	}
	if t.sums != nil {
		snapshot.Rows(s, tensorAggregate, t.sums, &t.frozen.sums, nil, n, t.aggregateLen)
	}
	snapshot.Rows(s, tensorSelf, t.half, &t.frozen.half, nil, n, t.selfLen)
}

// degreesAndStale returns by node its degree, and 1 if it is stale, else 0. It
// reuses the memory of the two slices.
func (l *links) degreesAndStale(degree []int32, stale []uint8) ([]int32, []uint8) {
	n := l.nodes.Len()
	degree, stale = kernel.Room(degree, n), kernel.Room(stale, n)
	for v := 0; v < n; {
		block := l.nodes.From(int32(v))
		degree, stale := degree[v:][:len(block)], stale[v:][:len(block)]
		for i := range block {
			degree[i], stale[i] = int32(block[i].adj.Len()), 0
			if block[i].stale {
				stale[i] = 1
			}
		}
		v += len(block)
	}
	return degree, stale
}

// setStale marks the stale nodes of a graph that has none.
func (l *links) setStale(stale []uint8, aggregates bool) error {
	for v, x := range stale {
		switch {
		case x == 1 && aggregates:
			l.markStale(l.nodes.At(int32(v)))
		case x != 0:
			return notAGraph("node %d cannot be stale as %d says", v, x)
		}
	}
	return nil
}

// setEdges sets the adjacency lists of a graph without edges. neighbours holds
// the lists one after the other, of the lengths in degree. It returns an error
// unless they are those of a simple, undirected graph. That each edge is in the
// lists of both its ends is checked by a sum of a 64-bit hash of each edge, added
// at one end and subtracted at the other: searching for each edge would require
// sorted lists.
func (l *links) setEdges(degree, neighbours []int32) error {
	n := len(degree)
	seen := make([]int32, n) // by node: 1 + the last node whose neighbour it is
	sum := uint64(0)
	rest := neighbours
	for v := range int32(n) {
		d := int(degree[v])
		if d < 0 || d > len(rest) || d > 1<<30 {
			return notAGraph("node %d has %d neighbours, there are %d more", v, d, len(rest))
		}
		for _, u := range rest[:d] {
			if uint(u) >= uint(n) || u == v || seen[u] == v+1 {
				return notAGraph("node %d of %d has the neighbour %d, or has it twice", v, n, u)
			}
			seen[u] = v + 1
			if u > v {
				sum += edgeHash(v, u)
			} else {
				sum -= edgeHash(u, v)
			}
		}
		l.adj.Set(&l.nodes.At(v).adj, rest[:d])
		rest = rest[d:]
	}
	if len(rest) > 0 || sum != 0 {
		return notAGraph("an edge is in the list of one of its ends only")
	}
	l.edges = len(neighbours) / 2
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
	return snapshot.Damaged("graph: "+format, args...)
}
