// Package serve makes predictions out of what heads say, keeps them until their labels come, joins
// and scores these:
//
//	entered.go                a window that has entered
//	predict.go                Predictor: a window's arrivals, and single nodes
//	pending.go, rows.go       Pending: what was served and waits; blocks.go: in files
//	labels.go, unmatched.go   Labels: joined; or kept until their node comes
//	score.go, summary.go      Scorer: prequential scores
//	chain.go                  the hash of everything served and learned
//
// It is what every engine has. Optional parts, each an [Observer], are in package parts.
package serve
