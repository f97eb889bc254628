package structure

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// numbers has what is stored for each node number apart from the graph.
type numbers struct {
	index   *nodeIndex
	states  store.Chunked[nodeState]
	context bitset // set for context nodes
	kept    *kept  // nil unless updates may be partial
	order   order
	frozen  snapshot.Freeze[nodeRecord]
}

// nodeState is the state of a node apart from the graph.
type nodeState struct {
	label           int32 // its class, none before its label came
	gone            bool  // the node left, and its number has no other node yet
	hasWaitingEdges bool  // edges that it named may be waiting, see waitingEdges.leave
	past            past
}

// past is what is to be known of a node's labels beside its class.
type past uint8

const (
	// Late means that the first label came when what was served was no longer kept.
	Late past = 1 << iota
	// Replaced means that the node's features were replaced since its label came.
	Replaced
	// Withdrawn means that the node has no label any more.
	Withdrawn
)

// len returns how many numbers there are: all are below it.
func (n *numbers) len() int { return n.states.Len() }

// gone reports whether number v has no node in the graph.
func (n *numbers) gone(v int32) bool { return n.states.At(v).gone }

// id returns the id of number v.
func (n *numbers) id(v int32) event.ID { return n.index.ids.at(v) }

// enter begins the state of number v, which is the next one or was vacated.
func (n *numbers) enter(v int32, node *event.Node) {
	if int(v) == n.states.Len() {
		n.states.Add(nodeState{})
	}
	*n.states.At(v) = nodeState{label: none}
	n.context.set(v, node.Context)
	n.index.enter(node.ID, v)
}

// leave removes the id of node v. Its number has no node until another one enters.
func (n *numbers) leave(id event.ID, v int32) {
	n.index.leave(id)
	n.change(v).gone = true
	n.kept.set(v, "")
}

// vacate forgets what is stored for number v.
func (n *numbers) vacate(v int32) {
	*n.change(v) = nodeState{label: none, gone: true}
	n.context.set(v, false)
	n.index.ids.clear(v)
}

// order has, by number, how many nodes arrived before this one. It is nil until a number is used
// twice: up to then it is the number itself.
type order struct {
	of   []int64
	next int64 // the next value
}

// before reports whether node u arrived before node v.
func (o *order) before(u, v int32) bool {
	if o.of == nil {
		return u < v
	}
	return o.of[u] < o.of[v]
}

// arrive records that a node arrives as number v, of count numbers. It is the next one, or is used again.
func (o *order) arrive(v int32, count int) {
	if o.of == nil {
		if int(v) == count {
			return
		}
		o.of = make([]int64, count)
		for u := range o.of {
			o.of[u] = int64(u)
		}
		o.next = int64(count)
	}
	if int(v) == len(o.of) {
		o.of = append(o.of, 0)
	}
	o.of[v] = o.next
	o.next++
}

// bitset has a bit for each node number. The bits of a million nodes fit into a fast
// cache, and Surroundings reads those of all neighbours at every label.
type bitset []uint64

// set sets the bit of node v to on. v may be one past the last node.
func (m *bitset) set(v int32, on bool) {
	if int(v>>6) == len(*m) {
		*m = append(*m, 0)
	}
	bit := uint64(1) << (v & 63)
	(*m)[v>>6] &^= bit
	if on {
		(*m)[v>>6] |= bit
	}
}

// at returns the bit of node v, 0 or 1.
func (m bitset) at(v int32) int { return int(m[v>>6] >> (v & 63) & 1) }

func (m bitset) has(v int32) bool { return m.at(v) == 1 }
