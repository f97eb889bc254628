package pipeline

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// labels joins labels to the predictions that were served for their nodes.
type labels struct {
	classes   []string
	nodes     *nodes
	pending   *pending
	unmatched unmatched
	all       []int32 // numbers of the nodes whose labels were joined in the window, in all slices
	batch     batch
}

// batch is the labels joined in a window, in the order in which they are learned: of a
// slice, those of the nodes that it predicted. All fields have an entry (or a row) for
// each; all but labels are as of serving.
type batch struct {
	nodes    []int32        // numbers
	places   []int32        // among the labels that all slices joined
	rows     posterior.Rows // embeddings and temperatures
	outputs  []float32      // serving.width numbers a label
	servedBy []uint8        // the head that served
	labels   []int32
}

func (b *batch) clear() {
	b.nodes, b.places, b.labels = b.nodes[:0], b.places[:0], b.labels[:0]
	b.rows.Z, b.rows.Tau, b.outputs, b.servedBy = b.rows.Z[:0], b.rows.Tau[:0], b.outputs[:0], b.servedBy[:0]
}

// copyTo copies embeddings, temperatures and labels to the memory of another batch.
func (b *batch) copyTo(to *pool.Batch) {
	to.Embedded.Z = append(to.Embedded.Z[:0], b.rows.Z...)
	to.Embedded.Tau = append(to.Embedded.Tau[:0], b.rows.Tau...)
	to.Labels = append(to.Labels[:0], b.labels...)
}

// state declares the labels that wait for their node, the oldest first.
func (l *labels) state(s *snapshot.Schema) {
	u, q := &l.unmatched, l.unmatched.queue
	q.freeze(s)
	size := 0
	for i := range int32(q.entries.len()) {
		size += q.entries.at(i).value.size // 0 in an empty slot
	}
	next := q.walk()
	var room []byte
	r := recordReader{b: snapshot.Lists(s, "early.records", func() []byte {
		_, e := next()
		room = appendLabel(room[:0], &e.value.label)
		return room
	}, s.Len("early.records", size, math.MaxInt))}
	declareKeys(s, "early", q, func(i int, id event.ID) error {
		if _, known := l.nodes.index.number(id); known || q.get(id) != nil || i >= u.bound {
			return snapshot.Damaged("a label waits for node %q, which is there, or there are more than %d", id, u.bound)
		}
		label := r.label()
		label.Node = id.Clone()
		class, ok := l.class(&label)
		if r.bad || !ok {
			return snapshot.Damaged("what waits for node %q is no label", id)
		}
		u.keep(class, label)
		return nil
	})
	s.Check(func() error {
		if len(r.b) > 0 {
			return snapshot.Damaged("%d bytes more than the labels that wait", len(r.b))
		}
		return nil
	})
}

// join fills the batch of a window: first the labels that waited for its arrivals, in
// the order of the arrivals, then the labels that the window received.
func (l *labels) join(received []event.Label, observers []observer, out *event.Outcome) {
	l.batch.clear()
	l.all = l.all[:0]
	for _, a := range l.nodes.arrivals.accepted {
		if w, waited := l.unmatched.claim(a.node.ID); waited {
			l.match(a.number, w.class, &w.label, observers, out)
		}
	}
	for i := range received {
		label := &received[i]
		class, ok := l.class(label)
		if !ok {
			refuse(out, label.Origin, event.UnknownClass, l.unknownClass(label))
			out.UnknownClasses = append(out.UnknownClasses, nameOf(label))
			continue
		}
		if v, known := l.nodes.index.number(label.Node); known {
			l.match(v, class, label, observers, out)
			continue
		}
		if left, waits := l.nodes.departed.waiting.remove(label.Node); waits {
			if entry := l.match(left.number, class, label, observers, out); entry != nil {
				entry.Degree, entry.Fresh = int(left.degree), int(left.fresh)
			}
			l.nodes.vacate(left.number)
			continue
		}
		l.unmatched.wait(class, label, out)
	}
}

// class returns the index of a label's class, if the model has it.
func (l *labels) class(label *event.Label) (int32, bool) {
	if label.Class == "" {
		return label.Index, label.Index >= 0 && int(label.Index) < len(l.classes)
	}
	i := slices.Index(l.classes, label.Class)
	return int32(i), i >= 0
}

// nameOf returns the name of a label's class, or its index as "#7".
func nameOf(label *event.Label) string {
	if label.Class == "" {
		return fmt.Sprintf("#%d", label.Index)
	}
	return label.Class
}

func (l *labels) unknownClass(label *event.Label) string {
	if label.Class == "" {
		return fmt.Sprintf("class index %d, the model has 0 to %d", label.Index, len(l.classes)-1)
	}
	return fmt.Sprintf("class %q is not one of the model's %d", label.Class, len(l.classes))
}

// match joins a label of node v if v is pending. If this slice predicted v, it adds the
// label to the batch and returns its entry in the outcome. A node's first label counts: a
// different one later is refused, an equal one ignored.
func (l *labels) match(v, class int32, label *event.Label, observers []observer, out *event.Outcome) *event.Labelled {
	switch known := l.nodes.states.at(v).label; known {
	case class:
		out.Counts.LabelsRepeated++
		return nil
	case none:
	default:
		refuse(out, label.Origin, event.ConflictingLabel, fmt.Sprintf("class %q, the node has %q already", l.classes[class], l.classes[known]))
		return nil
	}
	l.nodes.label(v, class)
	if l.nodes.context.has(v) {
		out.Counts.LabelsOfContext++
		return nil
	}
	slot, waits := l.pending.nodes.slotOf(v)
	if l.nodes.model.TrainedOn(label.Node) {
		out.Counts.LabelsOfTraining++
		if waits {
			l.pending.remove(v)
		}
		return nil
	}
	if !waits {
		refuse(out, label.Origin, event.LateLabel, "what was served for this node is no longer kept")
		return nil
	}
	place := int32(len(l.all))
	l.all = append(l.all, v)
	if !l.pending.isHere(slot) {
		l.pending.remove(v)
		return nil
	}
	for _, o := range observers {
		o.matched(slot, class)
	}
	s, z, outputs := l.pending.at(slot)
	b := &l.batch
	b.nodes, b.places, b.labels = append(b.nodes, v), append(b.places, place), append(b.labels, class)
	b.rows.Z, b.rows.Tau = append(b.rows.Z, z...), append(b.rows.Tau, s.tau)
	b.outputs, b.servedBy = append(b.outputs, outputs...), append(b.servedBy, s.head)
	entry := event.Labelled{Node: label.Node, Class: class, Served: s.window, Time: label.Time, By: int(s.head)}
	entry.Degree, entry.Fresh = l.nodes.surroundings(v)
	if label.Time != 0 && s.time != 0 {
		entry.Delay = delay(s.time, label.Time)
	}
	out.Labelled = append(out.Labelled, entry)
	l.pending.remove(v)
	return &out.Labelled[len(out.Labelled)-1]
}

// prefetch announces that labels will be joined. It matters when what was served for their
// nodes is not in memory: then it is read while the window is predicted.
func (l *labels) prefetch(received []event.Label) {
	if len(l.pending.rows.blocks) == 0 {
		return
	}
	for i := range received {
		if v, known := l.nodes.index.number(received[i].Node); known {
			l.pending.prefetch(v)
		}
	}
}

// delay returns to-from, saturated to int64.
func delay(from, to int64) int64 {
	d := to - from
	switch {
	case to >= from && d < 0:
		return math.MaxInt64
	case to < from && d >= 0:
		return math.MinInt64
	}
	return d
}
