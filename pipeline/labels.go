package pipeline

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// labels joins labels to the predictions that were served for their nodes.
type labels struct {
	model     *model.Model
	nodes     *structure.Nodes
	pending   *pending
	unmatched unmatched
	batch     batch
}

// batch is the labels joined in a window, in the order in which they are learned: of a
// slice, those of the nodes that it predicted. All fields have an entry (or a row) for
// each; all but labels are as of serving.
type batch struct {
	nodes    []int32        // numbers
	rows     posterior.Rows // embeddings and temperatures
	outputs  []float32      // serving.width numbers a label
	servedBy []uint8        // the head that served
	labels   []int32
}

func (b *batch) clear() {
	b.nodes, b.labels = b.nodes[:0], b.labels[:0]
	b.rows.Z, b.rows.Tau, b.outputs, b.servedBy = b.rows.Z[:0], b.rows.Tau[:0], b.outputs[:0], b.servedBy[:0]
}

// copyTo copies embeddings, temperatures and labels to the memory of another batch.
func (b *batch) copyTo(to *pool.Batch) {
	to.Embedded.Z = append(to.Embedded.Z[:0], b.rows.Z...)
	to.Embedded.Tau = append(to.Embedded.Tau[:0], b.rows.Tau...)
	to.Labels = append(to.Labels[:0], b.labels...)
}

// State declares the labels that wait for their node, the oldest first.
func (l *labels) State(s *snapshot.Schema) {
	u, q := &l.unmatched, l.unmatched.queue
	q.Freeze(s)
	size := 0
	for i := range int32(q.Slots()) {
		size += q.At(i).Value.size // 0 in an empty slot
	}
	next := q.Walk()
	var room []byte
	r := recordReader{b: snapshot.Lists(s, "early.records", func() []byte {
		_, e := next()
		room = appendLabel(room[:0], &e.Value.label)
		return room
	}, s.Len("early.records", size, math.MaxInt))}
	store.DeclareKeys(s, "early", q, func(i int, id event.ID) error {
		if _, known := l.nodes.Number(id); known || q.Get(id) != nil || i >= u.bound {
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

// join joins the labels of a window that has entered: first those that waited for its arrivals,
// in the order of the arrivals, then those that the window received.
func (l *labels) join(x *entered) {
	x.labelled, x.joined = x.labelled[:0], x.joined[:0]
	for _, a := range l.nodes.Accepted() {
		if w, waited := l.unmatched.claim(a.Node.ID); waited {
			l.match(a.Number, w.class, &w.label, x)
		}
	}
	for i := range x.window.Labels {
		label := &x.window.Labels[i]
		class, ok := l.class(label)
		if !ok {
			x.out.Refuse(label.Origin, event.UnknownClass, l.unknownClass(label))
			x.out.UnknownClasses = append(x.out.UnknownClasses, nameOf(label))
			continue
		}
		if v, known := l.nodes.Number(label.Node); known {
			l.match(v, class, label, x)
			continue
		}
		if left, waits := l.nodes.TakeLeft(label.Node); waits {
			if entry := l.match(left.Number, class, label, x); entry != nil {
				entry.Degree, entry.Fresh = int(left.Degree), int(left.Fresh)
			}
			l.nodes.Vacate(left.Number)
			continue
		}
		l.unmatched.wait(class, label, x.out)
	}
}

// collect fills the batch with what was served for the labels that a window joined, once the
// window is served.
func (l *labels) collect(x *entered, observers []observer) {
	b := &l.batch
	b.clear()
	for i := range x.joined {
		j := &x.joined[i]
		for _, o := range observers {
			o.matched(j.slot, j.entry.Class)
		}
		s, z, outputs := l.pending.at(j.slot)
		b.nodes, b.labels = append(b.nodes, j.number), append(b.labels, j.entry.Class)
		b.rows.Z, b.rows.Tau = append(b.rows.Z, z...), append(b.rows.Tau, s.tau)
		b.outputs, b.servedBy = append(b.outputs, outputs...), append(b.servedBy, s.head)
		j.entry.By = int(s.head)
		x.out.Labelled = append(x.out.Labelled, j.entry)
	}
}

// class returns the index of a label's class, if the model has it.
func (l *labels) class(label *event.Label) (int32, bool) {
	if label.Class == "" {
		return label.Index, label.Index >= 0 && int(label.Index) < len(l.model.Classes)
	}
	i := slices.Index(l.model.Classes, label.Class)
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
		return fmt.Sprintf("class index %d, the model has 0 to %d", label.Index, len(l.model.Classes)-1)
	}
	return fmt.Sprintf("class %q is not one of the model's %d", label.Class, len(l.model.Classes))
}

// match joins a label of node v if v is pending. If this slice predicts v, it returns the
// label's entry. A node's first label counts: a different one later is refused, an equal one
// ignored.
func (l *labels) match(v, class int32, label *event.Label, x *entered) *event.Labelled {
	switch known := l.nodes.Class(v); known {
	case class:
		x.out.Counts.LabelsRepeated++
		return nil
	case none:
	default:
		x.out.Refuse(label.Origin, event.ConflictingLabel, fmt.Sprintf("class %q, the node has %q already", l.model.Classes[class], l.model.Classes[known]))
		return nil
	}
	l.nodes.SetLabel(v, class)
	if l.nodes.IsContext(v) {
		x.out.Counts.LabelsOfContext++
		return nil
	}
	slot, waits := l.pending.nodes.SlotOf(v)
	if l.model.TrainedOn(label.Node) {
		x.out.Counts.LabelsOfTraining++
		l.pending.Drop(v)
		return nil
	}
	if !waits {
		x.out.Refuse(label.Origin, event.LateLabel, "what was served for this node is no longer kept")
		return nil
	}
	l.pending.Drop(v)
	place := int32(len(x.labelled))
	x.labelled = append(x.labelled, v)
	s := &l.pending.nodes.At(slot).Value
	if !s.own {
		return nil
	}
	j := joined{number: v, slot: slot, place: place, entry: event.Labelled{Node: label.Node, Class: class, Served: s.window, Time: label.Time}}
	j.entry.Degree, j.entry.Fresh = l.nodes.Surroundings(v)
	if label.Time != 0 && s.time != 0 {
		j.entry.Delay = delay(s.time, label.Time)
	}
	x.joined = append(x.joined, j)
	return &x.joined[len(x.joined)-1].entry
}

// prefetch announces that labels will be joined. It matters when what was served for their
// nodes is not in memory: then it is read while the window is predicted.
func (l *labels) prefetch(received []event.Label) {
	if len(l.pending.rows.blocks) == 0 {
		return
	}
	for i := range received {
		if v, known := l.nodes.Number(received[i].Node); known {
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
