package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// Coverage configures sets of classes, which hold the label with a given probability,
// and abstention, the advice not to act on a prediction. The zero value disables both.
type Coverage struct {
	// Target, in [0.5, 1), is the share of sets that should hold the label; 0 for no
	// sets.
	Target float64
	// Score is the conformity score, and Method adapts the thresholds to labels.
	Score  conformal.Kind
	Method conformal.Method
	// Per says which nodes share a threshold.
	Per Per

	// Limits beyond which to abstain, 0 for none. See [conformal.Limits], and for
	// MaxOutside [conformal.Outside].
	MinConfidence float64
	MaxSize       int
	MaxOutside    float64
}

// Per says which groups of nodes have a threshold, and so a coverage, of their own.
type Per uint8

const (
	// PerNone has one threshold for all nodes.
	PerNone Per = iota
	// PerClass has one for each class.
	PerClass
	// PerSlice has one for each slice of the graph by degree: nodes with 0, 1 to 3, 4 to
	// 15, and 16 or more neighbours that arrived before them.
	PerSlice
)

// String returns "none", "class" or "slice".
func (p Per) String() string {
	switch p {
	case PerNone:
		return "none"
	case PerClass:
		return "class"
	case PerSlice:
		return "slice"
	}
	return fmt.Sprintf("Per(%d)", uint8(p))
}

// predictor returns the configuration of sets for this many classes. Scores are
// randomized where possible, so that coverage is the target and not merely at least that.
func (c Coverage) predictor(classes int) conformal.Config {
	p := conformal.DefaultConfig(classes)
	p.Alpha = 1 - c.Target
	p.Score = conformal.Score{Kind: c.Score, Randomized: true}
	if c.Score == conformal.RAPS {
		p.Score.Penalty, p.Score.Free = 0.05, 2
	}
	p.Method = c.Method
	// Late labels allow only small steps: what a step brings is seen a lag later, and a
	// loop with that delay overshoots if the steps of a lag add up to more than 1/e. A gain
	// of .25 settles in four lags.
	p.Rate, p.Gain, p.Impute = 0.03, 0.25, 50
	if c.Method == conformal.PID {
		p.Rate = 0.005
	}
	p.PerClass = c.Per == PerClass
	if c.Per == PerSlice {
		p.Slices = len(event.DegreeSlices)
	}
	return p
}

// validate returns an error with its remedy if a field is out of range.
func (c Coverage) validate() error {
	switch {
	case c.Target == 0 && c != (Coverage{}):
		return fmt.Errorf("settings of sets without sets: give a coverage too, such as 0.9")
	case c.Target == 0:
		return nil
	case !(c.Target >= 0.5 && c.Target < 1):
		return fmt.Errorf("coverage %v: give a share from 0.5 to below 1, such as 0.9, or 0 for no sets", c.Target)
	case c.Per > PerSlice:
		return fmt.Errorf("sets per %v: say class, slice or none", c.Per)
	case !(c.MinConfidence >= 0 && c.MinConfidence <= 1):
		return fmt.Errorf("min-confidence %v: give a probability, or 0 for none", c.MinConfidence)
	case c.MaxSize < 0:
		return fmt.Errorf("max-set-size %d: give 1 or more, or 0 for none", c.MaxSize)
	case !(c.MaxOutside >= 0):
		return fmt.Errorf("max-outside %v: give a positive number such as 2, or 0 for none", c.MaxOutside)
	}
	return c.predictor(2).Validate()
}
