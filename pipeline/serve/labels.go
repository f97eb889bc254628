package serve

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
)

// NewLabels returns what joins labels to the predictions of a predictor. It keeps at most
// maxWaiting that come before their node.
func NewLabels(p *Predictor, maxWaiting int, stands Standing, first bool) *Labels {
	return &Labels{first: first, model: p.model, nodes: p.nodes, pending: p.pending, unmatched: NewUnmatched(maxWaiting, stands)}
}

// Labels joins labels to the predictions that were served for their nodes.
type Labels struct {
	first     bool // numbers are indices, as in 1.0.0
	model     *model.Model
	nodes     *structure.Nodes
	pending   *Pending
	unmatched Unmatched
	Batch     heads.Batch
}

// State declares the labels that wait for their node, the oldest first.
func (l *Labels) State(s *snapshot.Schema) {
	u, q := &l.unmatched, l.unmatched.queue
	q.Freeze(s)
	size := 0
	for i := range int32(q.Slots()) {
		size += q.At(i).Value.size // 0 in an empty slot
	}
	next := q.Walk()
	var room []byte
	r := store.Reader{Rest: snapshot.Lists(s, "early.records", func() []byte {
		_, e := next()
		room = appendLabel(room[:0], &e.Value.label)
		return room
	}, s.Len("early.records", size, math.MaxInt))}
	store.DeclareKeys(s, "early", q, func(i int, id event.ID) error {
		if _, known := l.nodes.Number(id); known || q.Get(id) != nil || i >= u.bound {
			return snapshot.Damaged("a label waits for node %q, which is there, or there are more than %d", id, u.bound)
		}
		label := readLabel(&r)
		label.Node = id.Clone()
		class, ok := l.class(&label)
		if r.Bad || !ok {
			return snapshot.Damaged("what waits for node %q is no label", id)
		}
		u.keep(class, label)
		return nil
	})
	s.Check(func() error {
		if len(r.Rest) > 0 {
			return snapshot.Damaged("%d bytes more than the labels that wait", len(r.Rest))
		}
		return nil
	})
}

// Join joins the labels of a window that has entered: first those that waited for its arrivals,
// in the order of the arrivals, then those that the window received.
func (l *Labels) Join(x *Entered) {
	x.joined = x.joined[:0]
	for _, a := range l.nodes.Accepted() {
		if w, waited := l.unmatched.Claim(a.Node.ID); waited {
			l.match(a.Number, w.Class, &w.label, x)
		}
	}
	for i := range x.Window.Labels {
		label := &x.Window.Labels[i]
		if label.Skip {
			continue
		}
		class, ok := l.class(label)
		if !ok {
			x.Out.Refuse(label.Origin, event.UnknownClass, l.unknownClass(label))
			x.Out.Odd.Classes = append(x.Out.Odd.Classes, nameOf(label))
			continue
		}
		if v, known := l.nodes.Number(label.Node); known {
			l.match(v, class, label, x)
			continue
		}
		if class == none {
			l.unmatched.Wait(none, label, x.Out)
			continue
		}
		if left, waits := l.nodes.TakeLeft(label.Node); waits {
			if entry := l.match(left.Number, class, label, x); entry != nil {
				entry.Degree, entry.Fresh = int(left.Degree), int(left.Fresh)
			}
			l.nodes.Vacate(left.Number)
			continue
		}
		l.unmatched.Wait(class, label, x.Out)
	}
}

// Collect fills the batch with what was served for the labels that a window joined, once the
// window is served.
func (l *Labels) Collect(x *Entered, observers *Observers) {
	b := &l.Batch
	b.Clear()
	for i := range x.joined {
		j := &x.joined[i]
		observers.matched(j.slot, j.entry.Class)
		s, z, outputs := l.pending.at(j.slot)
		b.Nodes, b.Labels = append(b.Nodes, j.number), append(b.Labels, j.entry.Class)
		b.Rows.Z, b.Rows.Tau = append(b.Rows.Z, z...), append(b.Rows.Tau, s.tau)
		b.Outputs, b.ServedBy = append(b.Outputs, outputs...), append(b.ServedBy, s.Head)
		j.entry.By = int(s.Head)
		x.Out.Labelled = append(x.Out.Labelled, j.entry)
	}
	if len(x.corrected) > 0 {
		l.collectCorrections(x.corrected)
	}
}

// collectCorrections adds corrections to the batch. What was served for their nodes is gone, so
// these are encoded on the graph as it is.
func (l *Labels) collectCorrections(list []heads.Correction) {
	var nodes []int32
	for _, c := range list {
		if c.Class != none {
			nodes = append(nodes, c.Node)
		}
	}
	z := make([]float32, len(nodes)*l.model.Prior.Dim)
	l.nodes.Graph.Embed(nodes, z)
	l.Batch.Corrections = append(l.Batch.Corrections, list...)
	l.Batch.Corrected = posterior.Rows{Z: z, Tau: temperatures(nil, z, l.model)}
}

// class returns the index of a label's class, none if it is withdrawn, and whether the model
// has it.
func (l *Labels) class(label *event.Label) (int32, bool) {
	if label.Withdrawn {
		return none, true
	}
	if l.first {
		return label.FirstIn(l.model.Classes)
	}
	return label.In(l.model.Classes)
}

// nameOf returns the name of a label's class, its index as "#7", or "null".
func nameOf(label *event.Label) string {
	switch {
	case label.Withdrawn:
		return "null"
	case label.Class == "":
		return fmt.Sprintf("#%d", label.Index)
	}
	return label.Class
}

func (l *Labels) unknownClass(label *event.Label) string {
	if !l.first && label.Class == "" && event.Numbered(l.model.Classes) {
		return fmt.Sprintf("class %d is the name of none of the model's %d, such as %q: numbers are names here, "+
			"not indices", label.Index, len(l.model.Classes), l.model.Classes[0])
	}
	if label.Class == "" {
		return fmt.Sprintf("class index %d, the model has 0 to %d", label.Index, len(l.model.Classes)-1)
	}
	detail := fmt.Sprintf("class %q is not one of the model's %d", label.Class, len(l.model.Classes))
	if i := slices.IndexFunc(l.model.Classes, func(c string) bool { return alike(c, label.Class) }); i >= 0 {
		detail += fmt.Sprintf(": is it %q?", l.model.Classes[i])
	}
	return detail
}

// alike reports whether two names are the same but for upper and lower case, space around them
// and at most one letter. Its time is linear in them, because anybody may send names.
func alike(a, b string) bool {
	a, b = strings.ToLower(strings.TrimSpace(a)), strings.ToLower(strings.TrimSpace(b))
	if len(a) > len(b) {
		a, b = b, a
	}
	first := 0 // of the bytes that differ
	for first < len(a) && a[first] == b[first] {
		first++
	}
	a, b = a[first:], b[first:]
	for len(a) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(b) <= 1 && first > 0 && !strings.ContainsAny(a+b, "0123456789") // class-1 is not class-2
}

// match joins a label of node v if v is pending, and returns the label's entry then. A node's first label is joined. A
// different one later corrects it or is
// refused, an equal one is ignored.
func (l *Labels) match(v, class int32, label *event.Label, x *Entered) *event.Labelled {
	known, past := l.nodes.Class(v), l.nodes.Past(v)
	switch {
	case class == known:
		x.Out.Figures.Count(event.LabelsRepeated, 1)
		return nil
	case known == none && past&structure.Withdrawn == 0:
	case l.unmatched.stands == FirstStands:
		x.Out.Refuse(label.Origin, event.ConflictingLabel, fmt.Sprintf("class %s, the node has %q already, and its "+
			"first label stands", nameOf(label), l.model.Classes[known]))
		return nil
	default:
		l.correct(heads.Correction{Node: v, Was: known, Class: class, Replaced: past&structure.Replaced != 0}, label.Node, x)
		return nil
	}
	l.nodes.SetLabel(v, class)
	if l.nodes.IsContext(v) {
		x.Out.Figures.Count(event.LabelsOfContext, 1)
		return nil
	}
	slot, waits := l.pending.Nodes.SlotOf(v)
	if l.model.TrainedOn(label.Node) {
		x.Out.Figures.Count(event.LabelsOfTraining, 1)
		l.pending.Drop(v)
		return nil
	}
	if !waits {
		l.nodes.SetLate(v)
		x.Out.Refuse(label.Origin, event.LateLabel, "what was served for this node is no longer kept")
		return nil
	}
	l.pending.Drop(v)
	s := &l.pending.Nodes.At(slot).Value
	j := joined{number: v, slot: slot, entry: event.Labelled{Node: label.Node, Class: class, Served: s.window, Time: label.Time}}
	j.entry.Degree, j.entry.Fresh = l.nodes.Surroundings(v)
	if label.Time != 0 && s.Time != 0 {
		delay, likely := event.Delay(s.Time, label.Time)
		if likely {
			j.entry.Delay = delay
		} else {
			x.Out.Figures.Count(event.LabelsMistimed, 1)
		}
	}
	x.joined = append(x.joined, j)
	return &x.joined[len(x.joined)-1].entry
}

// correct sets a label that corrects another one, or withdraws it. It is learned if the
// first one was.
func (l *Labels) correct(c heads.Correction, id event.ID, x *Entered) {
	if c.Class == none {
		x.Out.Figures.Count(event.LabelsWithdrawn, 1)
	} else {
		x.Out.Figures.Count(event.LabelsCorrected, 1)
	}
	learned := !l.nodes.IsContext(c.Node) && l.nodes.Past(c.Node)&structure.Late == 0 && !l.model.TrainedOn(id)
	l.nodes.SetLabel(c.Node, c.Class)
	if learned {
		x.corrected = append(x.corrected, c)
	}
}

// Levels sets how much is kept after a window.
func (l *Labels) Levels(out *event.Outcome) {
	f := &out.Figures
	f.Count(event.GraphNodes, l.nodes.Len())
	f.Count(event.GraphEdges, l.nodes.Graph.Edges())
	f.Count(event.Pending, l.pending.Nodes.Len())
	f.Count(event.WaitingLabels, l.unmatched.queue.Len())
	f.Count(event.WaitingEdges, l.nodes.WaitingEdges())
	f.Count(event.LabelsJoined, len(out.Labelled))
	l.unmet(out, "edges", f.Int(event.WaitingEdges), l.nodes.AwaitedLongest)
	l.unmet(out, "labels", f.Int(event.WaitingLabels), l.unmatched.AwaitedLongest)
}

// manyUnmet is how many edges or labels may wait before an outcome says for whom.
const manyUnmet = 100

// unmet reports that so many edges or labels wait.
func (l *Labels) unmet(out *event.Outcome, what string, waiting int, longest func() event.ID) {
	if waiting >= manyUnmet {
		u := event.Unmet{What: what, Waiting: waiting, Node: longest()}
		if other, ok := u.Node.Otherwise(); ok {
			_, u.Otherwise = l.nodes.Number(other)
		}
		out.Odd.Unmet = append(out.Odd.Unmet, u)
	}
}

// Prefetch announces that labels will be joined. It matters when what was served for their
// nodes is not in memory: then it is read while the window is predicted.
func (l *Labels) Prefetch(received []event.Label) {
	if len(l.pending.rows.blocks) == 0 {
		return
	}
	for i := range received {
		if v, known := l.nodes.Number(received[i].Node); known {
			l.pending.prefetch(v)
		}
	}
}
