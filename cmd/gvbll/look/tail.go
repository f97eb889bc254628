package look

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

// NewPrinter returns a function that prints a prediction, and one that is called after each
// fetch and at the end. On a terminal they are those of a live table, unless lines are
// asked for.
func NewPrinter(w io.Writer, p flags.Process, asJSON, asLines bool) (show func(*event.Prediction) error, paint func() error) {
	nothing := func() error { return nil }
	switch {
	case asJSON:
		return func(p *event.Prediction) error {
			_, err := fmt.Fprintf(w, "%s\n", wire.AppendPredictionJSON(nil, p))
			return err
		}, nothing
	case !asLines:
		if screen := NewScreen(w, p); screen != nil {
			live := &tailView{screen: screen, began: time.Now()}
			return func(p *event.Prediction) error {
				live.add(p)
				return nil
			}, live.paint
		}
	}
	fmt.Fprintln(w, tailHeader)
	return func(p *event.Prediction) error {
		_, err := fmt.Fprintln(w, tailLine(p))
		return err
	}, nothing
}

// The columns of a line. Without a set of classes it fits into 80 columns.
var tailHeader = fmt.Sprintf("%-16s %-14s %6s %6s %6s %7s  %s", "NODE", "CLASS", "CONF", "TOTAL", "EPIST", "WINDOW", "SET")

func tailLine(p *event.Prediction) string {
	return fmt.Sprintf("%s %s %6.4f %6.4f %6.4f %7d%s%s",
		column(p.Node.String(), 16), column(p.Class, 14), p.Confidence, p.Total, p.Epistemic, p.Window, again(p), setOf(p)+act(p)+askedFor(p))
}

// act says that the prediction is to be acted on.
func act(p *event.Prediction) string {
	if p.Act == nil || !*p.Act {
		return ""
	}
	return "  act"
}

// askedFor says with which probability a label was asked for, "" if it was not.
func askedFor(p *event.Prediction) string {
	if p.Asked == 0 {
		return ""
	}
	return fmt.Sprintf("  asked for: %.4f", p.Asked)
}

// setOf returns the set of classes of a prediction, and why one should not act on it, "" if it has
// no set.
func setOf(p *event.Prediction) string {
	if p.Set == nil {
		return ""
	}
	text := "  {" + shown(strings.Join(p.Set.Classes, ", ")) + "}"
	if p.Set.Abstain != "" {
		text += " abstain: " + shown(p.Set.Abstain)
	}
	return text
}

// again marks a revision. It returns "" for the first prediction of a node.
func again(p *event.Prediction) string {
	if p.Revision == 0 {
		return ""
	}
	return fmt.Sprintf(" r%d", p.Revision)
}

// tailView is a live table of the last predictions, with means over all.
type tailView struct {
	screen *Screen
	began  time.Time

	count      int
	confidence float64 // summed
	epistemic  float64
	rows       []string
}

func (v *tailView) add(p *event.Prediction) {
	v.count++
	v.confidence += float64(p.Confidence)
	v.epistemic += float64(p.Epistemic)
	v.rows = append(v.rows, fmt.Sprintf("%s %s %s %6.4f %6.4f %6.4f %7d%s%s", column(p.Node.String(), 16), column(p.Class, 14),
		Bar(float64(p.Confidence), 6), p.Confidence, p.Total, p.Epistemic, p.Window, again(p), setOf(p)+act(p)+askedFor(p)))
	if most := 1 << 10; len(v.rows) > 2*most { // more than any terminal is high
		v.rows = append(v.rows[:0], v.rows[len(v.rows)-most:]...)
	}
}

// paint shows the table.
func (v *tailView) paint() error {
	_, height := v.screen.size()
	return v.screen.Paint(v.lines(height-1, time.Since(v.began)))
}

// lines returns the table, with the given number of lines at most.
func (v *tailView) lines(most int, since time.Duration) []Line {
	n := float64(max(v.count, 1))
	list := []Line{
		{Text: fmt.Sprintf("%d predictions, %.0f a second; means: confidence %.4f, epistemic %.4f nats",
			v.count, float64(v.count)/max(since.Seconds(), 1e-3), v.confidence/n, v.epistemic/n), Style: Bold},
		{Text: fmt.Sprintf("%-16s %-14s %-13s %6s %6s %7s  %s", "NODE", "CLASS", "CONFIDENCE", "TOTAL", "EPIST", "WINDOW", "SET"), Style: Faint},
	}
	for _, r := range v.rows[max(len(v.rows)-max(most-len(list), 0), 0):] {
		list = append(list, Line{Text: r})
	}
	return list
}
