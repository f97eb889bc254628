// Package drift detects changes of a stream.
//
// With labels, [ADWIN] and [PageHinkley] test whether the mean of a number has changed,
// such as the log loss of served predictions. Without labels, an [MMD] compares the
// distribution of embeddings or of predicted classes with a reference window, and a
// [Monitor] estimates the accuracy and calibration error of served predictions, from
// their confidence and the share of earlier predictions of such confidence that were
// correct.
//
//	adwin.go        mean of a window that grows while nothing changes
//	pagehinkley.go  cumulative deviations from the mean
//	mmd.go          two-sample test by kernels: embeddings.go, classes.go
//	monitor.go      accuracy and calibration error before labels
//	state.go        state as bytes
//
// Results depend only on the configuration and the values added, and have the same
// bits on every machine: sums run in one order, products are rounded before they are
// added or fused everywhere, as in package posterior, and no exponentials are used.
// Memory is bounded. Values must be finite: one that is not makes a detector useless
// until it starts over.
package drift

// Detector watches a stream of values of type X.
type Detector[X any] interface {
	// Add adds the next value and reports whether a change is detected.
	Add(x X) (drift bool)
	// AppendState appends canonical bytes of the whole state to b, for hashes
	// and checkpoints. The configuration is not part of it.
	AppendState(b []byte) []byte
	// SetState reads what AppendState of a detector of the same configuration wrote.
	// On an error the state is as it was.
	SetState(b []byte) error
}

var (
	_ Detector[float64]   = (*ADWIN)(nil)
	_ Detector[float64]   = (*PageHinkley)(nil)
	_ Detector[[]float32] = (*MMD[[]float32])(nil)
	_ Detector[int32]     = (*MMD[int32])(nil)
)
