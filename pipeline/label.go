package pipeline

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// join brings labels and what was served together, into the batch that is then
// scored and learned: labels that waited for this window's arrivals first, in
// the order of the arrivals, then the window's own.
func (e *Engine) join(w *event.Window, out *event.Outcome) {
	e.labelled.Z, e.labelled.Tau, e.labels = e.labelled.Z[:0], e.labelled.Tau[:0], e.labels[:0]
	e.said, e.by = e.said[:0], e.by[:0]
	if e.pooled != nil {
		e.pooled.batch = e.pooled.batch[:0]
	}
	if e.sets != nil {
		e.sets.clearRows()
	}
	for _, a := range e.accepted {
		if l, waited := e.early.take(a.node.ID); waited {
			e.earlyBytes -= l.bytes
			e.settle(a.number, l.class, &l.label, out)
		}
	}
	for i := range w.Labels {
		l := &w.Labels[i]
		class, ok := e.class(l)
		if !ok {
			refuse(out, l.Origin, event.UnknownClass, unknownClass(l, e.model.Classes))
			continue
		}
		if v, known := e.roster.number(l.Node); known {
			e.settle(v, class, l, out)
			continue
		}
		if left, waits := e.gone.waiting.take(l.Node); waits {
			e.settle(left.number, class, l, out)
			last := &out.Labelled[len(out.Labelled)-1]
			last.Degree, last.Fresh = int(left.degree), int(left.fresh)
			e.vacate(left.number)
			continue
		}
		e.await(class, l, out)
	}
}

// early is a label whose node has not come.
type early struct {
	label event.Label // without the class's name
	class int32
	size  int // of its record in a snapshot
	bytes int // that it takes
}

func (e *Engine) class(l *event.Label) (int32, bool) {
	if l.Class == "" {
		return l.Index, l.Index >= 0 && int(l.Index) < len(e.model.Classes)
	}
	i := slices.Index(e.model.Classes, l.Class)
	return int32(i), i >= 0
}

func unknownClass(l *event.Label, classes []string) string {
	if l.Class == "" {
		return fmt.Sprintf("class index %d, the model has 0 to %d", l.Index, len(classes)-1)
	}
	return fmt.Sprintf("class %q is not one of the model's %d", l.Class, len(classes))
}

// settle takes the label of a node that is in the graph.
func (e *Engine) settle(v, class int32, l *event.Label, out *event.Outcome) {
	f := e.fate.at(v)
	switch {
	case f.label == class:
		out.Counts.LabelsRepeated++
		return
	case f.label != none:
		refuse(out, l.Origin, event.ConflictingLabel, fmt.Sprintf("class %q, the node has %q already", e.model.Classes[class], e.model.Classes[f.label]))
		return
	}
	e.noteFate(v)
	f.label = class
	if e.pooled != nil && !f.gone {
		e.pooled.around.Label(v, class)
	}
	if e.context.has(v) {
		out.Counts.LabelsOfContext++
		return
	}
	if e.sets != nil {
		e.sets.join(e.pending, v, class)
	}
	if e.rescoring != nil && e.pending.nodes.get(v) != nil {
		e.rescoring.label(e, v)
	}
	s, z, probs, ok := e.pending.take(v)
	if !ok {
		refuse(out, l.Origin, event.LateLabel, "what was served for this node is no longer kept")
		return
	}
	e.labelled.Z = append(e.labelled.Z, z...)
	e.labelled.Tau = append(e.labelled.Tau, s.tau)
	e.labels = append(e.labels, class)
	e.said, e.by = append(e.said, probs...), append(e.by, s.by)
	if e.pooled != nil {
		e.pooled.batch = append(e.pooled.batch, v)
	}
	joined := event.Labelled{Node: l.Node, Class: class, Served: s.window, Time: l.Time, By: int(s.by)}
	joined.Degree, joined.Fresh = e.surroundings(v)
	if l.Time != 0 && s.time != 0 {
		joined.Delay = delay(s.time, l.Time)
	}
	out.Labelled = append(out.Labelled, joined)
}

// surroundings counts the neighbours of node v that came before it, and those of
// them that are not context.
func (e *Engine) surroundings(v int32) (degree, fresh int) {
	for _, u := range e.graph.Neighbours(v) {
		before := 0 // and no branches, which nobody could predict
		if e.gone.before(u, v) {
			before = 1
		}
		degree += before
		fresh += before &^ e.context.at(u)
	}
	return degree, fresh
}

// delay is the time between two that may be any: what does not fit is the most
// that does.
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

// await keeps the label of a node that has not come.
func (e *Engine) await(class int32, l *event.Label, out *event.Outcome) {
	if first := e.early.get(l.Node); first != nil {
		if first.class == class {
			out.Counts.LabelsRepeated++
		} else {
			refuse(out, l.Origin, event.ConflictingLabel, "another label of this node, which has not come, waits already")
		}
		return
	}
	size, most := labelBytes(l), waitingLabelBytes*e.cfg.MaxWaitingLabels
	if size > most {
		refuse(out, l.Origin, event.OrphanLabel, "its node has not come, and its record is too long to be kept until then")
		return
	}
	for e.early.len() == e.cfg.MaxWaitingLabels || e.earlyBytes+size > most {
		_, oldest := e.early.oldest()
		e.earlyBytes -= oldest.bytes
		refuse(out, oldest.label.Origin, event.OrphanLabel, "its node did not come while the label was kept")
	}
	e.keep(class, event.Label{Origin: l.Origin.Clone(), Node: l.Node.Clone(), Index: class, Time: l.Time})
}

// labelBytes is about how many bytes a label takes while it waits.
func labelBytes(l *event.Label) int { return l.Origin.Size() + len(l.Node.Str) }

// keep keeps a label, which is the engine's own, until its node comes.
func (e *Engine) keep(class int32, l event.Label) {
	e.state = appendLabel(e.state[:0], &l)
	kept := early{label: l, class: class, size: len(e.state), bytes: labelBytes(&l)}
	e.early.put(l.Node, kept)
	e.earlyBytes += kept.bytes
}

// score holds every head's served probabilities against the labels, before
// any head learns from them (prequential).
func (e *Engine) score(out *event.Outcome) {
	out.Heads = make([]event.Head, len(e.heads))
	for h, head := range e.heads {
		out.Heads[h].Name = head.Name()
		if len(e.labels) == 0 {
			continue
		}
		out.Heads[h].Scores = e.scoresOf(func(i int) []float32 { return e.saidBy(h, i) })
		e.summary[h].AddWindow(out.Heads[h].Scores, e.cfg.Bins)
	}
	for i := range out.Labelled {
		l := &out.Labelled[i]
		l.Predicted = e.model.Classes[out.Heads[l.By].Scores[i].Class]
	}
}

// scoresOf holds probabilities, as they were said for each of the window's labels,
// against these.
func (e *Engine) scoresOf(said func(i int) []float32) []calibration.Score {
	var scores []calibration.Score
	if last := len(e.spare.scores) - 1; last >= 0 {
		scores, e.spare.scores = e.spare.scores[last], e.spare.scores[:last]
	}
	scores = resize(scores, len(e.labels))
	e.probs = resize(e.probs, len(e.labels))
	for i, y := range e.labels {
		p := said(i)
		best := mostProbable(p)
		e.probs[i] = float64(p[y])
		scores[i] = calibration.Score{
			Class: int32(best), Confidence: float64(p[best]), Correct: best == int(y), Brier: calibration.Brier(p, y),
		}
	}
	calibration.LogLosses(e.probs)
	for i, loss := range e.probs {
		scores[i].LogLoss = loss
	}
	return scores
}
