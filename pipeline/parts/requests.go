package parts

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// requests is the observer that predicts nodes again when events ask for it: each event once, on G_t,
// before the window's labels are learned, whether the node waits for its label or has it. Nothing is
// scored or learned from it. It also numbers the revisions of every node.
type requests struct {
	nodes     *structure.Nodes
	pending   *serve.Pending
	predictor *serve.Predictor
	rescorer  *rescorer                  // nil if nodes are not predicted again by a rule
	revisions *store.Queue[int32, int32] // by node number: its last revision, if there was one

	batch []int32 // scratch: the nodes that are asked for
}

// NewRequests returns what predicts nodes on request.
func NewRequests(n *structure.Nodes, pending *serve.Pending, p *serve.Predictor) *requests {
	return &requests{nodes: n, pending: pending, predictor: p, revisions: store.NewNodeQueue[int32]()}
}

// Observer returns q as an observer.
func (q *requests) Observer() serve.Observer { return serve.Observer{Served: q.served, State: q.state} }

// Follower returns q as one that follows the graph: it forgets the revisions of a node that has left.
func (q *requests) Follower() structure.Follower {
	return structure.Follower{Vacated: func(v int32) { q.revisions.Remove(v) }}
}

// next returns the number of a node's next revision.
func (q *requests) next(v int32) int32 {
	if n := q.revisions.Edit(v); n != nil {
		*n++
		return *n
	}
	q.revisions.Put(v, 1)
	return 1
}

// served predicts the nodes that are asked for.
func (q *requests) served(x *serve.Entered) {
	asked := q.nodes.Asked()
	if len(asked) == 0 {
		return
	}
	q.batch = q.batch[:0]
	for _, a := range asked {
		q.batch = append(q.batch, a.Number)
	}
	for i, again := range q.predictor.Again(q.batch) {
		a := asked[i]
		again.Window, again.Time, again.Origin = x.Out.Window, a.Node.Time, a.Node.Origin
		again.Revision, again.Reason = q.next(a.Number), event.Requested
		if slot, waits := q.pending.Nodes.SlotOf(a.Number); waits && q.rescorer != nil {
			q.rescorer.published(slot, a.Number, again.Probabilities)
		}
		x.Out.Revisions = append(x.Out.Revisions, again)
	}
}

// state declares the revisions, if there were any.
func (q *requests) state(s *snapshot.Schema) {
	if !s.Has("revisions.node", q.revisions.Len() > 0) {
		return
	}
	n := q.nodes.Numbers()
	store.DeclareNodes(s, "revisions.node", q.revisions, n, n)
	store.DeclareField(s, "revisions.last", q.revisions, func(last *int32) *int32 { return last })
	s.Check(func() error {
		for i := range q.revisions.Slots() {
			if e := q.revisions.At(int32(i)); e.Value < 1 {
				return snapshot.Damaged("the last revision of node %d is %d", e.Key, e.Value)
			}
		}
		return nil
	})
}
