package pipeline

import "github.com/gvbll/gvbll/pipeline/event"

// roster gives nodes their numbers in the graph and keeps the edges that name
// a node which has not come yet (late binding).
type roster struct {
	integers map[int64]int32 // numbers of the nodes with integer ids
	strings  map[string]int32
	waiting  *queue[event.ID, []int32] // unknown id -> the nodes that named it
	edges    int                       // total length of the lists in waiting
	bound    int                       // of edges
}

func newRoster(bound int) *roster {
	return &roster{integers: make(map[int64]int32), strings: make(map[string]int32), waiting: newQueue[event.ID, []int32](), bound: bound}
}

// number returns a node's number, if it has come.
func (r *roster) number(id event.ID) (v int32, known bool) {
	if id.Str == "" {
		v, known = r.integers[id.Num]
	} else {
		v, known = r.strings[id.Str]
	}
	return v, known
}

// enter gives a node that comes its number.
func (r *roster) enter(id event.ID, v int32) {
	if id.Str == "" {
		r.integers[id.Num] = v
	} else {
		r.strings[id.Str] = v
	}
}

// wait keeps the edge from v to id until id comes, and returns how many older
// edges had to go for it.
func (r *roster) wait(id event.ID, v int32) (dropped int) {
	if list := r.waiting.get(id); list != nil {
		*list = append(*list, v)
	} else {
		r.waiting.put(id, []int32{v})
	}
	r.edges++
	for r.edges > r.bound {
		_, list := r.waiting.oldest()
		r.edges -= len(list)
		dropped += len(list)
	}
	return dropped
}

// claim returns the nodes that waited for id, in the order in which they named
// it, and forgets them.
func (r *roster) claim(id event.ID) []int32 {
	list, _ := r.waiting.take(id)
	r.edges -= len(list)
	return list
}
