package serve

import (
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Cohort is the sums of scores, over labels, of the nodes that have one value of an attribute.
type Cohort struct {
	Value string
	calibration.Tally
	Odds                 calibration.Odds // of the class of [event.Cohorts]
	Sets, Held           int              // sets of classes, and those that held the label
	Caught, Vain, Missed int              // what acting brought
}

// FewLabels is the number of labels below which a score says nothing.
const FewLabels = 50

// OtherCohorts is the value of all that have none of their own.
const OtherCohorts = "(others)"

// Cohorts are those of an attribute.
type Cohorts struct {
	By    string // the attribute, "" for none
	Class string // of the Odds
	List  []Cohort
}

// CohortsOf returns the scores of a window by cohort, in the order of their first labels.
func CohortsOf(out *event.Outcome) (s Cohorts) {
	by := out.Cohorts
	if by == nil {
		return s
	}
	s.By, s.Class = by.By, by.Class
	for i := range out.Labelled {
		l, c := &out.Labelled[i], s.of(by.Values[i])
		c.Add((*calibration.Score)(&out.Heads[l.By].Scores[i]))
		is := false
		if by.Place < len(out.Watched) {
			is = l.Class == out.Watched[by.Place]
			c.Odds.Add(float64(l.Watched[by.Place]), is, 1)
		}
		if out.Coverage != nil {
			c.Sets++
			c.Held += count(out.Coverage.Labels[i].Held)
		}
		if l.Act != nil {
			c.Caught += count(*l.Act && is)
			c.Vain += count(*l.Act && !is)
			c.Missed += count(!*l.Act && is)
		}
	}
	return s
}

// of returns the cohort of a value.
func (s *Cohorts) of(value string) *Cohort {
	k := slices.IndexFunc(s.List, func(c Cohort) bool { return c.Value == value })
	if k < 0 {
		k, s.List = len(s.List), append(s.List, Cohort{Value: value})
	}
	return &s.List[k]
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Merge adds the sums of other cohorts, which come later. Those of another attribute take the place of these.
func (s *Cohorts) Merge(later Cohorts) {
	if later.By == "" {
		return
	}
	if s.By != later.By || s.Class != later.Class {
		*s = Cohorts{By: later.By, Class: later.Class}
	}
	for i := range later.List {
		m := &later.List[i]
		c := s.of(m.Value)
		c.Tally.Merge(&m.Tally)
		c.Odds.Merge(&m.Odds)
		c.Sets, c.Held = c.Sets+m.Sets, c.Held+m.Held
		c.Caught, c.Vain, c.Missed = c.Caught+m.Caught, c.Vain+m.Vain, c.Missed+m.Missed
	}
}
