package pipeline

import "github.com/gvbll/gvbll/pipeline/event"

// observer is a part of the engine that is there or not: sets of classes,
// re-scoring, the fallback, the drift detectors. It follows what is served and
// scored, and adds to the outcome what it makes of it. Within a window its methods
// are called in this order.
type observer interface {
	// served: the window's arrivals are predicted and pending.
	served(out *event.Outcome)
	// matched: a label of this class joins what was served for the node in a slot of
	// pending, which it is about to leave.
	matched(slot, class int32)
	// scored: the window's labels are scored, and not yet learned.
	scored(out *event.Outcome)

	part
}
