// Package drift tells when a stream changes. With labels: ADWIN and PageHinkley
// watch a number, such as the log loss of what was served. Without: an MMD
// compares embeddings, or predicted classes, with a reference window, and a
// Monitor estimates accuracy and calibration error of what is served from its
// confidence and from what labels said of such confidences before.
//
// All are functions of their configuration and of the values added, to the bit,
// on every machine: sums run in one order, products are rounded before they are
// added or fused everywhere, as in package posterior, and no exponential is taken. Memory is bounded. Numbers that
// come in must be finite: one that is not spoils a detector until it starts
// over.
package drift

import "errors"

// Detector watches a stream of values of type X.
type Detector[X any] interface {
	// Add takes the next value and reports whether the stream changed.
	Add(x X) (drift bool)
	// AppendState appends canonical bytes of the whole state to b, for hashes
	// and checkpoints. The configuration is not part of it.
	AppendState(b []byte) []byte
	// SetState is the inverse of AppendState for a detector of the same
	// configuration. On an error the state is as it was.
	SetState(b []byte) error
}

var (
	_ Detector[float64]   = (*ADWIN)(nil)
	_ Detector[float64]   = (*PageHinkley)(nil)
	_ Detector[[]float32] = (*MMD[[]float32])(nil)
	_ Detector[int32]     = (*MMD[int32])(nil)
)

// remedies joins the remedies whose condition does not hold.
func remedies(checks ...check) error {
	var errs []error
	for _, c := range checks {
		if !c.ok {
			errs = append(errs, c.otherwise)
		}
	}
	return errors.Join(errs...)
}

type check struct {
	ok        bool
	otherwise error
}
