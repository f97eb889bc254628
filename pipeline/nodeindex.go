package pipeline

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
)

// waitingEdgeBytes bounds the memory of waiting edges: ids may be a kilobyte long, so
// their total length is limited to this average per edge of the bound.
const waitingEdgeBytes = 256

// nodeIndex maps ids to node numbers and back, and keeps the edges to nodes that have
// not arrived yet.
type nodeIndex struct {
	integers integers         // node numbers by integer id
	strings  map[string]int32 // node numbers by string id
	ids      ids              // ids by node number
	// waiting has, by the id of a node that has not arrived, the nodes that named it.
	waiting *queue[event.ID, []int32]
	edges   int // total length of the lists in waiting, at most bound
	bytes   int // total length of the ids in waiting, at most waitingEdgeBytes*bound
	bound   int
}

func newNodeIndex(bound int) *nodeIndex {
	return &nodeIndex{
		integers: integers{sparse: make(map[int64]int32)}, strings: make(map[string]int32),
		ids:     ids{numbers: kernel.NewTable[int64](1)},
		waiting: newQueue[event.ID, []int32](), bound: bound,
	}
}

// number returns a node's number, if the node is in the graph.
func (x *nodeIndex) number(id event.ID) (v int32, known bool) {
	if id.Str == "" {
		return x.integers.get(id.Num)
	}
	v, known = x.strings[id.Str]
	return v, known
}

// enter adds a node with its number.
func (x *nodeIndex) enter(id event.ID, v int32) {
	id = id.Clone()
	if id.Str == "" {
		x.integers.put(id.Num, v)
	} else {
		x.strings[id.Str] = v
	}
	x.ids.set(v, id)
}

// leave removes the mapping from an id to its number. The mapping back stays until the
// caller clears it in ids, since a pending node that left keeps its number.
func (x *nodeIndex) leave(id event.ID) {
	if id.Str == "" {
		x.integers.drop(id.Num)
	} else {
		delete(x.strings, id.Str)
	}
}

// wait keeps the edge from v to id until id arrives. It returns how many older edges
// were dropped to make room.
func (x *nodeIndex) wait(id event.ID, v int32) (dropped int) {
	if list := x.waiting.edit(id); list != nil {
		*list = append(*list, v)
	} else {
		x.waiting.put(id.Clone(), []int32{v})
		x.bytes += len(id.Str)
	}
	x.edges++
	for x.edges > x.bound || x.bytes > waitingEdgeBytes*x.bound {
		id, list := x.waiting.removeOldest()
		x.edges -= len(list)
		x.bytes -= len(id.Str)
		dropped += len(list)
	}
	return dropped
}

// claim removes and returns the nodes that named id, in the order in which they named
// it.
func (x *nodeIndex) claim(id event.ID) []int32 {
	list, waited := x.waiting.remove(id)
	if waited {
		x.edges -= len(list)
		x.bytes -= len(id.Str)
	}
	return list
}

// withdraw removes the waiting edges that departed nodes named, and returns their
// number. It takes time proportional to all waiting edges. A list is not shortened in
// place but replaced, since an open snapshot may still read it.
func (x *nodeIndex) withdraw(departed func(v int32) bool) (edges int) {
	for slot := x.waiting.head; slot != none; {
		entry := x.waiting.entries.at(slot)
		next := entry.next
		if slices.ContainsFunc(entry.value, departed) {
			left := make([]int32, 0, len(entry.value))
			for _, v := range entry.value {
				if !departed(v) {
					left = append(left, v)
				}
			}
			edges += len(entry.value) - len(left)
			x.waiting.change(slot).value = left
			if len(left) == 0 {
				x.bytes -= len(entry.key.Str)
				x.waiting.remove(entry.key)
			}
		}
		slot = next
	}
	x.edges -= edges
	return edges
}

// integers maps integer ids to node numbers. Ids from 0 to about four times their count,
// as a counter gives them, are in a list, which is several times as fast as a map; a
// typical arrival looks up a dozen ids. All others are in a map.
type integers struct {
	dense  []int32 // by id: its number plus 1, or 0
	sparse map[int64]int32
	count  int64
}

func (m *integers) get(id int64) (v int32, known bool) {
	if uint64(id) < uint64(len(m.dense)) && m.dense[id] != 0 {
		return m.dense[id] - 1, true
	}
	if len(m.sparse) > 0 {
		v, known = m.sparse[id]
	}
	return v, known
}

// put adds an id, which must not be in the map.
func (m *integers) put(id int64, v int32) {
	m.count++
	limit := 4 * (m.count + 1024)
	if uint64(id) >= uint64(limit) {
		m.sparse[id] = v
		return
	}
	if id >= int64(len(m.dense)) {
		m.dense = append(m.dense, make([]int32, min(2*id+1024, limit)-int64(len(m.dense)))...)
	}
	m.dense[id] = v + 1
}

// drop removes an id, which must be in the map.
func (m *integers) drop(id int64) {
	m.count--
	if uint64(id) < uint64(len(m.dense)) && m.dense[id] != 0 {
		m.dense[id] = 0
		return
	}
	delete(m.sparse, id)
}
