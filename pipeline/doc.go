// Package pipeline is the engine: a deterministic state machine that takes one
// window of events after the other, and returns what is served and learned.
//
//	engine, err := pipeline.New(model, pipeline.Config{})
//	outcome := engine.Step(&event.Window{Number: 0, Nodes: nodes, Labels: labels})
//
// A step is three calls, which may be made one by one:
//
//   - [Engine.Enter] brings the graph up to date with the window's node events and
//     encodes the arrivals on it (arrive.go, depart.go);
//   - [Engine.Serve] predicts them (predict.go) and keeps what is served until the
//     label comes (pending.go);
//   - [Engine.Learn] joins labels to what was served for their nodes (labels.go),
//     scores that (score.go), and only then updates the heads.
//
// What predicts and learns is a serving (serving.go): the paper's two heads
// (paper.go) or a pool of heads (pool.go). Sets of classes (sets.go), drift
// detectors (drift.go), re-scoring (rescore.go) and the fallback to the static head
// (fallback.go) are observers (observer.go): parts that are there or not. A [Pair]
// is an engine with another one in its shadow.
//
// Nothing here knows Kafka, a clock, a file, a goroutine or an unseeded random
// number, so the state is a function of the model, the settings and the windows.
// The same windows give the same bits again, which is how a worker recovers and
// how an audit proves what was served. State can also be written down between
// steps and read back, see [Pair.Snapshot] and [RestorePair].
//
// An Engine is not safe for concurrent use.
package pipeline
