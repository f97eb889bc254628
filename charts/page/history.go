package page

import (
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Limits of the history.
const (
	keptPredictions = 1 << 14
	keptWindows     = 256
	keptReasons     = 6 // of a prediction
)

// history is the part of the past that the pages and the API show. It is guarded by
// the server's lock.
type history struct {
	// The windows reported so far.
	served  ring[served]
	place   map[event.ID]int // the number in served of each node's latest prediction
	windows ring[windowSummary]
	refused refusals
	come    come
	figures figure.Kept    // sums since this worker started, and levels
	trial   *Trial         // after the last window
	latest  *event.Outcome // of the last window: only the fields that the page shows

	scored  scored // in those windows, of the model that served in the last one
	rhythm  Rhythm // of labels
	cohorts table  // of the whole stream, no rows without any

	// The state as of the last report of each kind.
	scores []pipeline.Summary // the same as the metrics'
	pool   *pipeline.Pooled   // nil if no pool serves
	model  *model.Model       // that serves
	shadow shadow
	worker working
}

// come is how much has come, and will.
type come struct {
	events   int64 // in the windows reported so far, of all kinds
	expected int64 // of the context, 0 if that is not known
	next     int64 // number of the next window
	ledger   int64 // windows to be replayed at the start, 0 before that is known
}

// working is how the worker is doing.
type working struct {
	lag    map[string]int64 // records, by topic
	owner  bool
	commit time.Time // of the last window
}

// shadow is the shadow model's scores.
type shadow struct {
	model  string // its id, "" for none
	scores []pipeline.Summary
}

// served is a prediction as it was served.
type served struct {
	event.Prediction
	label int32 // noLabel until it comes
}

const noLabel = -1

func newHistory() history {
	return history{
		place: make(map[event.ID]int), worker: working{lag: make(map[string]int64)},
		served: ring[served]{size: keptPredictions}, windows: ring[windowSummary]{size: keptWindows},
		refused: refusals{byReason: make(map[event.Reason]int), latest: ring[refusalValue]{size: keptRefusals}},
	}
}

// step adds a window. It copies the outcome's predictions, since the engine may reuse
// their memory.
func (h *history) step(w Window) {
	out := w.Outcome
	h.rhythm.Add(w.At, len(out.Predictions), len(out.Labelled))
	h.figures.Merge(out.Figures.Kept())
	h.latest = &event.Outcome{ServedBy: out.ServedBy, Heads: out.Heads, Drift: out.Drift, Coverage: out.Coverage}
	for i := range out.Refused {
		h.refused.add(out.Window, &out.Refused[i])
	}
	h.come.events += eventsOf(out)
	h.come.next, h.trial = out.Window+1, w.Trial
	for i := range out.Predictions {
		p := out.Predictions[i]
		p.Node = p.Node.Clone()
		p.Probabilities = append(h.served.replaced().Probabilities[:0], p.Probabilities...)
		if r := p.Reasons; r != nil {
			p.Reasons = &event.Causes{Class: r.Class, List: slices.Clone(r.List[:min(len(r.List), keptReasons)])}
		}
		old, full := h.served.add(served{p, noLabel})
		if full && h.place[old.Node] == h.served.first()-1 { // the node was not served again
			delete(h.place, old.Node)
		}
		h.place[p.Node] = h.served.end() - 1
	}
	for _, l := range out.Labelled {
		if s := h.find(l.Node); s != nil {
			s.label = l.Class
		}
	}
	h.scored.add(out, h.model)
	h.windows.add(summaryOf(&w))
}

// eventsOf returns the number of events in a window.
func eventsOf(out *event.Outcome) int64 {
	n := len(out.Refused)
	for _, f := range []*figure.Figure{
		event.Arrivals, event.ContextNodes, event.Updates, event.Departures, event.DeparturesUnknown, event.LabelsJoined,
		event.LabelsRepeated, event.LabelsOfContext, event.LabelsOfTraining, event.LabelsCorrected, event.LabelsWithdrawn,
	} {
		n += out.Figures.Int(f)
	}
	return int64(n)
}

// waiting returns the number of events that are in no window yet.
func (h *history) waiting() (records int64) {
	for _, n := range h.worker.lag {
		records += n
	}
	return records
}

// servedBy returns the index of the head that served the last window.
func (h *history) servedBy() int {
	if h.latest == nil {
		return 0
	}
	return h.latest.ServedBy
}

// find returns the latest prediction of a node, nil if it is no longer kept.
func (h *history) find(id event.ID) *served {
	i, kept := h.place[id]
	if !kept {
		return nil
	}
	return h.served.at(i)
}
