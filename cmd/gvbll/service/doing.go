package service

import (
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/scores"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
)

// doing is what the verdict on a cell, and the work that waits in it, are computed from.
type doing struct {
	told     bool           // the rates are known at which classes get labels
	scored   [2]page.Period // of its windows with labels: the first began half an hour before the second
	rhythm   page.Rhythm    // of labels
	perEvent float64        // seconds that its latest windows took for an event
}

// half is half of the time that a verdict is about.
const half = 30 * time.Minute

// score adds the scores of a window.
func (d *doing) score(now time.Time, s *ledger.Scores) {
	if now.Sub(d.scored[1].From) >= half {
		d.scored[0], d.scored[1] = d.scored[1], page.Period{From: now}
	}
	r := &ledger.Record{Scores: &ledger.Scores{Served: s.Served, Bins: s.Bins, Classes: s.Classes, Trained: s.Trained}}
	scores.AddWindow(&d.scored[0], r)
	scores.AddWindow(&d.scored[1], r)
}

// step adds a window that was stepped.
func (d *doing) step(now time.Time, out *event.Outcome, took time.Duration) {
	d.rhythm.Add(now, len(out.Predictions), len(out.Labelled))
	if n := len(out.Predictions) + len(out.Labelled); n > 0 {
		const latest = .2 // its share
		each := took.Seconds() / float64(n)
		if d.perEvent > 0 {
			each = float64((1-latest)*d.perEvent) + float64(latest*each)
		}
		d.perEvent = each
	}
}

// points returns the verdict over the last hour or half of it.
func (d *doing) points(now time.Time) float64 {
	p := &d.scored[0]
	if now.Sub(d.scored[1].From) >= 2*half { // no scores for so long
		p = &page.Period{}
	}
	return p.Points(&page.Period{}, d.told, d.rhythm.Silent(now))
}
