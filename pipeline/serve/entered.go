package serve

import (
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
)

// none is no node, no slot and no class.
const none = -1

// Entered is a window whose events are in the graph, with what serving it needs. Of the graph's
// structure, of which nodes are pending, and of which labels are joined, nothing depends on what
// is served.
type Entered struct {
	Window   *event.Window
	Out      *event.Outcome
	Arrivals []awaited // that are predicted, in canonical order

	joined    []joined           // labels
	corrected []heads.Correction // of labels that were learned
}

// Begin begins a window for a model.
func (x *Entered) Begin(w *event.Window, model string) {
	x.Window, x.corrected = w, x.corrected[:0]
	x.Out = &event.Outcome{Window: w.Number, Model: model, Refused: append([]event.Refusal(nil), w.Refused...)}
}

// Forget forgets what points into the window's memory.
func (x *Entered) Forget() {
	x.Window, x.Out = nil, nil
	clear(x.Arrivals)
	clear(x.joined)
}

// awaited is an arrival that is to be predicted.
type awaited struct {
	Node   *event.Node
	Number int32
	Slot   int32 // of pending
}

// joined is a label that was joined to a prediction.
type joined struct {
	number int32
	slot   int32          // of pending
	entry  event.Labelled // without By
}
