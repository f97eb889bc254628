package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Report is how a graph did over a time, from the ledger: a page of its own, to look at, to
// print and to mail.
type Report struct {
	Graph   string // prefix of its topics
	Model   string // id of the one that serves at the end
	Version string // of this program
	Made    time.Time
	Periods []Period // consecutive, at least one
	Events  []Event  // what happened, in order
	Why     []string // what moved the newest predictions, in words; nil where none says
}

// Event is something that happened once, such as a promotion.
type Event struct {
	At   time.Time
	What string
}

// maxEvents bounds the events that are listed: the last ones.
const maxEvents = 200

// maxHeads bounds the heads whose lines are drawn: beyond it a picture is unreadable.
// The table has all of them.
const maxHeads = 5

// static is the head that never learns, to compare the others with.
const static = "static"

// reportView is the data of report.html.
type reportView struct {
	Report                       *Report
	Title                        titleView
	Verdict                      string // on the probabilities that were served
	From, To                     time.Time
	Facts                        []fact
	Scored                       bool // a label has been scored
	Unscored                     int  // labels without scores
	Listed                       []Event
	Omitted                      int // events that are not listed
	Traffic, Curves, Reliability *plot
	Heads, Degrees, Classes      table
	Attributes, Cohorts          table
	Reasons                      table

	whole Period
	heads []Group // the best first
}

// HTML returns the report as a page of its own: pictures and style are in it, and it has
// no script.
func (r *Report) HTML() ([]byte, error) {
	v := reportView{Report: r, From: r.Periods[0].From, To: r.Periods[len(r.Periods)-1].To}
	for i := range r.Periods {
		v.whole.merge(&r.Periods[i])
	}
	v.Title = titleView{r.Graph, fmt.Sprintf("%s to %s", v.From.UTC().Format(time.DateTime), v.To.UTC().Format(time.DateTime))}
	v.heads = slices.SortedStableFunc(slices.Values(v.whole.Heads),
		func(a, b Group) int { return cmp.Compare(a.Means().NLL, b.Means().NLL) })
	v.Scored = v.whole.Served.Labels > 0
	v.Unscored = max(v.whole.Labels-v.whole.Served.Labels, 0)
	v.Omitted = max(len(r.Events)-maxEvents, 0)
	v.Listed = r.Events[v.Omitted:]
	v.Facts = v.facts()
	v.Verdict = verdict(&v.whole.Served)
	v.Traffic = v.traffic()
	if v.Scored {
		v.Curves, v.Reliability = v.curves(), v.reliability()
	}
	v.tables()
	return execute("report.html", &v)
}

// verdict says in words whether the probabilities of labelled predictions can be believed.
func verdict(t *calibration.Tally) string {
	m := t.Means()
	switch {
	case t.Labels < EnoughLabels:
		return fmt.Sprintf("Too few labels to say whether probabilities can be believed: %d, and it takes %d.", t.Labels, EnoughLabels)
	case m.ECE > m.Chance:
		return fmt.Sprintf("Probabilities are off by %.1f points (ECE), more than chance alone gives: up to %.1f.", 100*m.ECE, 100*m.Chance)
	}
	return fmt.Sprintf("Probabilities can be taken at their word: they are off by %.1f points (ECE), and chance alone "+
		"gives up to %.1f.", 100*m.ECE, 100*m.Chance)
}

func (v *reportView) facts() []fact {
	delay := Undefined
	if d := v.whole.Delay().Round(time.Millisecond); d != 0 {
		delay = d.String()
	}
	list := []fact{
		{"predictions", strconv.Itoa(v.whole.Predictions), ""},
		{"labels", strconv.Itoa(v.whole.Labels), ""},
		{"median label delay", delay, ""},
		{"refused events", strconv.Itoa(v.whole.refusedEvents()), ""},
	}
	list = append(list, factsOf(v.whole.Figures)...)
	if m := v.whole.Served.Means(); v.Scored {
		most := cmp.Or(Usual(v.whole.Classes), &Group{})
		list = append(list, fact{"accuracy", formatted(m.Acc), ""},
			fact{"most frequent class", fmt.Sprintf("%s, %s %%", most.Name, percent(most.Labels, v.whole.Served.Labels)), ""},
			fact{"NLL, nats", formatted(m.NLL), ""}, fact{"ECE", formatted(m.ECE), ""},
			fact{"ECE by chance up to", formatted(m.Chance), ""}, fact{"Brier score", formatted(m.Brier), ""})
	}
	return list
}

func (v *reportView) tables() {
	groups := func(label, first string, list []Group) table {
		t := table{Label: label, Columns: []string{first, "labels", "share, %", "accuracy", "NLL", "Brier", "overconfidence"}}
		for _, g := range list {
			m := g.Means()
			t.add(g.Name, strconv.Itoa(g.Labels), percent(g.Labels, v.whole.Served.Labels), formatted(m.Acc),
				formatted(m.NLL), formatted(m.Brier), fmt.Sprintf("%+.4f", g.overconfidence()))
		}
		return t
	}
	v.Heads = groups("Scores by head", "head", v.heads)
	v.Degrees = groups("Scores by degree", "degree", slices.SortedFunc(slices.Values(v.whole.Degrees),
		func(a, b Group) int { return cmp.Compare(degree(a.Name), degree(b.Name)) }))
	v.Attributes, v.Cohorts = v.whole.attributeTable(), cohortTable(v.whole.Cohorts)
	classes := slices.SortedFunc(slices.Values(v.whole.Classes), func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Labels, a.Labels), cmp.Compare(a.Name, b.Name))
	})
	for c := range classes {
		v.Classes.addClass(classes, c)
	}
	v.Reasons = table{Label: "Refused events by reason", Columns: []string{"reason", "events"}}
	for _, reason := range slices.Sorted(maps.Keys(v.whole.Refused)) {
		v.Reasons.add(reason, strconv.Itoa(v.whole.Refused[reason]))
	}
}

// degree returns the least degree of a slice by its name, such as 4-15 or 16+.
func degree(name string) (least int) {
	_, _ = fmt.Sscanf(name, "%d", &least)
	return least
}

// unit is the largest unit of which the report's time has a few at least, and how a time is written
// on its axis.
func (v *reportView) unit() (length time.Duration, layout string) {
	switch d := v.To.Sub(v.From); {
	case d >= 3*24*time.Hour:
		return 24 * time.Hour, "01-02"
	case d >= 3*time.Hour:
		return time.Hour, "15:04"
	case d >= 3*time.Minute:
		return time.Minute, "15:04"
	}
	return time.Second, "15:04:05"
}

// midnight is where the axes of time begin to count.
func (v *reportView) midnight() time.Time { return v.From.UTC().Truncate(24 * time.Hour) }

// clock writes a place on an axis of time.
func (v *reportView) clock(x float64) string {
	unit, layout := v.unit()
	return v.midnight().Add(time.Duration(x * float64(unit))).Format(layout)
}

func (v *reportView) xLabel() string {
	return "time, UTC, from " + v.From.UTC().Format(time.DateOnly) + " on"
}

// middle returns the place of a period on the axis of time.
func (v *reportView) middle(p *Period) float64 {
	unit, _ := v.unit()
	return float64(p.From.Add(p.To.Sub(p.From)/2).Sub(v.midnight())) / float64(unit)
}

func (v *reportView) traffic() *plot {
	f := &plot{Label: "Curves of the numbers of events over the time.", Caption: "Events in each part of the time.", clock: v.clock}
	predictions, labels, refused := series{name: "predictions"}, series{name: "labels"}, series{name: "refused"}
	for i := range v.Report.Periods {
		p := &v.Report.Periods[i]
		x := v.middle(p)
		predictions.add(x, float64(p.Predictions))
		labels.add(x, float64(p.Labels))
		refused.add(x, float64(p.refusedEvents()))
	}
	f.add("events", v.xLabel(), false, predictions, labels, refused)
	return f
}

// curves returns the scores of what was served, and beside it of the best heads and the
// static one, over the periods that had labels.
func (v *reportView) curves() *plot {
	f := &plot{
		Label:   "Curves of accuracy, negative log-likelihood and calibration error over the time, for what was served and for heads.",
		Caption: "Each head by its own probabilities, whichever served.",
		clock:   v.clock,
	}
	over := func(name string, of func(*Period) *calibration.Tally) (m measured) {
		m.name = name
		for i := range v.Report.Periods {
			if t := of(&v.Report.Periods[i]); t != nil && t.Labels > 0 {
				m.x, m.scores = append(m.x, v.middle(&v.Report.Periods[i])), append(m.scores, t.Means())
			}
		}
		return m
	}
	list := []measured{over("served", func(p *Period) *calibration.Tally { return &p.Served })}
	for i, h := range v.heads {
		if i >= maxHeads && h.Name != static {
			continue
		}
		m := over(h.Name, func(p *Period) *calibration.Tally {
			if g := p.Head(h.Name); g != nil {
				return &g.Tally
			}
			return nil
		})
		m.noECE = true
		list = append(list, m)
	}
	f.scores(v.xLabel(), false, list)
	return f
}

func (v *reportView) reliability() *plot {
	f := &plot{
		Label: "A reliability diagram: accuracy against confidence.",
		Caption: "Of the predictions with a confidence as on the axis, the share that was right. On the diagonal a " +
			"probability can be taken at its word.",
	}
	f.reliability("served", &v.whole.Served)
	return f
}
