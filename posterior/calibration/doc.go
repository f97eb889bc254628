// Package calibration scores predicted class probabilities against labels.
//
// A prediction is a row of C class probabilities, and a label is a class in
// [0, C). The predicted class is the most probable one, the lowest of equally
// probable ones; its probability is the confidence. A [Score] rates one
// prediction by its label:
//
//	correct    predicted class = label
//	log loss   -log p_label, in nats; p_label is at least 1e-12
//	Brier      Σ_c (p_c - [c = label])², from 0 to 2
//
// [Means] averages scores: accuracy, negative log-likelihood (NLL), Brier score,
// and the expected calibration error
//
//	ECE = Σ_b n_b/n · |accuracy(b) - confidence(b)|
//
// over bins b of confidence. Two kinds of bins are in use. The paper's
// measurements (Section IV-A) sort a window's predictions by confidence and cut
// them into bins of equal mass; this needs the scores of the whole window at
// once. Bins of equal width ([Bins]) are counters, so they add up over any
// stretch of a stream, and they are what a reliability diagram shows. With them comes
// what chance alone gives ([Bins.ECE]).
//
// [Odds] are such counters of the probability of one class, in bins of log odds. They say of a
// rare class what accuracy cannot: how well it is ranked, what a threshold catches, and whether
// its probability is right.
//
// [Tally] is the one accumulator: sums over labels, mergeable. [Prequential]
// adds to it the paper's way of averaging over windows.
//
//	score.go   Score and the measures of one prediction
//	bins.go    Bins, equal-width bins
//	odds.go    Odds: AUC, average precision, calibration of one class
//	tally.go   Means, Tally, Prequential and its state
//	ece.go     equal-mass ECE
//
// Misuse of shapes panics.
package calibration
