package scores

import (
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/ledger"
)

// AddWindow adds the record of a window to a period.
func AddWindow(p *page.Period, r *ledger.Record) {
	p.Predictions += r.Predictions
	p.Revisions += r.Revisions
	p.Labels += r.Labels
	p.Figures.Merge(r.Figures)
	for reason, n := range r.Reasons {
		p.Refuse(string(reason), n)
	}
	for _, a := range r.Attributes {
		p.Attributes = page.AddAttributes(p.Attributes, page.Attribute{
			Name: a.Name, Rows: a.Rows, Missing: a.Missing,
			Trained: float64(a.Trained), Sum: float64(a.Sum), Odd: a.Odd, OddLoss: float64(a.OddLoss), OddTrained: float64(a.OddTrained),
		})
	}
	p.Unknown = page.AddUnknown(p.Unknown, r.Unknown...)
	s := r.Scores
	if s == nil {
		return
	}
	served := tallyOf(s.Served, s.Bins)
	p.Served.Merge(&served)
	if by := s.Cohorts; by != nil {
		later := pipeline.Cohorts{By: by.By, Class: by.Class}
		for i := range by.List {
			c := &by.List[i]
			later.List = append(later.List, serve.Cohort{
				Value: c.Name, Tally: tallyOf(c.Tally, c.Bins), Odds: *oddsOf(c.Odds),
				Sets: c.Sets, Held: c.Held, Caught: c.Caught, Vain: c.Vain, Missed: c.Missed,
			})
		}
		p.Cohorts.Merge(later)
	}
	p.Heads = addGroups(p.Heads, s.Heads)
	p.Degrees = addGroups(p.Degrees, s.Degrees)
	p.Classes = addGroups(p.Classes, s.Classes)
	for _, t := range s.Trained {
		p.Classes = page.AddGroups(p.Classes, page.Group{Name: t.Class, AsTrained: int(t.Arrivals), Trained: float64(t.Labels)})
	}
	for i := range s.Odds {
		p.Classes = page.AddGroups(p.Classes, page.Group{Name: s.Odds[i].Class, Odds: oddsOf(s.Odds[i].Bins)})
	}
	if delay, likely := event.Delay(0, s.Delay); likely && s.Delayed > 0 { // 1.0.0 wrote others, too
		p.AddDelays(page.Delay{Median: time.Duration(delay) * time.Millisecond, Labels: s.Delayed})
	}
}

// addGroups adds groups of the ledger to those of the same names.
func addGroups(list []page.Group, more []ledger.Group) []page.Group {
	for _, g := range more {
		list = page.AddGroups(list, page.Group{
			Name: g.Name, Predicted: calibration.Tally{Labels: int(g.Predicted)}, Arrived: int(g.Arrived),
			Confidence: float64(g.Confidence),
			Tally:      tallyOf(g.Tally, nil),
		})
	}
	return list
}

// oddsOf converts bins of the ledger.
func oddsOf(bins []ledger.OddsBin) *calibration.Odds {
	var odds calibration.Odds
	for _, b := range bins {
		odds[int(b[0])] = calibration.OddsBin{Rows: float64(b[1]), Labels: float64(b[2]), Sum: float64(b[3])}
	}
	return &odds
}

// tallyOf converts a tally of the ledger, whose bins stand apart.
func tallyOf(t ledger.Tally, bins []ledger.Bin) calibration.Tally {
	tally := calibration.Tally{Labels: t.Labels, Correct: t.Correct, LogLoss: float64(t.LogLoss), Brier: float64(t.Brier)}
	for _, b := range bins {
		tally.Bins[b.Bin] = calibration.Bin{Count: int64(b.Count), Correct: int64(b.Correct), SumConfidence: float64(b.Confidence)}
	}
	return tally
}
