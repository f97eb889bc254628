package serve

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/heads"
)

// none is no node, no slot and no class.
const none = -1

// Entered is a window whose events are in the graph. It has what serving the window needs, so
// that later windows may enter before: of the graph's structure, of which nodes are pending, and of
// which labels were joined, nothing depends on what is served.
type Entered struct {
	Window   *event.Window
	Out      *event.Outcome
	All      int       // arrivals to predict, here or elsewhere
	Own      []awaited // of them, those that are predicted here, in canonical order
	Labelled []int32   // numbers of the nodes whose labels were joined
	Joined   []Joined  // those of nodes that are predicted here
	Removed  []int32   // predictions that were removed, see [Pending]

	Corrected []heads.Correction // of labels that were learned
}

// Begin begins a window for a model.
func (x *Entered) Begin(w *event.Window, model string) {
	x.Window, x.Corrected = w, x.Corrected[:0]
	x.Out = &event.Outcome{Window: w.Number, Model: model, Refused: append([]event.Refusal(nil), w.Refused...)}
}

// byTime returns the places of the predictions in the order of their event times, in the memory of
// order.
func (x *Entered) byTime(order []int32) []int32 {
	list := x.Out.Predictions
	order = order[:0]
	for i := range list {
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(list[i].Time, list[j].Time) })
	return order
}

// Forget forgets what points into the window's memory.
func (x *Entered) Forget() {
	x.Window, x.Out = nil, nil
	clear(x.Own)
	clear(x.Joined)
}

// awaited is an arrival that is to be predicted.
type awaited struct {
	node   *event.Node
	Number int32
	slot   int32 // of pending
	at     int32 // among all arrivals to predict
}

// Joined is a label that was joined to a prediction, which may not be served yet.
type Joined struct {
	Number int32
	slot   int32          // of pending
	Place  int32          // among all labels that were joined
	entry  event.Labelled // without By
}
