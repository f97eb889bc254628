package parts

import (
	"errors"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// Rescoring says when a pending node is predicted again. The zero value means never.
//
// A node is due when its degree differs by at least After (at least 1, if only
// Confidence is set) from its degree at its last prediction. The new prediction is
// published as a revision if Confidence is 0, or if the largest probability has crossed
// Confidence, up or down, since the last published prediction. A node is predicted again
// until its label comes or its prediction expires.
type Rescoring struct {
	After      int     // change of degree
	Confidence float64 // in [0, 1); 0 publishes all
	// Limit bounds the nodes predicted again in a window. The longest due come first,
	// others stay due. Zero means 100.
	Limit int
}

// Declare declares when to predict again. The flag of it holds two settings.
func (r *Rescoring) Declare(l *setting.List) {
	l.Add(setting.Setting{
		Name: "rescore", Group: "revisions", Kept: setting.Never, Placeholder: "NAME=NUMBER,...",
		Help: "Predict nodes again until their label comes: after=N, whenever N edges came; confidence=P, publish " +
			"only what crosses it. Such as after=3,confidence=0.8.",
		Value: setting.Pairs(func() error {
			if err := r.check(); err != nil || r.On() {
				return err
			}
			return errors.New("nothing says when to predict again: give after=N or confidence=P")
		}, setting.Pair{Name: "after", Value: &r.After}, setting.Pair{Name: "confidence", Value: &r.Confidence}),
	})
	limit := setting.Integer(&r.Limit)
	l.Add(setting.Setting{
		Name: "rescore-limit", Group: "revisions", Kept: setting.Never, Default: "100",
		Help:  "Predict at most this many nodes again in a window.",
		Value: limit,
		Idle: func() string {
			if !r.On() {
				return "no effect without --rescore: add it, such as after=3"
			}
			return ""
		},
	})
	l.Add(setting.Setting{Name: "rescore-after", Value: setting.Integer(&r.After)})
	l.Add(setting.Setting{Name: "rescore-confidence", Value: setting.Number(&r.Confidence)})
	l.Add(setting.Setting{Name: "rescore-limit", Value: setting.Plain(func() string {
		if !r.On() { // a limit of nothing
			return "0"
		}
		return limit.String()
	}, limit.Set)})
	l.CheckCount("rescore-limit", &r.Limit, 100, 0)
	l.Check(func() error {
		if err := r.check(); err != nil {
			return fmt.Errorf("rescore %w", err)
		}
		return nil
	})
}

// check returns an error with its remedy if a field is out of range.
func (r *Rescoring) check() error {
	switch {
	case r.After < 0:
		return fmt.Errorf("after=%d: give a number of edges, such as 3", r.After)
	case !(r.Confidence >= 0 && r.Confidence < 1):
		return fmt.Errorf("confidence=%v: give a probability below 1", r.Confidence)
	}
	return nil
}

// On reports whether nodes are predicted again.
func (r Rescoring) On() bool { return r.After > 0 || r.Confidence > 0 }

// revisedHead is the name of the scores of the last published predictions: a node's last
// revision, or its first prediction if there was none.
const revisedHead = "revised"

// rescorer is the observer that predicts pending nodes again, see [Rescoring].
type rescorer struct {
	Rescoring
	nodes     *structure.Nodes
	pending   *serve.Pending
	predictor *serve.Predictor
	requests  *requests // numbers the revisions
	scorer    *serve.Scorer

	// By slot of pending:
	degrees store.SlotTable[int32]   // degree at the last prediction, published or not
	probs   store.SlotTable[float32] // its probabilities, C a row

	due *store.Queue[int32, struct{}] // node numbers

	near    []int32   // neighbours of nodes that are leaving the graph
	revised []float32 // the newest probabilities of the window's labels, C each
	summary *serve.Summary
	batch   []int32 // scratch: nodes to be predicted again
}

// NewRescorer returns what predicts nodes again as cfg says.
func NewRescorer(cfg Rescoring, classes int, q *requests, s *serve.Scorer) *rescorer {
	r := &rescorer{
		Rescoring: cfg, nodes: q.nodes, pending: q.pending, predictor: q.predictor, requests: q, scorer: s,
		degrees: store.NewSlotTable[int32](1), probs: store.NewSlotTable[float32](classes),
		due: store.NewNodeQueue[struct{}](), summary: s.Also(revisedHead),
	}
	q.rescorer = r
	return r
}

// Observer returns r as an observer.
func (r *rescorer) Observer() serve.Observer {
	return serve.Observer{Served: r.served, Matched: r.matched, Scored: r.scored, State: r.state}
}

// Follower returns r as one that follows the graph: changes of degrees matter to it.
func (r *rescorer) Follower() structure.Follower {
	return structure.Follower{Unlinked: r.unlinked, Linked: r.linked, Leaving: r.leaving, Left: func() { r.changed(r.near...) }}
}

func (r *rescorer) unlinked(edges [][2]int32) {
	for _, e := range edges {
		r.changed(e[:]...)
	}
}

func (r *rescorer) linked(v int32, near, _ []int32) {
	r.changed(v)
	r.changed(near...)
}

func (r *rescorer) leaving(nodes []int32) {
	r.near = r.near[:0]
	for _, v := range nodes {
		r.near = append(r.near, r.nodes.Graph.Neighbours(v)...)
	}
}

// changed queues the given nodes, whose degrees may have changed, if they are due.
func (r *rescorer) changed(nodes ...int32) {
	for _, v := range nodes {
		if !r.isDue(v) || r.due.Get(v) != nil {
			continue
		}
		if r.due.Len() == r.pending.Bound {
			r.due.RemoveOldest()
		}
		r.due.Put(v, struct{}{})
	}
}

// isDue reports whether node v is in the graph, pending and due.
func (r *rescorer) isDue(v int32) bool {
	slot, waits := r.pending.Nodes.SlotOf(v)
	if !waits || r.nodes.HasLeft(v) {
		return false
	}
	by := r.degree(v) - r.degrees.Row(slot)[0]
	return max(by, -by) >= int32(min(max(r.After, 1), math.MaxInt32))
}

func (r *rescorer) degree(v int32) int32 { return int32(r.nodes.Graph.Degree(v)) }

// served records the predictions of the window's arrivals, and then predicts the nodes
// that are due. Like the arrivals they are predicted on G_t, before the window's labels
// are learned.
func (r *rescorer) served(x *serve.Entered) {
	for i, a := range x.Arrivals {
		r.degrees.Set(a.Slot, []int32{r.degree(a.Number)})
		r.probs.Set(a.Slot, x.Out.Predictions[i].Probabilities)
	}
	r.batch = r.batch[:0]
	for r.due.Len() > 0 && len(r.batch) < r.Limit {
		v, _ := r.due.RemoveOldest()
		if r.isDue(v) {
			r.batch = append(r.batch, v)
		}
	}
	if len(r.batch) > 0 {
		r.revise(x.Out)
	}
}

// revise predicts the batch again, and adds the predictions to publish to the outcome.
func (r *rescorer) revise(out *event.Outcome) {
	for i, again := range r.predictor.Again(r.batch) {
		v := r.batch[i]
		slot, _ := r.pending.Nodes.SlotOf(v)
		last := r.probs.Row(slot)
		if r.Confidence > 0 && r.confident(last[serve.MostProbable(last)]) == r.confident(again.Confidence) {
			r.degrees.Set(slot, []int32{r.degree(v)})
			continue
		}
		r.published(slot, v, again.Probabilities)
		again.Window, again.Revision, again.Time = out.Window, r.requests.next(v), r.pending.Nodes.Get(v).Time
		out.Revisions = append(out.Revisions, again)
	}
}

// published notes the newest published prediction of a pending node.
func (r *rescorer) published(slot, v int32, probs []float32) {
	r.degrees.Set(slot, []int32{r.degree(v)})
	r.probs.Set(slot, probs)
}

func (r *rescorer) confident(confidence float32) bool { return float64(confidence) >= r.Confidence }

// matched collects the last published probabilities of the node.
func (r *rescorer) matched(slot, _ int32) { r.revised = append(r.revised, r.probs.Row(slot)...) }

// scored scores the collected probabilities, and adds them to the outcome as a head.
func (r *rescorer) scored(out *event.Outcome) {
	h := event.Head{Name: revisedHead}
	if len(r.revised) > 0 {
		c := r.probs.Width()
		h.Scores = r.scorer.ScoreAlso(r.summary, func(i int) []float32 { return r.revised[i*c : (i+1)*c] })
	}
	r.revised = r.revised[:0]
	out.Heads = append(out.Heads, h)
}

// state declares the last predictions, the nodes that are due, and the scores.
func (r *rescorer) state(s *snapshot.Schema) {
	q, classes := r.pending.Nodes, r.probs.Width()
	store.DeclareRows(s, "rescore.degree", &r.degrees, q.WalkSlots(), q.Len(), isCount)
	store.DeclareRows(s, "rescore.probabilities", &r.probs, q.WalkSlots(), q.Len(), heads.IsProbability, classes)
	store.DeclareNodes(s, "rescore.due", r.due, r.pending.Bound, r.nodes.Numbers())
	r.summary.State(s, "rescore")
}

func isCount(x int32) bool { return x >= 0 }
