package table

import (
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// engine steps the program's own engine through a replayed stream, so that what
// Table I says of GVBLL is what the program serves.
//
// A step of the stream is two windows: its nodes arrive and are served, and later,
// in a window of their own, their labels come and are learned. What is known
// beforehand comes first, as context: it is part of the graph but neither served
// nor scored.
//
// The engine serves a node when it arrives, on the graph as it then is, which is
// the strict protocol. Under the full one every node comes as context; then each
// step's nodes depart and come back, naming all of their neighbours, and are served
// on the whole graph.
type engine struct {
	*pipeline.Engine
	stream *replay
	// neighbours are, by node, all that it has in the whole graph; nil under the
	// strict protocol.
	neighbours [][]int32
}

// newEngine returns an engine that has the first context nodes of the stream, and
// under the full protocol all others too, and the labels of the training nodes.
// The time that this takes counts as the stream's.
func newEngine(m *model.Model, cfg pipeline.Config, stream *replay, protocol string, context int) (*engine, error) {
	defer func(began time.Time) { stream.spent += time.Since(began) }(time.Now())
	cfg.Unwatched = true           // drift detectors change nothing that is served
	cfg.Samples = 1                // nor do the samples of the uncertainty split
	cfg.MaxPending = len(stream.x) // no served node is forgotten before its label
	e := &engine{stream: stream}
	var err error
	if e.Engine, err = pipeline.New(m, cfg); err != nil {
		return nil, err
	}
	if protocol == Full {
		e.neighbours = stream.neighbours()
		context = len(stream.x)
	}
	e.step(stream.arrivals(0, context, stream.links, true), nil)
	e.label(0, stream.train)
	return e, nil
}

// step takes the next window.
func (e *engine) step(nodes []event.Node, labels []event.Label) *event.Outcome {
	return e.Step(&event.Window{Number: e.Next(), Nodes: nodes, Labels: labels})
}

// serve lets the nodes from lo to below hi arrive, and returns what was served.
func (e *engine) serve(lo, hi int) *event.Outcome {
	if e.neighbours == nil {
		return e.step(e.stream.arrivals(lo, hi, e.stream.links, false), nil)
	}
	e.step(e.stream.departures(lo, hi), nil)
	return e.step(e.stream.arrivals(lo, hi, e.neighbours, false), nil)
}

// label tells the classes of the nodes from lo to below hi.
func (e *engine) label(lo, hi int) *event.Outcome {
	return e.step(nil, e.stream.told(lo, hi))
}

// predict serves the nodes of step t.
func (e *engine) predict(t int, probs []float64) {
	probs = probs[:0]
	for _, p := range e.serve(e.stream.span(t)).Predictions {
		for _, x := range p.Probabilities {
			probs = append(probs, float64(x))
		}
	}
}

// learn tells the labels of step t.
func (e *engine) learn(t int) { e.label(e.stream.span(t)) }
