package serve

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Observer is an optional part of the engine: sets of classes, re-scoring, the
// fallback, the drift detectors. The engine has a list of the ones that its [pipeline.Config]
// asks for, and calls each method of all of them in the order of that list.
//
// In every window, served and scored are each called once, and matched between them
// for each label that is joined, in the order of [event.Outcome.Labelled]. The outcome
// is complete up to the event that a method is named after. An observer may add to it
// but must not keep it: the caller may recycle it. No observer changes a head, so
// posteriors do not depend on which observers there are.
type Observer interface {
	// Served is called when the window's arrivals have been predicted. They are
	// pending, except those that have expired already to make room for later ones.
	Served(x *Entered)
	// Matched is called when a label of this class is joined to the prediction of the
	// node in a slot of pending. The slot is vacated afterwards.
	Matched(slot, class int32)
	// Scored is called when the window's labels have been scored, and not yet learned.
	// It is called in windows without labels, too.
	Scored(out *event.Outcome)
	// State declares the observer's state.
	State(s *snapshot.Schema)
}
