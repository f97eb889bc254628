package pipeline

import (
	"unsafe"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// nodes is the graph with everything else that is stored for each node: ids, states,
// departures, and edges that wait for a node. enter (arrive.go, depart.go, edges.go)
// applies a window to it.
//
// graph, states, context and index.ids have one entry for each node number.
type nodes struct {
	graph      *gnn.Graph
	encoder    gnn.Encoder
	normalizer *gnn.Normalizer
	classes    int

	index    *nodeIndex
	states   chunked[nodeState] // by node number
	context  bitset             // by node number: set for context nodes
	departed departed
	waiting  *waitingEdges

	pending   awaiting   // for the predictions of nodes that leave
	followers []follower // called at every change of the graph
	arrivals  arrivals   // of the current window
	removals  removals   // of the current window

	frozen snapshot.Freeze[nodeRecord]
}

// nodeState is the state of a node apart from the graph.
type nodeState struct {
	label           int32 // its class, none before its label came
	gone            bool  // the node left, and its number has no other node yet
	hasWaitingEdges bool  // edges that it named may be waiting, see [waitingEdges.leave]
}

// follower is a part that keeps data about the graph's nodes or edges in step with the
// graph. While a window enters, the methods are called in this order:
//
//  1. entered, for every accepted arrival and update, in canonical order;
//  2. leaving, then left, once each, if nodes leave;
//  3. unlinked, once, if edges are removed from between nodes that stay;
//  4. linked, in canonical order, for every accepted node that did not leave, and for
//     every event that adds edges.
//
// labelled is called later, when the window's labels are joined. vacated may be called at
// any time after the node has left. Slices are valid during the call only.
type follower interface {
	// entered reports that node v arrived with features x, or that x replaces its
	// features. x is as received: not normalised. If v is new, the graph does
	// not have it yet.
	entered(v int32, x gnn.Vector)
	// leaving reports nodes that are about to leave the graph. They still have their
	// edges.
	leaving(nodes []int32)
	// left reports that the nodes of the last leaving call are out of the graph.
	left()
	// unlinked reports edges, once each, that are out of the graph.
	unlinked(edges [][2]int32)
	// linked reports that the graph has the edges between v and near: the neighbours
	// that v named and the nodes that waited for v, repeated ones included, or those of
	// an event of edges. Edges to added are new; added has no repeated nodes.
	linked(v int32, near, added []int32)
	// labelled reports the label of node v, which is in the graph and had none. A
	// restored snapshot reports all labels again.
	labelled(v, class int32)
	// vacated reports that number v, whose node has left, is free for another node.
	vacated(v int32)
}

// awaiting is what was predicted and waits for its label. Which nodes wait does not depend on
// what was predicted for them.
type awaiting interface {
	// waits reports whether the prediction of node v waits for its label.
	waits(v int32) bool
	// drop ends the wait of node v, if it waits.
	drop(v int32)
}

// nodesConfig is what nodes need to know of a model and its settings.
type nodesConfig struct {
	encoder         gnn.Encoder
	normalizer      *gnn.Normalizer
	classes         int // number of labels that a node may have
	maxWaitingEdges int
}

func newNodes(cfg nodesConfig, graph *gnn.Graph, a awaiting) *nodes {
	return &nodes{
		graph: graph, encoder: cfg.encoder, normalizer: cfg.normalizer, classes: cfg.classes,
		index: newNodeIndex(), waiting: newWaitingEdges(cfg.maxWaitingEdges),
		departed: newDeparted(), pending: a, arrivals: arrivals{replaced: make(map[int32]*event.Node)},
		removals: removals{last: make(map[ends]removal)},
	}
}

// follow has a part follow the graph.
func (n *nodes) follow(f follower) { n.followers = append(n.followers, f) }

// number returns the number of a node that is in the graph.
func (n *nodes) number(id event.ID) (v int32, known bool) { return n.index.number(id) }

// id returns the id of number v.
func (n *nodes) id(v int32) event.ID { return n.index.ids.at(v) }

// class returns the class of node v, none before its label came.
func (n *nodes) class(v int32) int32 { return n.states.at(v).label }

// hasLeft reports whether number v has no node in the graph.
func (n *nodes) hasLeft(v int32) bool { return n.states.at(v).gone }

// isContext reports whether node v came as context.
func (n *nodes) isContext(v int32) bool { return n.context.has(v) }

// numbers returns how many numbers there are: all are below it.
func (n *nodes) numbers() int { return n.states.len() }

// accepted are the node events of the window that the encoder takes, in canonical order. It
// is valid until dropWindow.
func (n *nodes) acceptedEvents() []accepted { return n.arrivals.accepted }

// toPredict returns the numbers of the window's nodes that are to be predicted, in canonical
// order.
func (n *nodes) toPredict() []int32 { return n.arrivals.toPredict }

// embeddings returns their embeddings, n × d_e, which the caller may change.
func (n *nodes) embeddings() []float32 { return n.arrivals.z }

// waitingEdgesCount returns the number of edges that wait for a node.
func (n *nodes) waitingEdgesCount() int { return n.waiting.edges }

// bytes is the memory of nodes apart from the graph.
func (n *nodes) bytes(count int) int64 {
	// The list of numbers by id doubles when it is full.
	const numberByID, isText, context = 1.5 * 4, 1, 1. / 8
	each := float64(unsafe.Sizeof(nodeState{})) + numberByID + isText + context
	return int64(float64(count)*each) + n.index.ids.numbers.Bytes(count)
}

// len is the number of nodes in the graph.
func (n *nodes) len() int { return n.graph.Len() - n.departed.len() }

// surroundings counts the neighbours of node v that arrived before it, and those among
// them that are not context.
func (n *nodes) surroundings(v int32) (degree, fresh int) {
	for _, u := range n.graph.Neighbours(v) {
		before := 0 // branch-free, since the branches would be mispredicted
		if n.departed.before(u, v) {
			before = 1
		}
		degree += before
		fresh += before &^ n.context.at(u)
	}
	return degree, fresh
}

// label sets the class of node v, which had none. A node that has left is not reported
// to followers.
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

// bitset has a bit for each node number. The bits of a million nodes fit into a fast
// cache, and surroundings reads those of all neighbours at every label.
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
