// Package drift detects changes of a stream.
//
// With labels, [ADWIN] tests whether the mean of a number has changed, such as the log loss
// of served predictions. Without labels, an [MMD] compares the distribution of embeddings
// with a reference window, and a [Monitor] estimates the accuracy and calibration error of
// served predictions, from their confidence and the share of earlier predictions of such
// confidence that were correct.
//
//	adwin.go    mean of a window that grows while nothing changes
//	mmd.go      two-sample test by a kernel
//	monitor.go  accuracy and calibration error before labels
//
// Results depend only on the configuration and the values added, and have the same
// bits on every machine: sums run in one order, products are rounded before they are
// added or fused everywhere, as in package posterior, and no exponentials are used.
// Memory is bounded. Values must be finite: one that is not makes a detector useless
// until it starts over.
package drift
