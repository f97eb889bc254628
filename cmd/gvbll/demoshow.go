package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// demoShow shows how often what serves is right while it serves, beside the model as trained:
// as a live view on a terminal, and otherwise as a table that grows. Its methods are hooks of the
// worker, which calls one at a time.
type demoShow struct {
	w       io.Writer
	screen  *look.Screen // nil without a terminal
	engine  *pipeline.Engine
	model   string
	windows []intake.Size // of the whole demo
	total   int           // number of steps with labels
	done    chan struct{} // closed when all windows are committed
	once    sync.Once

	arrivals, labels int
	posterior, chain string
	lines            []string // of windows that are not committed yet
	scores           []pipeline.Summary
	prequential      calibration.Prequential // of what was published, whichever head served
	served           []calibration.Tally     // of the same, by step
	heads            [][]calibration.Tally   // by head and step
	drift            []string                // steps in which it was found
	watched          watchedLabels
	acted            acted
}

func newDemoShow(w io.Writer, screen *look.Screen, engine *pipeline.Engine, model string, windows []intake.Size, steps int) *demoShow {
	return &demoShow{w: w, screen: screen, engine: engine, model: model, windows: windows, total: steps, done: make(chan struct{})}
}

// beside returns a writer for what is printed besides, which does not tear the live view.
func (d *demoShow) beside(w io.Writer) io.Writer {
	if d.screen != nil && flags.IsTerminal(w) {
		return d.screen
	}
	return w
}

const header = "  step   nodes  labels     right: what serves   the model as trained\n"

func (d *demoShow) stepped(s replay.Stepped) {
	out := s.Outcome
	d.arrivals += out.Figures.Int(event.Arrivals)
	d.labels += len(out.Labelled)
	d.posterior, d.chain = out.Posterior.Hex(), out.Chain.Hex()
	d.scores = d.engine.Summaries()
	if len(out.Labelled) > 0 {
		d.record(out, d.engine.Config().Bins)
	}
	if len(ledger.Changes(out.Drift)) > 0 {
		d.drift = append(d.drift, strconv.Itoa(len(d.served)))
		if d.screen == nil && !s.Replayed {
			d.lines = append(d.lines, fmt.Sprintf("drift was found in step %d\n", len(d.served)))
		}
	}
	if len(out.Labelled) == 0 {
		return
	}
	step := len(d.served)
	if every := max(1, d.total/25); d.screen != nil || s.Replayed || step%every != 0 && step != d.total {
		return
	}
	d.lines = append(d.lines, fmt.Sprintf("%6d %7d %7d %20s %22s\n", step, d.arrivals, d.labels,
		percent(d.prequential.LabelMeans().Acc), percent(named(d.scores, look.StaticHead).LabelMeans().Acc)))
}

// found says in which steps drift was found, "" for none.
func (d *demoShow) found() string {
	if len(d.drift) == 0 {
		return ""
	}
	return "drift was found in step " + strings.Join(d.drift, ", ")
}

// record adds the step's scores of what was served, and of each head. The ECE of a step has that
// number of bins.
func (d *demoShow) record(out *event.Outcome, bins int) {
	served := make([]calibration.Score, len(out.Labelled))
	var tally calibration.Tally
	for i := range served {
		served[i] = calibration.Score(out.Heads[out.Labelled[i].By].Scores[i])
		tally.Add(&served[i])
	}
	d.served = append(d.served, tally)
	d.watched.add(out)
	d.acted.add(out)
	d.prequential.AddWindow(served, bins)
	if d.heads == nil {
		d.heads = make([][]calibration.Tally, len(out.Heads))
	}
	for h := range out.Heads {
		d.heads[h] = append(d.heads[h], serve.Tally(&out.Heads[h]))
	}
}

// static returns the scores of the model as trained by step.
func (d *demoShow) static() []calibration.Tally {
	for h := range d.heads {
		if d.scores[h].Head == look.StaticHead {
			return d.heads[h]
		}
	}
	return nil
}

// view returns the live view: the progress of the stream, how often predictions were right by step,
// and how often by confidence.
func (d *demoShow) view(width int) []look.Line {
	share := float64(len(d.served)) / float64(max(d.total, 1))
	static := d.static()
	all, allStatic := sum(d.served), sum(static)
	curve := func(name string, steps []calibration.Tally, style look.Style) look.Line {
		var right []float64
		all := sum(steps)
		for i := range steps {
			right = append(right, steps[i].Means().Acc)
		}
		return look.Line{
			Text: fmt.Sprintf("%-29s%6s  ", name, percent(all.Means().Acc)),
			Rest: []look.Line{{Text: look.Spark(right, 0, 1, width-38), Style: style}},
		}
	}
	return append([]look.Line{
		{
			Text:  fmt.Sprintf("step %d of %d  %s %3.0f %%", len(d.served), d.total, look.Bar(share, 20), 100*share),
			Style: look.Bold, Rest: []look.Line{
				{Text: fmt.Sprintf("  %s predicted, %s labels", look.Grouped(d.arrivals), look.Grouped(d.labels))},
			},
		},
		{Text: d.found()},
		curve("what serves was right for", d.served, look.Green),
		curve("the model as trained, for", static, look.Yellow),
		{},
	}, strip(&all.Bins, &allStatic.Bins, width)...)
}

func (d *demoShow) recovered(r replay.Recovered) {
	windows := r.Windows
	if windows > 0 {
		fmt.Fprintf(d.w, "replayed %d windows of the ledger, continuing from there\n", windows)
	}
	if d.screen == nil {
		fmt.Fprint(d.w, header)
	}
	d.finishAt(windows)
}

func (d *demoShow) committed(c replay.Committed) {
	fmt.Fprint(d.w, strings.Join(d.lines, ""))
	d.lines = d.lines[:0]
	if d.screen != nil && d.scores != nil {
		_ = d.screen.Paint(d.view(d.screen.Width())) // the stream continues without the terminal
	}
	d.finishAt(c.Last + 1)
}

// finishAt closes done if the number of committed windows is that of the demo's.
func (d *demoShow) finishAt(windows int64) {
	if windows >= int64(len(d.windows)) {
		d.once.Do(func() { close(d.done) })
	}
}

// print prints lines for good, in place of the live view.
func (d *demoShow) print(lines []look.Line) {
	if d.screen != nil {
		_ = d.screen.Print(lines)
		return
	}
	fmt.Fprintln(d.w) // after the table
	for _, l := range lines {
		fmt.Fprintln(d.w, strings.TrimRight(l.String(), " "))
	}
}
