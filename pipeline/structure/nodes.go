package structure

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// none is no node, no slot and no class.
const none = -1

// Nodes is the graph with everything else that is stored for each node: ids, states,
// departures, and edges that wait for a node. Enter (arrive.go, depart.go, edges.go)
// applies a window to it.
//
// graph, states, context and index.ids have one entry for each node number.
type Nodes struct {
	Graph      *gnn.Graph // changed by Enter alone
	encoder    gnn.Encoder
	normalizer *gnn.Normalizer
	classes    int
	named      *attributes.Encoder // of the model's schema, nil if it has none
	keepsNames bool

	index    *nodeIndex
	states   store.Chunked[nodeState] // by node number
	context  bitset                   // by node number: set for context nodes
	departed departed
	waiting  *waitingEdges

	pending   Pending   // for the predictions of nodes that leave
	followers followers // called at every change of the graph
	arrivals  arrivals  // of the current window
	removals  removals  // of the current window
	kinds     *marks    // nil for a model that does not tell kinds of edges apart
	kept      *kept     // nil unless updates may be partial
	passing   *passing  // nil for a model of nodes
	expiry    *expiry   // nil if nodes and edges are kept for ever

	frozen snapshot.Freeze[nodeRecord]
}

// nodeState is the state of a node apart from the graph.
type nodeState struct {
	label           int32 // its class, none before its label came
	gone            bool  // the node left, and its number has no other node yet
	hasWaitingEdges bool  // edges that it named may be waiting, see waitingEdges.leave
	past            Past
}

// Past is what is to be known of a node's labels beside its class.
type Past uint8

const (
	// Late means that the first label came when what was served was no longer kept.
	Late Past = 1 << iota
	// Replaced means that the node's features were replaced since its label came.
	Replaced
	// Withdrawn means that the node has no label any more.
	Withdrawn
)

// Pending is what was predicted and waits for its label. Which nodes wait does not depend on
// what was predicted for them.
type Pending interface {
	// Waits reports whether the prediction of node v waits for its label.
	Waits(v int32) bool
	// Drop ends the wait of node v, if it waits.
	Drop(v int32)
}

// Config is what nodes need to know of a model and its settings.
type Config struct {
	Encoder         gnn.Encoder
	Normalizer      *gnn.Normalizer
	Schema          *attributes.Schema // nil where features are numbers
	Classes         int                // number of labels that a node may have
	MaxWaitingEdges int
	Kinds           gnn.EdgeKinds // that the encoder tells apart, nil for none
	PartialUpdates  bool          // see [pipeline.Config]
	Readout         *gnn.Readout  // of a model of graphs, or nil
	Keep            Keep
	// KeepsNames accepts features by name as they are, for followers that need no vectors.
	KeepsNames bool
}

// New returns an empty graph. Of predictions that wait, p says which.
func New(cfg Config, graph *gnn.Graph, p Pending) *Nodes {
	n := &Nodes{
		Graph: graph, encoder: cfg.Encoder, normalizer: cfg.Normalizer, classes: cfg.Classes,
		index: newNodeIndex(), waiting: newWaitingEdges(cfg.MaxWaitingEdges),
		departed: newDeparted(), pending: p, arrivals: arrivals{replaced: make(map[int32]*event.Node)},
		removals: removals{last: make(map[ends]removal)}, keepsNames: cfg.KeepsNames, kinds: newMarks(cfg.Kinds, cfg.MaxWaitingEdges),
	}
	if cfg.Readout != nil {
		n.passing = &passing{readout: cfg.Readout}
	}
	if cfg.Schema != nil {
		n.named = attributes.NewEncoder(cfg.Schema)
		if cfg.PartialUpdates {
			n.kept = &kept{}
		}
	}
	if cfg.Readout == nil { // graphs pass
		n.expiry = newExpiry(cfg.Keep, n)
	}
	if n.expiry != nil {
		n.Follow(n.expiry.follower())
	}
	return n
}

// Follow has a part follow the graph.
func (n *Nodes) Follow(f Follower) { n.followers.add(f) }

// Number returns the number of a node that is in the graph.
func (n *Nodes) Number(id event.ID) (v int32, known bool) { return n.index.number(id) }

// ID returns the id of number v.
func (n *Nodes) ID(v int32) event.ID { return n.index.ids.at(v) }

// Class returns the class of node v, none before its label came or after it was withdrawn.
func (n *Nodes) Class(v int32) int32 { return n.states.At(v).label }

// Past returns what is to be known of the labels of node v beside its class.
func (n *Nodes) Past(v int32) Past { return n.states.At(v).past }

// HasLeft reports whether number v has no node in the graph.
func (n *Nodes) HasLeft(v int32) bool { return n.states.At(v).gone }

// IsContext reports whether node v came as context.
func (n *Nodes) IsContext(v int32) bool { return n.context.has(v) }

// Numbers returns how many numbers there are: all are below it.
func (n *Nodes) Numbers() int { return n.states.Len() }

// Accepted are the node events of the window that the encoder takes, in canonical order. It
// is valid until DropWindow.
func (n *Nodes) Accepted() []Accepted { return n.arrivals.accepted }

// ToPredict returns the numbers of the window's nodes that are to be predicted, in canonical
// order.
func (n *Nodes) ToPredict() []int32 { return n.arrivals.toPredict }

// Embeddings returns their embeddings, n × d_e, which the caller may change.
func (n *Nodes) Embeddings() []float32 { return n.arrivals.z }

// WaitingEdges returns the number of edges that wait for a node.
func (n *Nodes) WaitingEdges() int { return n.waiting.edges }

// Len is the number of nodes in the graph.
func (n *Nodes) Len() int { return n.Graph.Len() - n.departed.len() }

// Surroundings counts the neighbours of node v that arrived before it, and those among
// them that are not context.
func (n *Nodes) Surroundings(v int32) (degree, fresh int) {
	for _, u := range n.Graph.Neighbours(v) {
		before := 0 // branch-free, since the branches would be mispredicted
		if n.departed.before(u, v) {
			before = 1
		}
		degree += before
		fresh += before &^ n.context.at(u)
	}
	return degree, fresh
}

// SetLabel sets the class of node v, none to withdraw its label. A node that has left is not
// reported to followers.
func (n *Nodes) SetLabel(v, class int32) {
	state := n.change(v)
	if state.label, state.past = class, state.past&Late; class == none {
		state.past |= Withdrawn
	}
	if state.gone {
		return
	}
	for _, labelled := range n.followers.labelled {
		labelled(v, class)
	}
	n.expiry.answered(v)
}

// SetLate records that the label of node v is [Late].
func (n *Nodes) SetLate(v int32) { n.change(v).past |= Late }

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
