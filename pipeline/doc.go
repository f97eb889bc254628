// Package pipeline is the engine: a deterministic state machine. Its input is one
// window of events after the other; its output is an outcome for each window, with the
// predictions served and the labels learned.
//
//	engine, err := pipeline.New(model, pipeline.Config{})
//	outcome := engine.Step(&event.Window{Number: 0, Nodes: nodes, Labels: labels})
//
// A step is three calls, which may also be made one by one:
//
//   - [Engine.Enter] applies the window's node events to the graph and encodes the
//     arrivals on it;
//   - [Engine.Serve] predicts the arrivals, and keeps each prediction until the label
//     comes;
//   - [Engine.Learn] joins labels to the predictions of their nodes, scores these, and
//     only then updates the heads, or some windows later with Config.LearnLag.
//
// A [Pair] is an engine with, optionally, a second one in its shadow.
//
// The engine has no clock, no unseeded randomness and no I/O, and does not know Kafka.
// Its state is a function of the model, the settings and the windows, to the bit. A
// worker recovers, and an audit proves what was served, by stepping the same windows
// again. [Pair.Snapshot] and [RestorePair] save that time.
//
// # Files and rooms
//
//	engine.go                   Engine: New, Enter, Serve, Learn, Step
//	pair.go                     Pair: serving and shadow engine, promotion
//	config.go, settings.go      Config; its form in the ledger
//	query.go                    questions about nodes, what-if
//	posteriorreport.go          the posterior, compared with the trained one
//	history.go                  the graph and the labels of a stream, to train a model on
//	state.go                    the declaration of the state
//	snapshot.go, restore.go     snapshots of a pair
//
// An engine is made of parts: package structure has what enters, heads what predicts and
// learns, serve what is predicted, kept, joined and scored, store the containers of what waits.
package pipeline
