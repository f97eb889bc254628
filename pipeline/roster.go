package pipeline

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
)

// roster gives nodes their numbers in the graph and keeps the edges that name
// a node which has not come yet (late binding).
type roster struct {
	integers integers // numbers of the nodes with integer ids
	strings  map[string]int32
	waiting  *queue[event.ID, []int32] // unknown id -> the nodes that named it
	edges    int                       // total length of the lists in waiting
	bytes    int                       // total length of the ids in waiting
	bound    int                       // of edges
	came     ids                       // by number
}

func newRoster(bound int) *roster {
	return &roster{
		integers: integers{far: make(map[int64]int32)}, strings: make(map[string]int32),
		waiting: newQueue[event.ID, []int32](), bound: bound,
		came: ids{numbers: kernel.NewTable[int64](1)},
	}
}

// number returns a node's number, if it has come.
func (r *roster) number(id event.ID) (v int32, known bool) {
	if id.Str == "" {
		return r.integers.get(id.Num)
	}
	v, known = r.strings[id.Str]
	return v, known
}

// enter gives a node that comes its number.
func (r *roster) enter(id event.ID, v int32) {
	id = id.Clone()
	if id.Str == "" {
		r.integers.put(id.Num, v)
	} else {
		r.strings[id.Str] = v
	}
	r.came.set(v, id)
}

// leave forgets which number a node has. That the number is of this id is for
// the caller to forget, with came.clear.
func (r *roster) leave(id event.ID) {
	if id.Str == "" {
		r.integers.drop(id.Num)
	} else {
		delete(r.strings, id.Str)
	}
}

// wait keeps the edge from v to id until id comes, and returns how many older
// edges had to go for it.
func (r *roster) wait(id event.ID, v int32) (dropped int) {
	if list := r.waiting.get(id); list != nil {
		*list = append(*list, v)
	} else {
		r.waiting.put(id.Clone(), []int32{v})
		r.bytes += len(id.Str)
	}
	r.edges++
	for r.edges > r.bound || r.bytes > waitingEdgeBytes*r.bound {
		id, list := r.waiting.oldest()
		r.edges -= len(list)
		r.bytes -= len(id.Str)
		dropped += len(list)
	}
	return dropped
}

// claim returns the nodes that waited for id, in the order in which they named
// it, and forgets them.
func (r *roster) claim(id event.ID) []int32 {
	list, waited := r.waiting.take(id)
	if waited {
		r.edges -= len(list)
		r.bytes -= len(id.Str)
	}
	return list
}

// withdraw forgets the edges that wait and were named by nodes that have gone,
// and returns how many. It looks at all that wait. Lists stay as they are: one
// that gets shorter is made anew, and keep is told of the old one and its slot.
func (r *roster) withdraw(gone func(v int32) bool, keep func(slot int32, list []int32)) (edges int) {
	for slot := r.waiting.head; slot != none; {
		entry := r.waiting.entries.at(slot)
		next := entry.next
		if slices.ContainsFunc(entry.value, gone) {
			keep(slot, entry.value)
			left := make([]int32, 0, len(entry.value))
			for _, v := range entry.value {
				if !gone(v) {
					left = append(left, v)
				}
			}
			edges += len(entry.value) - len(left)
			entry.value = left
			if len(left) == 0 {
				r.bytes -= len(entry.key.Str)
				r.waiting.take(entry.key)
			}
		}
		slot = next
	}
	r.edges -= edges
	return edges
}

// integers maps ids to numbers. Those from 0 to a few times their number, as
// counters give them, lie in a list, which is read several times as quickly as a
// map: an arrival names a dozen ids. Any others are in a map.
type integers struct {
	near  []int32 // by id: its number and 1, or 0
	far   map[int64]int32
	count int64
}

func (m *integers) get(id int64) (v int32, known bool) {
	if uint64(id) < uint64(len(m.near)) && m.near[id] != 0 {
		return m.near[id] - 1, true
	}
	if len(m.far) > 0 {
		v, known = m.far[id]
	}
	return v, known
}

// put enters an id that is not there.
func (m *integers) put(id int64, v int32) {
	m.count++
	limit := 4 * (m.count + 1024)
	if uint64(id) >= uint64(limit) {
		m.far[id] = v
		return
	}
	if id >= int64(len(m.near)) {
		m.near = append(m.near, make([]int32, min(2*id+1024, limit)-int64(len(m.near)))...)
	}
	m.near[id] = v + 1
}

// drop forgets an id that is there.
func (m *integers) drop(id int64) {
	m.count--
	if uint64(id) < uint64(len(m.near)) && m.near[id] != 0 {
		m.near[id] = 0
		return
	}
	delete(m.far, id)
}
