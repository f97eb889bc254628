package serve

import (
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

// Odd returns the number of a window's labels whose node has something odd of attribute i, and the sum of their log losses.
func Odd(out *event.Outcome, i int) (labels int, logLoss float64) {
	if out.Cohorts == nil || i >= 64 {
		return 0, 0
	}
	for k, odd := range out.Cohorts.Odd {
		if odd>>i&1 == 1 {
			labels++
			logLoss += out.Heads[out.Labelled[k].By].Scores[k].LogLoss
		}
	}
	return labels, logLoss
}

// All returns the sums of all cohorts.
func (s *Cohorts) All() (all calibration.Tally) {
	for i := range s.List {
		all.Merge(&s.List[i].Tally)
	}
	return all
}

// of returns the cohort of a value.
func (s *Cohorts) of(value string) *Cohort {
	for k := range s.List {
		if s.List[k].Value == value {
			return &s.List[k]
		}
	}
	s.List = append(s.List, Cohort{Value: value})
	return &s.List[len(s.List)-1]
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Scores returns the scores that are known: none of too few labels.
func (c *Cohort) Scores() map[string]float64 {
	known := make(map[string]float64)
	if c.Labels < FewLabels {
		return known
	}
	m := c.Means()
	known["acc"], known["nll"], known["ece"], known["ece_chance"] = m.Acc, m.NLL, m.ECE, m.Chance
	if auc, _, ok := c.Odds.Ranking(); ok {
		known["auc"] = auc
	}
	share := func(name string, part, of int) {
		if of > 0 {
			known[name] = float64(part) / float64(of)
		}
	}
	share("coverage", c.Held, c.Sets)
	share("acted_precision", c.Caught, c.Caught+c.Vain)
	share("acted_recall", c.Caught, c.Caught+c.Missed)
	return known
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
