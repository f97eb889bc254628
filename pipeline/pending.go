package pipeline

import (
	"math"

	"github.com/gvbll/gvbll/gnn/snapshot"
)

// pending keeps predictions as they were served, until their label comes or they expire:
// there are at most bound, and the oldest makes room for a new one. A prediction is
// spread over tables that are indexed by its slot in the queue; observers have tables of
// their own.
type pending struct {
	nodes   *queue[int32, served] // by node number
	bound   int                   // of nodes
	z       slotTable[float32]    // embeddings, d_e a row
	outputs slotTable[float32]    // see serving.width
}

// served is a prediction without its rows in tables.
type served struct {
	window int64
	time   int64 // event time of the arrival
	tau    float64
	head   uint8 // the head that served, by place
}

func newPending(dim, width, bound int) *pending {
	return &pending{nodes: newNodeQueue[served](), bound: bound, z: newSlotTable[float32](dim), outputs: newSlotTable[float32](width)}
}

// reserve preallocates the empty tables for this many predictions, at most bound.
func (p *pending) reserve(nodes int) {
	nodes = min(nodes, p.bound)
	p.z.table.Reserve(nodes)
	p.outputs.table.Reserve(nodes)
}

// put keeps the prediction of node v, and returns the node whose older one expired
// to make room, if one did.
func (p *pending) put(v int32, s served, z, outputs []float32) (old int32, expired bool) {
	if p.nodes.len() == p.bound {
		old, _ = p.nodes.removeOldest()
		expired = true
	}
	slot := p.nodes.put(v, s)
	p.z.set(slot, z)
	p.outputs.set(slot, outputs)
	return old, expired
}

// remove removes and returns what was served for node v. The slices are valid until
// the next put.
func (p *pending) remove(v int32) (s served, z, outputs []float32, ok bool) {
	i, ok := p.nodes.slotOf(v)
	if !ok {
		return s, nil, nil, false
	}
	s, _ = p.nodes.remove(v)
	return s, p.z.row(i), p.outputs.row(i), true
}

// state declares the predictions. When restoring, nodes must be below n, and windows
// before the given one.
func (p *pending) state(s *snapshot.Schema, n int, window int64, by serving, classes int) {
	declareNodes(s, "pending.node", p.nodes, p.bound, n)
	declareField(s, "pending.window", p.nodes, func(x *served) *int64 { return &x.window })
	declareField(s, "pending.time", p.nodes, func(x *served) *int64 { return &x.time })
	declareField(s, "pending.temperature", p.nodes, func(x *served) *float64 { return &x.tau })
	declareRows(s, "pending.embedding", &p.z, p.nodes, isFinite, p.z.table.Width())
	declareRows(s, by.outputsName(), &p.outputs, p.nodes, by.valid, p.outputs.table.Width()/classes, classes)
	s.Check(func() error {
		for i := range int32(p.nodes.len()) {
			e := p.nodes.entries.at(i)
			if x := e.value; x.window < 0 || x.window >= window {
				return snapshot.Damaged("node %d was served in window %d, the next is %d", e.key, x.window, window)
			}
		}
		return nil
	})
}

func isFinite(x float32) bool { return math.Abs(float64(x)) <= math.MaxFloat32 }
