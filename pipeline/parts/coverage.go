package parts

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/pipeline/setting"
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
	// PerFloor has one for all nodes, and a lower one for the labels of each class.
	PerFloor
)

// String returns "none", "class" or "floor".
func (p Per) String() string {
	switch p {
	case PerNone:
		return "none"
	case PerClass:
		return "class"
	case PerFloor:
		return "floor"
	}
	return fmt.Sprintf("Per(%d)", uint8(p))
}

// floorMisses is how many times as many labels as of all may be missed of one class: sets of .9 cover each class at .85.
const floorMisses = 1.5

// predictor returns the configuration of sets for this many classes.
func (c Coverage) predictor(classes int) conformal.Config {
	p := conformal.DefaultConfig(classes)
	p.Alpha = 1 - c.Target
	// Late labels allow only small steps: what a step brings is seen a lag later, and a
	// loop with that delay overshoots if the steps of a lag add up to more than 1/e. A gain
	// of .25 settles in four lags.
	p.Rate, p.Gain, p.Impute = 0.03, 0.25, 50
	p.PerClass = c.Per == PerClass
	if c.Per == PerFloor {
		p.Floor = floorMisses * p.Alpha
	}
	return p
}

// Declare declares the settings of sets. Two of the flags hold two settings each.
func (c *Coverage) Declare(l *setting.List) {
	l.Add(setting.Setting{
		Name: "coverage", Group: "sets", Kept: setting.Never, Default: "0", Placeholder: "0",
		Help: "Add a set of classes that holds the right one with this probability, such as 0.9 (docs/coverage.md): " +
			"no class should be missed more than 1.5 times as often; ,groups=none or class: one threshold for all, or " +
			"for each class.",
		Value: setting.Func(c.targetText, c.parseTarget),
	})
	l.Add(setting.Setting{
		Name: "abstain", Group: "sets", Kept: setting.Never, Placeholder: "NAME=NUMBER,...",
		Help: "Mark predictions to abstain from: below a confidence, or with a large or empty set, such as " +
			"confidence=0.3,set-size=4.",
		Value: setting.Pairs(func() error { return c.checkLimits() },
			setting.Pair{Name: "confidence", Value: &c.MinConfidence}, setting.Pair{Name: "set-size", Value: &c.MaxSize}),
		Idle: func() string {
			if c.Target == 0 {
				return "no effect without sets: add --coverage, such as 0.9"
			}
			return ""
		},
	})
	l.Add(setting.Setting{Name: "coverage", Value: setting.Number(&c.Target)})
	l.Add(setting.Setting{Name: "sets-groups", Value: setting.Named(&c.Per, PerNone, PerClass, PerFloor)})
	l.Add(setting.Setting{Name: "abstain-confidence", Value: setting.Number(&c.MinConfidence)})
	l.Add(setting.Setting{Name: "abstain-set-size", Value: setting.Integer(&c.MaxSize)})
	l.Check(func() error { return c.Validate() })
}

// targetText returns the target and then, after a comma, the groups unless they are floors.
func (c *Coverage) targetText() string {
	if c.Per == PerFloor || c.Target == 0 {
		return setting.FormatNumber(c.Target)
	}
	return fmt.Sprintf("%v,groups=%v", c.Target, c.Per)
}

func (c *Coverage) parseTarget(text string) error {
	target, rest, more := strings.Cut(text, ",")
	x, err := strconv.ParseFloat(target, 64)
	if err != nil {
		return fmt.Errorf("%.100q: give a probability first, such as 0.9", target)
	}
	c.Target, c.Per = x, PerFloor
	if x == 0 {
		c.Per = PerNone
	}
	if !more {
		return nil
	}
	name, is := strings.CutPrefix(rest, "groups=")
	if !is {
		return fmt.Errorf("%.100q: give groups=class, groups=none, or nothing, after the probability", rest)
	}
	if err := setting.Named(&c.Per, PerNone, PerClass, PerFloor).Set(name); err != nil {
		return fmt.Errorf("groups %w", err)
	}
	return nil
}

// checkLimits returns an error with its remedy if a limit of abstention is out of range.
func (c Coverage) checkLimits() error {
	switch {
	case !(c.MinConfidence >= 0 && c.MinConfidence <= 1):
		return fmt.Errorf("confidence=%v: give a probability, or 0 for none", c.MinConfidence)
	case c.MaxSize < 0:
		return fmt.Errorf("set-size=%d: give 1 or more, or 0 for none", c.MaxSize)
	}
	return nil
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
	case c.Per > PerFloor:
		return fmt.Errorf("sets per %v: say floor, class or none", c.Per)
	}
	if err := c.checkLimits(); err != nil {
		return fmt.Errorf("abstain %w", err)
	}
	return c.predictor(2).Validate()
}
