package serve

import (
	"fmt"

	"github.com/gvbll/gvbll/posterior/conformal"
)

// Coverage configures sets of classes, which hold the label with a given probability,
// and abstention, the advice not to act on a prediction. The zero value disables both.
type Coverage struct {
	// Target, in [0.5, 1), is the share of sets that should hold the label; 0 for no
	// sets.
	Target float64
	// Per says which nodes share a threshold.
	Per Per

	// Limits beyond which to abstain, 0 for none. See [conformal.Limits].
	MinConfidence float64
	MaxSize       int
}

// Per says which groups of nodes have a threshold, and so a coverage, of their own.
type Per uint8

const (
	// PerNone has one threshold for all nodes.
	PerNone Per = iota
	// PerClass has one for each class.
	PerClass
)

// String returns "none" or "class".
func (p Per) String() string {
	switch p {
	case PerNone:
		return "none"
	case PerClass:
		return "class"
	}
	return fmt.Sprintf("Per(%d)", uint8(p))
}

// predictor returns the configuration of sets for this many classes.
func (c Coverage) predictor(classes int) conformal.Config {
	p := conformal.DefaultConfig(classes)
	p.Alpha = 1 - c.Target
	// Late labels allow only small steps: what a step brings is seen a lag later, and a
	// loop with that delay overshoots if the steps of a lag add up to more than 1/e. A gain
	// of .25 settles in four lags.
	p.Rate, p.Gain, p.Impute = 0.03, 0.25, 50
	p.PerClass = c.Per == PerClass
	return p
}

// Validate returns an error with its remedy if a field is out of range.
func (c Coverage) Validate() error {
	switch {
	case c.Target == 0 && c != (Coverage{}):
		return fmt.Errorf("settings of sets without sets: give a coverage too, such as 0.9")
	case c.Target == 0:
		return nil
	case !(c.Target >= 0.5 && c.Target < 1):
		return fmt.Errorf("coverage %v: give a share from 0.5 to below 1, such as 0.9, or 0 for no sets", c.Target)
	case c.Per > PerClass:
		return fmt.Errorf("sets per %v: say class or none", c.Per)
	case !(c.MinConfidence >= 0 && c.MinConfidence <= 1):
		return fmt.Errorf("min-confidence %v: give a probability, or 0 for none", c.MinConfidence)
	case c.MaxSize < 0:
		return fmt.Errorf("max-set-size %d: give 1 or more, or 0 for none", c.MaxSize)
	}
	return c.predictor(2).Validate()
}
