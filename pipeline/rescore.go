package pipeline

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
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
	taken     *taken
	bound     int // of due

	// By the slots of pending:
	newest []newest
	probs  *kernel.Table[float32] // as last published, C a row

	due *queue[int32, struct{}] // node numbers

	near    []int32   // neighbours of nodes that are leaving the graph
	told    []float32 // the newest probabilities of the window's labels, C each
	summary Summary
	batch   []int32 // scratch: nodes to be predicted …
	z       []float32
}

// newest is the last prediction of a node.
type newest struct {
	degree   int32 // when it was made, published or not
	revision int32 // published; 0 is the first one
}

var (
	_ observer = (*rescoring)(nil)
	_ follower = (*rescoring)(nil)
)

func newRescoring(cfg Config, p *predictor, s *scorer, t *taken) *rescoring {
	return &rescoring{
		Rescoring: cfg.Rescore, predictor: p, scorer: s, taken: t, bound: cfg.MaxPending,
		probs: kernel.NewTable[float32](p.model.Prior.Classes), due: newNodeQueue[struct{}](), summary: Summary{Head: revisedHead},
	}
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
			r.due.oldest()
		}
		r.due.put(v, struct{}{})
	}
}

// isDue reports whether node v, if it is in the graph and pending, is to be
// predicted again, and returns its slot.
func (r *rescoring) isDue(v int32) (slot int32, due bool) {
	slot, waits := r.predictor.pending.nodes.place(v)
	if !waits || r.predictor.nodes.states.at(v).gone {
		return 0, false
	}
	by := r.degree(v) - r.newest[slot].degree
	return slot, max(by, -by) >= int32(min(max(r.After, 1), math.MaxInt32))
}

func (r *rescoring) degree(v int32) int32 { return int32(r.predictor.nodes.graph.Degree(v)) }

// served notes what was served for the window's arrivals, and then predicts nodes
// again that are due: as the arrivals were, on G_t and before the window's labels
// are learned.
func (r *rescoring) served(out *event.Outcome) {
	for i, v := range r.predictor.nodes.arrivals.asked {
		slot, waits := r.predictor.pending.nodes.place(v)
		if !waits { // it made room for others of its window
			continue
		}
		for int(slot) >= len(r.newest) {
			r.newest = append(r.newest, newest{})
			r.probs.Grow(1)
		}
		r.newest[slot] = newest{degree: r.degree(v)}
		copy(r.probs.Row(slot), out.Predictions[i].Probabilities)
	}
	r.batch = r.batch[:0]
	for r.due.len() > 0 && len(r.batch) < r.Limit {
		v, _ := r.due.oldest()
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
		slot, _ := p.pending.nodes.place(v)
		n, last := &r.newest[slot], r.probs.Row(slot)
		n.degree = r.degree(v)
		again := p.opinion(p.nodes.index.came.at(v), r.z[i*d:(i+1)*d], view{node: v, without: none}).Prediction
		if r.Confidence > 0 && r.sure(last[mostProbable(last)]) == r.sure(again.Confidence) {
			continue
		}
		n.revision++
		copy(last, again.Probabilities)
		again.Window, again.Revision, again.Time = out.Window, n.revision, p.pending.nodes.get(v).time
		out.Revisions = append(out.Revisions, again)
	}
}

func (r *rescoring) sure(confidence float32) bool { return float64(confidence) >= r.Confidence }

// matched notes the newest probabilities of the node whose label comes.
func (r *rescoring) matched(slot, _ int32) { r.told = append(r.told, r.probs.Row(slot)...) }

// scored scores them, as one head more.
func (r *rescoring) scored(out *event.Outcome) {
	h := event.Head{Name: revisedHead}
	if len(r.told) > 0 {
		c := r.predictor.model.Prior.Classes
		h.Scores = r.scorer.scores(func(i int) []float32 { return r.told[i*c : (i+1)*c] })
		r.summary.AddWindow(h.Scores, r.scorer.bins)
	}
	r.told = r.told[:0]
	out.Heads = append(out.Heads, h)
}

// parts are, of p pending nodes, in the order of pending.node,
//
//	rescore.degree         I32  p: when each was last predicted
//	rescore.revision       I32  p
//	rescore.probabilities  F32  p × classes, as last published
//	rescore.due            I32  the nodes that are due, the longest first
//	rescore.counts         I64  42 \ of the head of what was last published,
//	rescore.sums           F64  27 / see calibration.Prequential
//
// and, unlike the rest of a snapshot, copied at once.
func (r *rescoring) parts() []safetensors.Part {
	var degrees, revisions, due []int32
	var probs []float32
	next := r.taken.pending.walk()
	for range r.taken.pending.len {
		slot, _ := next()
		degrees = append(degrees, r.newest[slot].degree)
		revisions = append(revisions, r.newest[slot].revision)
		probs = append(probs, r.probs.Row(slot)...)
	}
	for i := r.due.head; i != none; i = r.due.entries.at(i).next {
		due = append(due, r.due.entries.at(i).key)
	}
	counts, sums := r.summary.AppendState(nil, nil)
	return []safetensors.Part{
		safetensors.PartOf("rescore.degree", degrees, len(degrees)),
		safetensors.PartOf("rescore.revision", revisions, len(revisions)),
		safetensors.PartOf("rescore.probabilities", probs, len(degrees), r.predictor.model.Prior.Classes),
		safetensors.PartOf("rescore.due", due, len(due)),
		safetensors.PartOf("rescore.counts", counts, len(counts)),
		safetensors.PartOf("rescore.sums", sums, len(sums)),
	}
}

// restore is the inverse of parts. Nodes and pending were read before.
func (r *rescoring) restore(file *safetensors.Reader) error {
	pending, n := r.predictor.pending, r.predictor.pending.nodes.len()
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
	}, n, r.predictor.model.Prior.Classes); err != nil {
		return err
	}
	due, err := safetensors.Read[int32](file, "rescore.due", file.Len("rescore.due"))
	if err != nil {
		return err
	}
	if len(due) > r.bound {
		return damaged("%d nodes are to be predicted again, at most %d are", len(due), r.bound)
	}
	for _, v := range due {
		if uint(v) >= uint(r.predictor.nodes.states.len()) || r.due.get(v) != nil {
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
	r.newest = make([]newest, n)
	for i := range r.newest { // pending nodes were read into slots in order
		if degrees[i] < 0 || revisions[i] < 0 {
			return damaged("node %d has revision %d and had %d neighbours", pending.nodes.entries.at(int32(i)).key, revisions[i], degrees[i])
		}
		r.newest[i] = newest{degree: degrees[i], revision: revisions[i]}
	}
	return nil
}
