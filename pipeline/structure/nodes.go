package structure

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// none is no node, no slot and no class.
const none = -1

// Nodes is the graph with everything else that is stored for each node. Enter applies a window to it.
//
// Graph, and the parts of numbers, have one entry for each node number.
type Nodes struct {
	Graph      *gnn.Graph // changed by Enter alone
	classes    int
	dim        int // of embeddings
	numbers    *numbers
	followers  *followers
	pending    pending     // predictions of nodes
	inputs     *inputs     // what features become
	departures *departures // nodes that leave, or have left
	arrivals   *arrivals   // nodes of the current window
	links      *links      // edges of the current window
	waiting    *waitingEdges
	kinds      *marks  // nil for a model that does not tell kinds of edges apart
	expiry     *expiry // nil if nodes and edges are kept for ever
	keyed      *Keyed  // nil for a model without keys
}

// pending is what was predicted and waits for its label. Which nodes wait does not depend on
// what was predicted for them.
type pending interface {
	// Waits reports whether the prediction of node v waits for its label.
	Waits(v int32) bool
	// Drop ends the wait of node v, if it waits.
	Drop(v int32)
}

// Config is what nodes need to know of a model and its settings.
type Config struct {
	Encoder      gnn.Encoder
	Normalizer   *gnn.Normalizer
	Schema       *attributes.Schema // nil where features are numbers
	Classes      int                // number of labels that a node may have
	Names        []string           // of classes, for labels that keys tell of
	Kinds        gnn.EdgeKinds      // that the encoder tells apart, nil for none
	Readout      *gnn.Readout       // of a model of graphs, or nil
	WaitingEdges int                // at most
	Reading      Reading
	Keep         Keep
	// KeepsNames accepts features by name as they are, for followers that need no vectors.
	KeepsNames bool
}

// Reading is how events are read.
type Reading struct {
	// Map is how the records of the inputs become events, "" for our own format. The engine
	// does not use it; what it steps depends on it.
	Map string
	// First says that events are read as by 1.0.0: a ledger that it began says nothing else.
	First bool
	// Partial says that an event with features by name changes those that it names, and
	// leaves the others of its node as they are. It has no effect on a model without a schema.
	Partial bool
}

// New returns an empty graph. Of predictions that wait, p says which.
func New(cfg Config, graph *gnn.Graph, p pending) *Nodes {
	ids := &numbers{index: newNodeIndex()}
	follow := new(followers)
	in := &inputs{numbers: ids, width: cfg.Encoder.In(), normalizer: cfg.Normalizer, keepsNames: cfg.KeepsNames}
	if cfg.Readout != nil {
		in.passing = &passing{readout: cfg.Readout}
	}
	if cfg.Schema != nil {
		in.named = attributes.NewEncoder(cfg.Schema)
		in.named.First = cfg.Reading.First
		if cfg.Reading.Partial {
			ids.kept = &kept{}
		}
	}
	waiting := newWaitingEdges(cfg.WaitingEdges)
	kinds := newMarks(cfg.Kinds, cfg.WaitingEdges, graph, ids)
	edges := &links{
		graph: graph, numbers: ids, followers: follow, waiting: waiting, kinds: kinds,
		removals: removals{last: make(map[ends]removal)},
	}
	left := &departures{
		graph: graph, numbers: ids, followers: follow, pending: p, waiting: waiting, kinds: kinds,
		served: store.NewQueue[event.ID, Left](),
	}
	keyed, err := NewKeyed(cfg.Schema, cfg.Names, ids.id)
	if err != nil {
		panic(err) // a model is checked when it is read
	}
	n := &Nodes{
		Graph: graph, classes: cfg.Classes, dim: cfg.Encoder.Out(), numbers: ids, followers: follow, pending: p,
		inputs: in, departures: left,
		arrivals: &arrivals{
			graph: graph, numbers: ids, inputs: in, departures: left, links: edges, keyed: keyed,
			replaced: make(map[int32]*event.Node),
		},
		links: edges, waiting: waiting, kinds: kinds, keyed: keyed,
	}
	if cfg.Readout == nil { // graphs pass
		n.expiry = newExpiry(cfg.Keep, graph, ids, p)
	}
	if n.expiry != nil {
		n.Follow(n.expiry.follower())
	}
	if keyed != nil {
		n.Follow(Follower{Leaving: keyed.left})
	}
	return n
}

// Follow has a part follow the graph.
func (n *Nodes) Follow(f Follower) { *n.followers = append(*n.followers, f) }

// Enter applies all node events of a window to the graph, and then encodes the
// arrivals. Nodes are added before edges, so that nodes of one window may name each
// other in any order.
func (n *Nodes) Enter(events []event.Node, out *event.Outcome) {
	a, l := n.arrivals, n.links
	a.accept(n.expiry.enter(events, out), out)
	n.inputs.count(out)
	n.keyed.count(out)
	n.kinds.tellApart(events, n.waiting)
	for _, x := range a.accepted {
		for _, f := range *n.followers {
			if f.Entered != nil {
				f.Entered(x.Number, features(x.Node))
			}
		}
	}
	if a.only() {
		l.lookUp(a.accepted)
		for i := range a.accepted {
			l.resolve(&a.accepted[i], out)
		}
		a.listToPredict(n.dim)
		n.Graph.Arrive(a.features, l.near, func(i int, added []int32) {
			l.report(a.accepted[i].Number, l.near[i], added, out)
			if i == len(l.near)-1 {
				n.kinds.mark()
			}
		}, a.z)
	} else {
		n.rebuild(out)
		a.listToPredict(n.dim)
		n.Graph.Embed(a.toPredict, a.z)
	}
	a.ask(out)
}

// rebuild applies one kind of change after the other to the graph: new nodes,
// departures, replaced features, and then edges.
func (n *Nodes) rebuild(out *event.Outcome) {
	n.Graph.Add(n.arrivals.features)
	if n.departures.any() {
		n.arrivals.withdraw()
		n.departures.withdraw(out)
	}
	n.arrivals.replace()
	n.links.connect(n.arrivals.accepted, out)
}

// DropWindow forgets what points into the window's memory.
func (n *Nodes) DropWindow() {
	n.arrivals.clear()
	n.links.clear()
	n.expiry.dropWindow()
}

// Accepted are the node events of the window that the encoder takes, in canonical order. It
// is valid until DropWindow.
func (n *Nodes) Accepted() []Accepted { return n.arrivals.accepted }

// Asked returns the events of the window that ask for a prediction of a node of the graph, in canonical
// order. That of an arrival asks for nothing: it is predicted.
func (n *Nodes) Asked() []Asked { return n.arrivals.asked }

// ToPredict returns the numbers of the window's nodes that are to be predicted, in canonical
// order.
func (n *Nodes) ToPredict() []int32 { return n.arrivals.toPredict }

// Embeddings returns their embeddings, n × d_e, which the caller may change.
func (n *Nodes) Embeddings() []float32 { return n.arrivals.z }

// Overdue returns the departures and removals that the window has for what was kept for long
// enough: it is stepped as if they had come before its own events. It is valid until DropWindow.
func (n *Nodes) Overdue() []event.Node {
	if n.expiry == nil {
		return nil
	}
	return n.expiry.events[:n.expiry.overdue]
}

// Number returns the number of a node that is in the graph.
func (n *Nodes) Number(id event.ID) (v int32, known bool) { return n.numbers.index.number(id) }

// ID returns the id of number v.
func (n *Nodes) ID(v int32) event.ID { return n.numbers.id(v) }

// Class returns the class of node v, none before its label came or after it was withdrawn.
func (n *Nodes) Class(v int32) int32 { return n.numbers.states.At(v).label }

// Past returns what is to be known of the labels of node v beside its class.
func (n *Nodes) Past(v int32) past { return n.numbers.states.At(v).past }

// HasLeft reports whether number v has no node in the graph.
func (n *Nodes) HasLeft(v int32) bool { return n.numbers.gone(v) }

// IsContext reports whether node v came as context.
func (n *Nodes) IsContext(v int32) bool { return n.numbers.context.has(v) }

// Numbers returns how many numbers there are: all are below it.
func (n *Nodes) Numbers() int { return n.numbers.len() }

// Before reports whether node u arrived before node v.
func (n *Nodes) Before(u, v int32) bool { return n.numbers.order.before(u, v) }

// WaitingEdges returns the number of edges that wait for a node.
func (n *Nodes) WaitingEdges() int { return n.waiting.edges }

// AwaitedLongest returns the node for which edges have waited the longest; there must be one.
func (n *Nodes) AwaitedLongest() event.ID { return n.waiting.queue.At(n.waiting.queue.Oldest()).Key }

// Len is the number of nodes in the graph.
func (n *Nodes) Len() int { return n.Graph.Len() - n.departures.len() }

// Surroundings counts the neighbours of node v that arrived before it, and those among
// them that are not context.
func (n *Nodes) Surroundings(v int32) (degree, fresh int) { return n.departures.surroundings(v) }

// SetLabel sets the class of node v, none to withdraw its label. A node that has left is not
// reported to followers.
func (n *Nodes) SetLabel(v, class int32) {
	state := n.numbers.change(v)
	n.keyed.labelled(v, state.label, class)
	if state.label, state.past = class, state.past&Late; class == none {
		state.past |= Withdrawn
	}
	if state.gone {
		return
	}
	for _, f := range *n.followers {
		if f.Labelled != nil {
			f.Labelled(v, class)
		}
	}
	n.expiry.answered(v)
}

// SetLate records that the label of node v is [Late].
func (n *Nodes) SetLate(v int32) { n.numbers.change(v).past |= Late }

// TakeLeft returns the node that left under an id while its prediction waited, and forgets it:
// the caller joins its label, and then vacates its number.
func (n *Nodes) TakeLeft(id event.ID) (Left, bool) { return n.departures.served.Remove(id) }

// Vacate frees number v, whose node has left.
func (n *Nodes) Vacate(v int32) { n.departures.vacate(v) }

// Expired is called when the prediction of v waits no longer, without [Nodes.SetLabel]. If v has
// left, its number becomes free.
func (n *Nodes) Expired(v int32) {
	if n.numbers.gone(v) {
		n.departures.expired(v)
		return
	}
	n.expiry.answered(v)
}
