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
// # Files
//
// An engine and its settings:
//
//	engine.go                   Engine: New, Enter, Serve, Learn, Step
//	base.go                     what an engine has in common with a slice of a graph
//	pair.go                     Pair: serving and shadow engine, promotion
//	config.go, settings.go      Config; its form in the ledger
//	chain.go                    the hash of everything served and learned
//
// A window, in the order of a step. Enter is in package structure; the containers of
// all that waits are in package store.
//
//	predict.go, pending.go      Serve: predictions, kept until their label comes
//	labels.go, unmatched.go     Learn: joining; labels that wait for their node
//	score.go, summary.go        prequential scores
//	lessons.go                  when the heads learn: at once, or some windows later
//
// The heads, behind the interface serving:
//
//	serving.go                  serving, learner, head
//	paper.go                    the paper's two heads
//	pool.go, pooled.go          a pool of heads; what it reads of the graph
//
// Optional parts, each an observer:
//
//	observer.go                 observer
//	fallback.go                 the static head serves while it is better
//	sets.go, coverage.go        sets of classes
//	rescore.go                  nodes are predicted again
//	drift.go                    drift detectors
//
// A graph in slices, on several threads or by several processes:
//
//	share.go                    which slice predicts a node
//	shard.go                    Shard: a slice, Enter and Serve
//	lead.go                     Lead: it learns for all of them
//	messages.go                 what they send each other, as bytes
//	sharded.go                  Sharded: all of them in one process, for audits
//
// Between windows:
//
//	query.go                    questions about nodes, what-if
//	posteriorreport.go          the posterior, compared with the trained one
//	state.go                    the declaration of the state
//	snapshot.go, restore.go     snapshots
//
// record.go encodes a label.
package pipeline
