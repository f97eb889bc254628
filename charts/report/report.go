package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/gvbll/gvbll/charts/plot"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Report is how a graph did over a time.
type Report struct {
	Graph   string // prefix of its topics
	Model   string // id of the one that serves at the end
	Version string // of this program
	Made    time.Time
	Periods []Period // consecutive, at least one
	Events  []Event  // what happened, in order
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

//go:embed report.html
var page string

var layout = template.Must(template.New("report").Funcs(template.FuncMap{
	"at":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
	"score":   func(x float64) string { return fmt.Sprintf("%.4f", x) },
	"signed":  func(x float64) string { return fmt.Sprintf("%+.4f", x) },
	"percent": func(part, whole int) string { return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(max(whole, 1))) },
}).Parse(page))

// view is what the page shows.
type view struct {
	*Report
	From, To                     time.Time
	Whole                        Period
	Means                        calibration.Means
	Delay                        time.Duration
	Heads, Degrees, Classes      []Group
	Refused, Unscored            int // events, labels
	Omitted                      int // events that are not listed
	Curves, Reliability, Traffic template.HTML
}

// HTML returns the report as a page of its own: pictures and style are in it, and it has
// no script.
func (r *Report) HTML() ([]byte, error) {
	v := view{Report: r, From: r.Periods[0].From, To: r.Periods[len(r.Periods)-1].To}
	for i := range r.Periods {
		v.Whole.Merge(&r.Periods[i])
	}
	v.Means, v.Delay = v.Whole.Served.Means(), v.Whole.Delay().Round(time.Millisecond)
	v.Heads = slices.SortedStableFunc(slices.Values(v.Whole.Heads), func(a, b Group) int { return cmp.Compare(a.NLL(), b.NLL()) })
	v.Degrees = slices.SortedFunc(slices.Values(v.Whole.Degrees), func(a, b Group) int { return cmp.Compare(degree(a.Name), degree(b.Name)) })
	v.Classes = slices.SortedFunc(slices.Values(v.Whole.Classes), func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Labels, a.Labels), cmp.Compare(a.Name, b.Name))
	})
	v.Refused = v.Whole.RefusedEvents()
	v.Unscored = max(v.Whole.Labels-v.Whole.Served.Labels, 0)
	v.Omitted = max(len(r.Events)-maxEvents, 0)
	v.Events = r.Events[v.Omitted:]
	if err := v.draw(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := layout.Execute(&b, v); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// degree returns the least degree of a slice by its name, such as 4-15 or 16+.
func degree(name string) (least int) {
	_, _ = fmt.Sscanf(name, "%d", &least)
	return least
}

// draw draws the pictures. Without labels there are none of scores.
func (v *view) draw() (err error) {
	if v.Traffic, err = inline(plot.Traffic("", v.xLabel(), v.traffic())); err != nil {
		return err
	}
	if v.Whole.Served.Labels == 0 {
		return nil
	}
	accuracy, nll, ece := v.curves()
	if v.Curves, err = inline(plot.Curves("", v.xLabel(), accuracy, nll, ece)); err != nil {
		return err
	}
	v.Reliability, err = inline(plot.Reliability("", diagram(&v.Whole.Served)))
	return err
}

// inline returns a picture as a part of a page.
func inline(p plot.Picture) (template.HTML, error) {
	svg, err := p.SVG()
	if i := bytes.Index(svg, []byte("<svg")); i > 0 {
		svg = svg[i:] // the XML declaration has no place in HTML
	}
	return template.HTML(svg), err // of our own making, with all text escaped
}

// unit is the largest unit of which the report's time has a few at least.
func (v *view) unit() (length time.Duration, name string) {
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "days"}, {time.Hour, "hours"}, {time.Minute, "minutes"}} {
		if v.To.Sub(v.From) >= 3*u.length {
			return u.length, u.name
		}
	}
	return time.Second, "seconds"
}

func (v *view) xLabel() string {
	_, name := v.unit()
	return name + " since " + v.From.UTC().Format("2006-01-02 15:04")
}

// series returns a line over the middles of the periods for which y returns true.
func (v *view) series(name string, y func(*Period) (float64, bool)) plot.Series {
	s := plot.Series{Name: name}
	unit, _ := v.unit()
	for i := range v.Periods {
		p := &v.Periods[i]
		if value, ok := y(p); ok {
			s.X = append(s.X, float64(p.From.Add(p.To.Sub(p.From)/2).Sub(v.From))/float64(unit))
			s.Y = append(s.Y, value)
		}
	}
	return s
}

func (v *view) traffic() []plot.Series {
	count := func(name string, of func(*Period) int) plot.Series {
		return v.series(name, func(p *Period) (float64, bool) { return float64(of(p)), true })
	}
	return []plot.Series{
		count("predictions", func(p *Period) int { return p.Predictions }),
		count("labels", func(p *Period) int { return p.Labels }),
		count("refused", (*Period).RefusedEvents),
	}
}

// curves returns the scores of what was served, and beside it of the best heads and the
// static one, over the periods that had labels.
func (v *view) curves() (accuracy, nll, ece []plot.Series) {
	served := func(y func(calibration.Means) float64) plot.Series {
		return v.series("served", func(p *Period) (float64, bool) { return y(p.Served.Means()), p.Served.Labels > 0 })
	}
	accuracy = append(accuracy, served(func(m calibration.Means) float64 { return m.Acc }))
	nll = append(nll, served(func(m calibration.Means) float64 { return m.NLL }))
	ece = append(ece, served(func(m calibration.Means) float64 { return m.ECE }))
	for i, h := range v.Heads {
		if i >= maxHeads && h.Name != static {
			continue
		}
		of := func(y func(*Group) float64) plot.Series {
			return v.series(h.Name, func(p *Period) (float64, bool) {
				g := p.Head(h.Name)
				if g == nil || g.Labels == 0 {
					return 0, false
				}
				return y(g), true
			})
		}
		accuracy, nll = append(accuracy, of((*Group).Accuracy)), append(nll, of((*Group).NLL))
	}
	return accuracy, nll, ece
}

// diagram returns the reliability of a tally.
func diagram(t *calibration.Tally) plot.Diagram {
	d := plot.Diagram{Name: "served"}
	for i, b := range t.Bins {
		if b.Count > 0 {
			n := float64(b.Count)
			d.Bins = append(d.Bins, plot.Bin{
				Low: float64(i) / calibration.BinCount, High: float64(i+1) / calibration.BinCount, Count: int(b.Count),
				Confidence: min(b.SumConfidence/n, 1), Accuracy: float64(b.Correct) / n,
			})
		}
	}
	return d
}
