package pipeline

import "github.com/gvbll/gvbll/pipeline/event"

// none is no node, no slot and no class.
const none = -1

// entered is a window whose events are in the graph. It has what serving the window needs, so
// that later windows may enter before: of the graph's structure, of which nodes are pending, and of
// which labels were joined, nothing depends on what is served.
type entered struct {
	window   *event.Window
	out      *event.Outcome
	all      int       // arrivals to predict, of all slices
	own      []awaited // of them, those that this slice predicts, in canonical order
	labelled []int32   // numbers of the nodes whose labels were joined, of all slices
	joined   []joined  // of them, those that this slice predicted
	removed  []int32   // predictions that were removed, see [pending]
}

// forget forgets what points into the window's memory.
func (x *entered) forget() {
	x.window, x.out = nil, nil
	clear(x.own)
	clear(x.joined)
}

// awaited is an arrival that is to be predicted.
type awaited struct {
	node   *event.Node
	number int32
	slot   int32 // of pending
	at     int32 // among the arrivals of all slices
}

// joined is a label that was joined to a prediction, which may not be served yet.
type joined struct {
	number int32
	slot   int32          // of pending
	place  int32          // among the labels that all slices joined
	entry  event.Labelled // without By
}
