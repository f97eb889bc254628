package table

import (
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// engine runs the program's own engine on a replay, so that Table I measures what the
// program serves.
//
// A step of the stream is two windows. In the first its nodes arrive and are served.
// In the second, which may come steps later, their labels come and are learned. Nodes
// that are known beforehand come first, as context: they are part of the graph, but
// neither served nor scored.
//
// The engine serves a node when it arrives, on the graph as it is then: that is the
// strict protocol. For the others all nodes come as context. Then the nodes of
// each step depart and arrive again, name all of their neighbours, and so are served
// on the whole graph.
type engine struct {
	*pipeline.Engine
	stream *replay
	// neighbours are each node's neighbours in the whole graph; nil under the strict
	// protocol.
	neighbours [][]int32
}

// newEngine returns an engine whose graph holds the first context nodes of the stream,
// or under the others all nodes, and that has the labels of the training nodes.
// cfg.LearnLag is in steps.
func newEngine(m *model.Model, cfg pipeline.Config, stream *replay, protocol string, context int) (*engine, error) {
	cfg.Local.Unwatched = true         // drift detectors do not change predictions,
	cfg.Samples = 1                    // nor does the uncertainty split
	cfg.Bounds.Pending = len(stream.x) // every node is kept until its label comes
	e := &engine{stream: stream}
	cfg.LearnLag *= 2 // windows of a step
	if protocol != strict {
		cfg.LearnLag = cfg.LearnLag / 2 * 3
	}
	var err error
	if e.Engine, err = pipeline.New(m, cfg); err != nil {
		return nil, err
	}
	if protocol != strict {
		e.neighbours = stream.neighbours()
		context = len(stream.x)
	}
	e.step(stream.arrivals(0, context, stream.links, true), nil)
	e.label(0, stream.train)
	return e, nil
}

// step steps the engine with the next window.
func (e *engine) step(nodes []event.Node, labels []event.Label) *event.Outcome {
	return e.Step(&event.Window{Number: e.Next(), Nodes: nodes, Labels: labels})
}

// serve has the nodes from lo to below hi arrive, and returns their predictions.
func (e *engine) serve(lo, hi int) *event.Outcome {
	if e.neighbours == nil {
		return e.step(e.stream.arrivals(lo, hi, e.stream.links, false), nil)
	}
	e.step(e.stream.departures(lo, hi), nil)
	return e.step(e.stream.arrivals(lo, hi, e.neighbours, false), nil)
}

// label gives the engine the labels of the nodes from lo to below hi.
func (e *engine) label(lo, hi int) *event.Outcome {
	return e.step(nil, e.stream.labelsOf(numbers(lo, hi)))
}

// predict implements system.
func (e *engine) predict(t int, probs []float64) {
	probs = probs[:0]
	for _, p := range e.serve(e.stream.span(t)).Predictions {
		for _, x := range p.Probabilities {
			probs = append(probs, float64(x))
		}
	}
}

// learn implements system.
func (e *engine) learn(nodes []int32) { e.step(nil, e.stream.labelsOf(nodes)) }
