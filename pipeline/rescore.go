package pipeline

import (
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Rescoring says when a node that was served is predicted again. The zero value is
// never.
//
// A node is due when its degree differs by After edges from what it was when the
// node was last predicted; with Confidence alone, by one. The new prediction is
// published as a revision if Confidence is 0, or if the probability of the most
// probable class has crossed it, either way, since the last prediction that was
// published. That goes on until the node's label comes or its prediction expires.
type Rescoring struct {
	After      int     // changes of a neighbourhood
	Confidence float64 // 0 to 1, 0 for none
	// Limit is the most nodes that a window predicts again, those due the longest
	// first; the others stay due. Zero means 100.
	Limit int
}

func (r Rescoring) on() bool { return r.After > 0 || r.Confidence > 0 }

// revisedHead is the name under which a node's newest published prediction is scored
// once its label comes: the first one, if there was no other.
const revisedHead = "revised"

// rescoring predicts nodes again that wait for their label.
type rescoring struct {
	Rescoring
	predictor *predictor
	scorer    *scorer
	bound     int // of due

	// By the slots of pending, the last prediction of a node:
	degrees   slotTable[int32]   // the node's when it was made, published or not
	revisions slotTable[int32]   // the number of the last published; 0 is the first
	probs     slotTable[float32] // as last published, C a row

	due *queue[int32, struct{}] // node numbers

	near    []int32   // neighbours of nodes that are leaving the graph
	revised []float32 // the newest probabilities of the window's labels, C each
	summary Summary
	batch   []int32 // scratch: nodes to be predicted …
	z       []float32
}

var (
	_ observer = (*rescoring)(nil)
	_ follower = (*rescoring)(nil)
)

func newRescoring(cfg Config, p *predictor, s *scorer) *rescoring {
	r := &rescoring{
		Rescoring: cfg.Rescore, predictor: p, scorer: s, bound: cfg.MaxPending,
		degrees: newSlotTable[int32](1), revisions: newSlotTable[int32](1), probs: newSlotTable[float32](p.model.Prior.Classes),
		due: newNodeQueue[struct{}](), summary: Summary{Head: revisedHead},
	}
	s.extra = append(s.extra, &r.summary)
	return r
}

// Of the graph's changes only those of degrees matter.

func (r *rescoring) entered(int32, gnn.Vector) {}
func (r *rescoring) labelled(int32, int32)     {}
func (r *rescoring) vacated(int32)             {}

func (r *rescoring) linked(v int32, near, _ []int32) {
	r.changed(v)
	r.changed(near...)
}

func (r *rescoring) leaving(nodes []int32) {
	r.near = r.near[:0]
	for _, v := range nodes {
		r.near = append(r.near, r.predictor.nodes.graph.Neighbours(v)...)
	}
}

func (r *rescoring) left() { r.changed(r.near...) }

// changed notes which of these nodes, whose neighbourhoods may have changed, are
// due.
func (r *rescoring) changed(nodes ...int32) {
	for _, v := range nodes {
		if _, due := r.isDue(v); !due || r.due.get(v) != nil {
			continue
		}
		if r.due.len() == r.bound {
			r.due.removeOldest()
		}
		r.due.put(v, struct{}{})
	}
}

// isDue reports whether node v, if it is in the graph and pending, is to be
// predicted again, and returns its slot.
func (r *rescoring) isDue(v int32) (slot int32, due bool) {
	slot, waits := r.predictor.pending.nodes.slotOf(v)
	if !waits || r.predictor.nodes.states.at(v).gone {
		return 0, false
	}
	by := r.degree(v) - r.degrees.row(slot)[0]
	return slot, max(by, -by) >= int32(min(max(r.After, 1), math.MaxInt32))
}

func (r *rescoring) degree(v int32) int32 { return int32(r.predictor.nodes.graph.Degree(v)) }

// served notes what was served for the window's arrivals, and then predicts nodes
// again that are due: as the arrivals were, on G_t and before the window's labels
// are learned.
func (r *rescoring) served(out *event.Outcome) {
	for i, v := range r.predictor.nodes.arrivals.toPredict {
		slot, waits := r.predictor.pending.nodes.slotOf(v)
		if !waits { // it made room for others of its window
			continue
		}
		r.degrees.set(slot, []int32{r.degree(v)})
		r.revisions.set(slot, []int32{0})
		r.probs.set(slot, out.Predictions[i].Probabilities)
	}
	r.batch = r.batch[:0]
	for r.due.len() > 0 && len(r.batch) < r.Limit {
		v, _ := r.due.removeOldest()
		if _, due := r.isDue(v); due {
			r.batch = append(r.batch, v)
		}
	}
	if len(r.batch) > 0 {
		r.revise(out)
	}
}

// revise predicts the batch again, and adds what is to be published to the outcome.
func (r *rescoring) revise(out *event.Outcome) {
	p := r.predictor
	d := p.model.Prior.Dim
	r.z = kernel.Room(r.z, len(r.batch)*d)
	p.nodes.graph.Embed(r.batch, r.z)
	for i, v := range r.batch {
		slot, _ := p.pending.nodes.slotOf(v)
		r.degrees.set(slot, []int32{r.degree(v)})
		last := r.probs.row(slot)
		again := p.opinion(p.nodes.index.ids.at(v), r.z[i*d:(i+1)*d], view{node: v, without: none}).Prediction
		if r.Confidence > 0 && r.confident(last[mostProbable(last)]) == r.confident(again.Confidence) {
			continue
		}
		revision := r.revisions.row(slot)[0] + 1
		r.revisions.set(slot, []int32{revision})
		r.probs.set(slot, again.Probabilities)
		again.Window, again.Revision, again.Time = out.Window, revision, p.pending.nodes.get(v).time
		out.Revisions = append(out.Revisions, again)
	}
}

func (r *rescoring) confident(confidence float32) bool { return float64(confidence) >= r.Confidence }

// matched notes the newest probabilities of the node whose label comes.
func (r *rescoring) matched(slot, _ int32) { r.revised = append(r.revised, r.probs.row(slot)...) }

// scored scores them, as one head more.
func (r *rescoring) scored(out *event.Outcome) {
	h := event.Head{Name: revisedHead}
	if len(r.revised) > 0 {
		c := r.predictor.model.Prior.Classes
		h.Scores = r.scorer.scores(func(i int) []float32 { return r.revised[i*c : (i+1)*c] })
		r.summary.AddWindow(h.Scores, r.scorer.bins)
	}
	r.revised = r.revised[:0]
	out.Heads = append(out.Heads, h)
}

// state declares the last predictions, the nodes that are due, and the scores.
func (r *rescoring) state(s *snapshot.Schema) {
	q, classes := r.predictor.pending.nodes, r.predictor.model.Prior.Classes
	declareRows(s, "rescore.degree", &r.degrees, q, isCount)
	declareRows(s, "rescore.revision", &r.revisions, q, isCount)
	declareRows(s, "rescore.probabilities", &r.probs, q, isProbability, classes)
	declareNodes(s, "rescore.due", r.due, r.bound, r.predictor.nodes.states.len())
	declareSummaries(s, "rescore", []*Summary{&r.summary})
}

func isCount(x int32) bool { return x >= 0 }

func isProbability(p float32) bool { return p >= 0 && p <= 1 }
