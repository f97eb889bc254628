package structure

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
)

// nodeIndex maps ids to node numbers and back.
type nodeIndex struct {
	integers integers         // node numbers by integer id
	strings  map[string]int32 // node numbers by string id
	ids      ids              // ids by node number
}

func newNodeIndex() *nodeIndex {
	return &nodeIndex{
		integers: integers{sparse: make(map[int64]int32)}, strings: make(map[string]int32),
		ids: ids{numbers: kernel.NewTable[int64](1)},
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

// numberOf is number, or none of an id that is not known.
func (x *nodeIndex) numberOf(id event.ID) int32 {
	if v, known := x.number(id); known {
		return v
	}
	return none
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
		if 4*limit < 5*int64(len(m.dense)) { // ids at the list's end would have it copied for each
			m.sparse[id] = v
			return
		}
		longer := kernel.Zeros[int32](int(min(2*id+1024, limit)))
		copy(longer, m.dense)
		m.dense = longer
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
