package main

import (
	"math"
	"time"

	"github.com/gvbll/gvbll/charts/report"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/ledger"
)

// addWindow adds the record of a window to a period.
func addWindow(p *report.Period, r *ledger.Record) {
	p.Predictions += r.Predictions
	p.Revisions += r.Revisions
	p.Labels += r.Labels
	for reason, n := range r.Reasons {
		p.Refuse(string(reason), n)
	}
	s := r.Scores
	if s == nil {
		return
	}
	served := calibration.Tally{Labels: s.Served.Labels, Correct: s.Served.Correct, LogLoss: float64(s.Served.LogLoss), Brier: float64(s.Served.Brier)}
	for _, b := range s.Bins {
		served.Bins[b.Bin] = calibration.Bin{Count: int64(b.Count), Correct: int64(b.Correct), SumConfidence: float64(b.Confidence)}
	}
	p.Served.Merge(&served)
	p.Heads = addGroups(p.Heads, s.Heads)
	p.Degrees = addGroups(p.Degrees, s.Degrees)
	p.Classes = addGroups(p.Classes, s.Classes)
	if s.Delayed > 0 {
		const most = math.MaxInt64 / int64(time.Millisecond)
		p.AddDelays(report.Delay{Median: time.Duration(min(max(s.Delay, -most), most)) * time.Millisecond, Labels: s.Delayed})
	}
}

// addGroups adds groups of the ledger to those of the same names.
func addGroups(list []report.Group, more []ledger.Group) []report.Group {
	for _, g := range more {
		list = report.AddGroups(list, report.Group{
			Name: g.Name, Labels: g.Labels, Correct: g.Correct, Predicted: g.Predicted,
			LogLoss: float64(g.LogLoss), Brier: float64(g.Brier), Confidence: float64(g.Confidence),
		})
	}
	return list
}
