package serve

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Observer is an optional part of the engine: sets of classes, re-scoring, the
// fallback, the drift detectors. It has a function for each event that matters to it, and nil for
// others.
//
// In every window, Served and Scored are each called once, and Matched between them
// for each label that is joined, in the order of [event.Outcome.Labelled]. The outcome
// is complete up to the event that a function is named after. An observer may add to it
// but must not keep it: the caller may recycle it. No observer changes a head, so
// posteriors do not depend on which observers there are.
type Observer struct {
	// Served is called when the window's arrivals have been predicted. They are
	// pending, except those that have expired already to make room for later ones.
	Served func(x *Entered)
	// Matched is called when a label of this class is joined to the prediction of the
	// node in a slot of pending. The slot is vacated afterwards.
	Matched func(slot, class int32)
	// Scored is called when the window's labels have been scored, and not yet learned.
	// It is called in windows without labels, too.
	Scored func(out *event.Outcome)
	// State declares the observer's state. It may be nil.
	State func(s *snapshot.Schema)
}

// Observers are those of an engine, in the order in which they were added.
type Observers struct{ list []Observer }

// Add adds an observer behind the others.
func (l *Observers) Add(o Observer) { l.list = append(l.list, o) }

// Served tells the observers that arrivals were predicted.
func (l *Observers) Served(x *Entered) {
	for i := range l.list {
		if served := l.list[i].Served; served != nil {
			served(x)
		}
	}
}

// matched tells the observers that a label was joined to what is in a slot.
func (l *Observers) matched(slot, class int32) {
	for i := range l.list {
		if matched := l.list[i].Matched; matched != nil {
			matched(slot, class)
		}
	}
}

// Scored tells the observers that labels were scored.
func (l *Observers) Scored(out *event.Outcome) {
	for i := range l.list {
		if scored := l.list[i].Scored; scored != nil {
			scored(out)
		}
	}
}

// State declares the observers' states.
func (l *Observers) State(s *snapshot.Schema) {
	for i := range l.list {
		if state := l.list[i].State; state != nil {
			state(s)
		}
	}
}
