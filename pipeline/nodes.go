package pipeline

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// nodes are the graph and what is known of its nodes: their ids, states,
// departures, and the edges that wait for a node. Its methods enter (arrive.go,
// depart.go) bring them up to date with a window.
type nodes struct {
	model    *model.Model
	graph    *gnn.Graph
	index    *nodeIndex
	states   chunked[nodeState] // by node number
	context  marks              // by node number: part of the graph, and not predicted
	departed departed

	// pending is asked for the predictions of nodes that leave.
	pending *pending
	// followers keep something beside the graph and are told of its changes.
	followers []follower
	// arrivals are those of the window in hand.
	arrivals arrivals

	frozen snapshot.Freeze[nodeRecord]
}

// nodeState is what is known of a node beside its place in the graph.
type nodeState struct {
	label int32 // the class that was told, none before
	gone  bool  // it left, and no other node has its number
	waits bool  // edges that it named may wait, see [nodeIndex.withdraw]
}

// follower is a part that keeps something beside the graph. It is told of every
// change, within a window in the order of these methods, but for labelled, which
// comes when the window's labels are joined, and vacated, which comes at any time.
type follower interface {
	// entered: node v has these features, as they came: it is new, or its features
	// were replaced.
	entered(v int32, x gnn.Vector)
	// leaving: nodes are about to leave the graph with their edges.
	leaving(nodes []int32)
	// left: they are out of the graph.
	left()
	// linked: node v named near, or was waited for by them; edges to added are new.
	linked(v int32, near, added []int32)
	// labelled: node v, which is in the graph and had no label, has this one.
	labelled(v, class int32)
	// vacated: number v is of no node any more.
	vacated(v int32)
}

func newNodes(m *model.Model, graph *gnn.Graph, cfg Config, p *pending) *nodes {
	return &nodes{
		model: m, graph: graph, index: newNodeIndex(cfg.MaxWaitingEdges),
		departed: newDeparted(), pending: p, arrivals: arrivals{replaced: make(map[int32]*event.Node)},
	}
}

// len is the number of nodes in the graph.
func (n *nodes) len() int { return n.graph.Len() - n.departed.len() }

// surroundings counts the neighbours of node v that came before it, and those of
// them that are not context.
func (n *nodes) surroundings(v int32) (degree, fresh int) {
	for _, u := range n.graph.Neighbours(v) {
		before := 0 // without branches, which nobody could predict
		if n.departed.before(u, v) {
			before = 1
		}
		degree += before
		fresh += before &^ n.context.at(u)
	}
	return degree, fresh
}

// label gives node v, which had no label, its class.
func (n *nodes) label(v, class int32) {
	state := n.change(v)
	state.label = class
	if state.gone {
		return
	}
	for _, f := range n.followers {
		f.labelled(v, class)
	}
}

// marks are a bit for each node, by number, so that those of a million nodes fit
// a near cache: with every label all of its node's neighbours are looked up.
type marks []uint64

// set sets the bit of node v, which may be one past the last.
func (m *marks) set(v int32, on bool) {
	if int(v>>6) == len(*m) {
		*m = append(*m, 0)
	}
	bit := uint64(1) << (v & 63)
	(*m)[v>>6] &^= bit
	if on {
		(*m)[v>>6] |= bit
	}
}

// at is 1 for a node that is marked and 0 for one that is not.
func (m marks) at(v int32) int { return int(m[v>>6] >> (v & 63) & 1) }

func (m marks) has(v int32) bool { return m.at(v) == 1 }
