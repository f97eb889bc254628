// Package scores takes the scores of windows to the ledger and back: an outcome's become sums in a record, and
// records add up to periods, for status and report. What sums are made and what is computed of them is in
// posterior/calibration.
package scores

import (
	"slices"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Of returns the scores of a window that had labels, for the ledger. m is
// the model that served. Where the rates of labels are known, arrivals are
// not counted: that labels come more often for some classes is no news.
func Of(out *event.Outcome, m *model.Model, rates pipeline.LabelRates) *ledger.Scores {
	var p page.Period
	p.Add(out, m)
	s := &ledger.Scores{Served: ledgerTally(&p.Served), Bins: ledgerBins(&p.Served.Bins), Cohorts: cohorts(&p.Cohorts)}
	for h := range out.Heads {
		t := serve.Tally(&out.Heads[h])
		s.Heads = append(s.Heads, ledger.Group{Name: out.Heads[h].Name, Tally: ledgerTally(&t)})
	}
	for i := range p.Degrees {
		if g := &p.Degrees[i]; g.Labels > 0 {
			s.Degrees = append(s.Degrees, ledger.Group{Name: g.Name, Tally: ledgerTally(&g.Tally)})
		}
	}
	var frequent []int // classes
	for c := range p.Classes {
		g := &p.Classes[c]
		if rates != "" {
			g.Arrived = 0
		}
		if g.Labels+g.Predicted.Labels+g.Arrived+g.AsTrained > 0 {
			frequent = append(frequent, c)
		}
	}
	seen := func(c int) int { return p.Classes[c].Labels + p.Classes[c].Predicted.Labels }
	slices.SortStableFunc(frequent, func(a, b int) int { return seen(b) - seen(a) })
	shares := m.Shares()
	for _, c := range frequent[:min(len(frequent), ledger.MaxClasses)] {
		g := &p.Classes[c]
		s.Classes = append(s.Classes, ledger.Group{
			Name: m.Classes[c], Tally: ledgerTally(&g.Tally), Predicted: int32(g.Predicted.Labels), Arrived: int32(g.Arrived),
		})
		trained := ledger.Trained{Class: m.Classes[c], Arrivals: int32(g.AsTrained)}
		if shares != nil {
			trained.Labels = float32(shares[c] * float64(p.Served.Labels))
		}
		if trained.Arrivals > 0 || trained.Labels > 0 {
			s.Trained = append(s.Trained, trained)
		}
	}
	for _, c := range out.Watched {
		s.Odds = append(s.Odds, ledger.Odds{Class: m.Classes[c], Bins: ledgerOdds(p.Classes[c].Odds)})
	}
	var delays []int64
	for i := range out.Labelled {
		if d := out.Labelled[i].Delay; d != 0 {
			delays = append(delays, d)
		}
	}
	if s.Delayed = len(delays); s.Delayed > 0 {
		slices.Sort(delays)
		s.Delay = delays[len(delays)/2]
	}
	return s
}

// cohorts returns the scores by cohort, nil for none.
func cohorts(by *pipeline.Cohorts) *ledger.Cohorts {
	if by.By == "" {
		return nil
	}
	s := &ledger.Cohorts{By: by.By, Class: by.Class}
	for i := range by.List {
		c := &by.List[i]
		s.List = append(s.List, ledger.Cohort{
			Group: ledger.Group{Name: c.Value, Tally: ledgerTally(&c.Tally)}, Bins: ledgerBins(&c.Bins), Odds: ledgerOdds(&c.Odds),
			Sets: c.Sets, Held: c.Held, Caught: c.Caught, Vain: c.Vain, Missed: c.Missed,
		})
	}
	return s
}

// The ledger's bins are those of calibration.
var (
	_ [ledger.Bins]calibration.Bin         = calibration.Bins{}
	_ [ledger.OddsBins]calibration.OddsBin = calibration.Odds{}
)

// ledgerTally converts a tally to the ledger's, whose bins stand apart.
func ledgerTally(t *calibration.Tally) ledger.Tally {
	var confidence float64
	for _, b := range t.Bins {
		confidence += b.SumConfidence
	}
	return ledger.Tally{
		Labels: t.Labels, Correct: t.Correct, LogLoss: float32(t.LogLoss), Brier: float32(t.Brier),
		Confidence: float32(confidence),
	}
}

// ledgerBins and ledgerOdds return the bins that hold predictions.
func ledgerBins(bins *calibration.Bins) (list []ledger.Bin) {
	for b, bin := range bins {
		if bin.Count > 0 {
			list = append(list, ledger.Bin{
				Bin: b, Count: int(bin.Count), Correct: int(bin.Correct),
				Confidence: float32(bin.SumConfidence),
			})
		}
	}
	return list
}

func ledgerOdds(odds *calibration.Odds) (list []ledger.OddsBin) {
	for b, bin := range odds {
		if bin.Rows > 0 {
			list = append(list, ledger.OddsBin{float32(b), float32(bin.Rows), float32(bin.Labels), float32(bin.Sum)})
		}
	}
	return list
}

// AttributesOf returns what came of a window by name, for the ledger. m is the model that served.
func AttributesOf(out *event.Outcome, m *model.Model) (list []ledger.Attribute) {
	for _, a := range page.AttributesOf(out, m) {
		list = append(list, ledger.Attribute{
			Name: a.Name, Rows: a.Rows, Missing: a.Missing, Trained: float32(a.Trained),
			Sum: float32(a.Sum), Odd: a.Odd, OddLoss: float32(a.OddLoss), OddTrained: float32(a.OddTrained),
		})
	}
	return list
}
