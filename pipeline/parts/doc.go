// Package parts has the optional parts of an engine. Each is a [serve.Observer], declares its settings,
// its figures and its state, and changes no head:
//
//	sets.go, coverage.go      a set of classes for every prediction, and when to abstain
//	act.go                    on which predictions to act
//	ask.go                    of which nodes to ask for the label
//	rescore.go, requests.go   nodes that are predicted again: by a rule; when an event asks for it
//	fallback.go               which of the paper's heads serves
//	reasons.go                what moved a prediction
//	cohorts.go                scores by the value of an attribute
//	rates.go                  for which share of each class's nodes a label comes
//	drift.go                  detectors of drift
package parts

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// byTime returns the places of predictions in the order of their event times, in the memory of order.
func byTime(list []event.Prediction, order []int32) []int32 {
	order = order[:0]
	for i := range list {
		order = append(order, int32(i))
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(list[i].Time, list[j].Time) })
	return order
}

// eachWaiting calls each for the predictions whose node, of which number returns the number, waits for its label, with its slot.
func eachWaiting(
	list []event.Prediction, pending *serve.Pending, number func(event.ID) (int32, bool), each func(slot int32, p *event.Prediction),
) {
	for i := range list {
		v, there := number(list[i].Node)
		if slot, waits := pending.Nodes.SlotOf(v); there && waits {
			each(slot, &list[i])
		}
	}
}
