// Package pipeline is the engine: a deterministic state machine that takes one
// window of events after another and says what is served and what is learned.
//
//	outcome := engine.Step(&window)
//
// Step walks one way: arrive (nodes and edges into the graph), serve (encode,
// predict), join (labels to what was served), score (as served, before the
// update), learn (the posterior's update). Nothing in it knows Kafka, a clock, a goroutine or an
// unseeded random number, so the state is a function of the model, the
// settings and the windows; feeding the same windows again gives the same
// bits, which is how a worker recovers and how an audit proves what was served.
//
// That state can also be written down beside the steps and read again:
// [Engine.Snapshot] and [Restore].
//
// An Engine is not safe for concurrent use.
package pipeline
