package pipeline

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Rescoring says when a node that was served is predicted again. The zero value is
// never.
//
// A node is due when its degree is other by After edges than when it was last
// predicted; with Confidence alone, by one. What it is then predicted with is
// published as a revision if Confidence is 0, or if the probability of the most
// probable class has crossed it, either way, since the last that was published. So
// it goes until the node's label comes, or what was served for it is no longer
// kept.
type Rescoring struct {
	After      int     // changes of a neighbourhood
	Confidence float64 // 0 to 1, 0 for none
	// Limit is how many nodes a window predicts again at most, those that are due
	// the longest first; the others stay due. Zero means 100.
	Limit int
}

func (r Rescoring) on() bool { return r.After > 0 || r.Confidence > 0 }

// revisedHead is the name under which the newest that was published of a node is
// scored, once its label comes: the first that was served, if there was no other.
const revisedHead = "revised"

// rescoring is what is known of the nodes that may be predicted again: those that
// wait for their label. It lies beside them, by the pending queue's slots.
type rescoring struct {
	Rescoring
	nodes []newest
	probs *kernel.Table[float32] // as last published, classes a row
	due   *queue[int32, struct{}]

	told    []float32 // of the labels of the window, as last published
	summary Summary
	batch   []int32 // what a step works with
	z       []float32
}

// newest is what is noted of the last prediction of a node.
type newest struct {
	id       event.ID
	degree   int32 // when it was made, published or not
	revision int32 // published, 0 for the first that was served
}

// newRescoring returns nil where nothing is predicted again.
func newRescoring(r Rescoring, classes int) *rescoring {
	if !r.on() {
		return nil
	}
	return &rescoring{Rescoring: r, probs: kernel.NewTable[float32](classes), due: newNodeQueue[struct{}](), summary: Summary{Head: revisedHead}}
}

// put notes what is served for node v, which was put into pending.
func (r *rescoring) put(e *Engine, v int32, id event.ID, probs []float32) {
	i, _ := e.pending.nodes.place(v)
	if int(i) == len(r.nodes) {
		r.nodes = append(r.nodes, newest{})
		r.probs.Grow(1)
	}
	// The roster keeps the same bytes of the id for as long.
	r.nodes[i] = newest{id: id, degree: int32(e.graph.Degree(v))}
	copy(r.probs.Row(i), probs)
}

// changed is told of nodes whose neighbourhood may have changed.
func (r *rescoring) changed(e *Engine, nodes ...int32) {
	for _, v := range nodes {
		if _, due := r.isDue(e, v); !due || r.due.get(v) != nil {
			continue
		}
		if r.due.len() == e.cfg.MaxPending {
			r.due.oldest()
		}
		r.due.put(v, struct{}{})
	}
}

// isDue tells whether node v, which is still there, is to be predicted again, and
// its slot.
func (r *rescoring) isDue(e *Engine, v int32) (slot int32, due bool) {
	slot, waits := e.pending.nodes.place(v)
	if !waits || e.fate.at(v).gone {
		return 0, false
	}
	by := int32(e.graph.Degree(v)) - r.nodes[slot].degree
	return slot, max(by, -by) >= int32(min(max(r.After, 1), math.MaxInt32))
}

// rescore predicts nodes again that are due, on G_t and before the window's labels
// are learned, as serve does the arrivals.
func (r *rescoring) rescore(e *Engine, out *event.Outcome) {
	r.batch = r.batch[:0]
	for r.due.len() > 0 && len(r.batch) < r.Limit {
		v, _ := r.due.oldest()
		if _, due := r.isDue(e, v); due {
			r.batch = append(r.batch, v)
		}
	}
	if len(r.batch) == 0 {
		return
	}
	d := e.model.Prior.Dim
	r.z = resize(r.z, len(r.batch)*d)
	e.graph.Embed(r.batch, r.z)
	for i, v := range r.batch {
		slot, _ := e.pending.nodes.place(v)
		n, last := &r.nodes[slot], r.probs.Row(slot)
		n.degree = int32(e.graph.Degree(v))
		said := e.opinion(n.id, r.z[i*d:(i+1)*d], func(a *neighbourhood.Vicinity, rows *pool.Rows) { a.Append(rows, v) }).Prediction
		if r.Confidence > 0 && r.sure(last[mostProbable(last)]) == r.sure(said.Confidence) {
			continue
		}
		n.revision++
		copy(last, said.Probabilities)
		said.Revision, said.Time = n.revision, e.pending.nodes.get(v).time
		out.Revisions = append(out.Revisions, said)
	}
}

func (r *rescoring) sure(confidence float32) bool { return float64(confidence) >= r.Confidence }

// label notes what was last published of node v, whose label joins the window's.
func (r *rescoring) label(e *Engine, v int32) {
	slot, _ := e.pending.nodes.place(v)
	r.told = append(r.told, r.probs.Row(slot)...)
}

// score holds that against the labels, as [Engine.score] does what was served.
func (r *rescoring) score(e *Engine, out *event.Outcome) {
	h := event.Head{Name: revisedHead}
	if c := e.model.Prior.Classes; len(e.labels) > 0 {
		h.Scores = e.scoresOf(func(i int) []float32 { return r.told[i*c : (i+1)*c] })
		r.summary.AddWindow(h.Scores, e.cfg.Bins)
	}
	r.told = r.told[:0]
	out.Heads = append(out.Heads, h)
}

// parts are, of p nodes that wait for their label, in the order of pending.node,
//
//	rescore.degree         I32  p: when each was last predicted
//	rescore.revision       I32  p
//	rescore.probabilities  F32  p × classes, as last published
//	rescore.due            I32  the nodes that are due, the longest first
//	rescore.counts         I64  42 \ of the head of what was last published,
//	rescore.sums           F64  27 / see calibration.Prequential
//
// and, unlike the rest of a snapshot, copied at once.
func (r *rescoring) parts(pending *still[int32, served], classes int) []safetensors.Part {
	var degrees, revisions, due []int32
	var probs []float32
	next := pending.walk()
	for range pending.len {
		slot, _ := next()
		degrees = append(degrees, r.nodes[slot].degree)
		revisions = append(revisions, r.nodes[slot].revision)
		probs = append(probs, r.probs.Row(slot)...)
	}
	for i := r.due.head; i != none; i = r.due.entries.at(i).next {
		due = append(due, r.due.entries.at(i).key)
	}
	counts, sums := r.summary.AppendState(nil, nil)
	return []safetensors.Part{
		safetensors.PartOf("rescore.degree", degrees, len(degrees)),
		safetensors.PartOf("rescore.revision", revisions, len(revisions)),
		safetensors.PartOf("rescore.probabilities", probs, len(degrees), classes),
		safetensors.PartOf("rescore.due", due, len(due)),
		safetensors.PartOf("rescore.counts", counts, len(counts)),
		safetensors.PartOf("rescore.sums", sums, len(sums)),
	}
}

// set is the inverse of parts. The pending queue is there already.
func (r *rescoring) set(e *Engine, file *safetensors.Reader) error {
	n := e.pending.nodes.len()
	degrees, err := safetensors.Read[int32](file, "rescore.degree", n)
	if err != nil {
		return err
	}
	revisions, err := safetensors.Read[int32](file, "rescore.revision", n)
	if err != nil {
		return err
	}
	if err := safetensors.ReadRows(file, "rescore.probabilities", r.probs, func(probs []float32) error {
		if slices.ContainsFunc(probs, func(p float32) bool { return !(p >= 0 && p <= 1) }) {
			return damaged("a node was served with a probability that is none")
		}
		return nil
	}, n, e.model.Prior.Classes); err != nil {
		return err
	}
	due, err := safetensors.Read[int32](file, "rescore.due", file.Len("rescore.due"))
	if err != nil {
		return err
	}
	if len(due) > e.cfg.MaxPending {
		return damaged("%d nodes are to be predicted again, at most %d are", len(due), e.cfg.MaxPending)
	}
	for _, v := range due {
		if uint(v) >= uint(e.fate.len()) || r.due.get(v) != nil {
			return damaged("node %d is to be predicted again, and is not there, or twice", v)
		}
		r.due.put(v, struct{}{})
	}
	counts, err := safetensors.Read[int64](file, "rescore.counts", calibration.StateCounts)
	if err != nil {
		return err
	}
	sums, err := safetensors.Read[float64](file, "rescore.sums", calibration.StateSums)
	if err != nil {
		return err
	}
	if err := r.summary.setState(counts, sums); err != nil {
		return err
	}
	r.nodes = make([]newest, n)
	for i := range r.nodes { // what waits has slot i, see setPending
		v := e.pending.nodes.entries.at(int32(i)).key
		if degrees[i] < 0 || revisions[i] < 0 {
			return damaged("node %d has revision %d and had %d neighbours", v, revisions[i], degrees[i])
		}
		r.nodes[i] = newest{id: e.roster.came.at(v), degree: degrees[i], revision: revisions[i]}
	}
	return nil
}
