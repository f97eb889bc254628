// Package check holds the checks that the packages of the posterior share.
package check

import (
	"errors"
	"fmt"
	"math"
)

// Remedies are the errors of a configuration, each with its remedy.
type Remedies []error

// Unless adds a remedy unless ok.
func (r *Remedies) Unless(ok bool, format string, args ...any) {
	if !ok {
		*r = append(*r, fmt.Errorf(format, args...))
	}
}

// Join returns the remedies as one error, nil if there are none.
func (r *Remedies) Join() error { return errors.Join(*r...) }

// Finite reports whether no number is NaN or infinite.
func Finite(x ...float64) bool {
	for _, x := range x {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
