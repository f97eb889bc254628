package look

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/scores"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/topics/ledger"
)

// ReadReport reads what a report has of a time, or of the part of it from the ledger's first record
// on: scores in periods, and what happened.
func ReadReport(ctx context.Context, g Graph, from, to time.Time) (r *page.Report, err error) {
	err = ledger.Scan(ctx, g.Client, g.Names.LedgerAt(), func(first *ledger.Record) bool {
		if begins := first.Stepped.Truncate(time.Second); begins.After(from) && begins.Before(to) {
			from = begins
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	r = &page.Report{Periods: periods(from, to)}
	seen, explained := make(map[string]bool), false // what happened in a window; a prediction has reasons
	err = g.scan(ctx, from, func(w *ledger.Record) {
		if !w.Stepped.Before(to) {
			return
		}
		// The owners' clocks may differ a little, so that a time may lie before the first.
		i := max(int(w.Stepped.Sub(from)/r.Periods[0].To.Sub(from)), 0)
		scores.AddWindow(&r.Periods[min(i, len(r.Periods)-1)], w)
		r.Model, explained = w.Serves(), explained || w.Figures.Of(parts.Reasoned) > 0
		for _, what := range events(w) {
			if said := fmt.Sprint(w.Window, " ", what); !seen[said] { // each of several workers may say so
				seen[said] = true
				r.Events = append(r.Events, page.Event{At: w.Stepped, What: what})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if explained {
		why, err := g.reasonsIn(ctx, from, to)
		if err != nil {
			return nil, err
		}
		r.Why = why.lines()
	}
	slices.SortStableFunc(r.Events, func(a, b page.Event) int { return a.At.Compare(b.At) })
	return r, nil
}

// mostPeriods bounds the periods of a report.
const mostPeriods = 48

// periods divides a time into periods of equal and usual length; the last one may be
// shorter.
func periods(from, to time.Time) (list []page.Period) {
	length := time.Second
	for _, l := range []time.Duration{
		5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	} {
		if to.Sub(from) > mostPeriods*length {
			length = l
		}
	}
	for to.Sub(from) > mostPeriods*length {
		length *= 2
	}
	for at := from; at.Before(to); at = at.Add(length) {
		list = append(list, page.Period{From: at, To: at.Add(length)})
	}
	list[len(list)-1].To = to
	return list
}

// events describes what happened in a window beside predictions and labels.
func events(r *ledger.Record) (list []string) {
	if b := r.Begins; b != nil {
		list = append(list, fmt.Sprintf("epoch %d begins with model %s: %s", r.Epoch, r.Model, b.Why))
	}
	for _, c := range r.Changes {
		what := "drift found by " + c.Detector
		if c.Worse {
			what += ": the loss of what was served has risen"
		}
		list = append(list, what)
	}
	if r.Promoted != "" {
		list = append(list, fmt.Sprintf("model %s promoted in place of %s", r.Promoted, r.Model))
	}
	if f := r.Forgot; f != nil {
		list = append(list, fmt.Sprintf("forgot %d ids by a replay of %d windows", f.Nodes, f.Windows))
	}
	return list
}
