package main

import (
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/replay"
)

// demoShow shows how the heads compare while the worker serves: as a live view on a
// terminal, and otherwise as a table that grows. Its methods are hooks of the worker,
// which calls one at a time.
type demoShow struct {
	w       io.Writer
	screen  *look.Screen // nil without a terminal
	model   string
	engine  *pipeline.Engine
	windows []intake.Size // of the whole demo
	total   int           // number of steps with labels
	bins    int           // of a step's ECE
	done    chan struct{} // closed when all windows are committed
	once    sync.Once

	arrivals, labels, step int
	posterior, chain       string
	lines                  []string // of windows that are not committed yet
	scores                 []pipeline.Summary
	served                 calibration.Prequential // of what was published, whichever head served
	pending                int
	nll                    [][]float64 // by head and step
	servedNLL              []float64   // by step
}

const header = "  step   nodes  labels     static acc     NLL     served acc     NLL   pending\n"

func (d *demoShow) stepped(s replay.Stepped) {
	out := s.Outcome
	d.arrivals += out.Counts.Arrivals
	d.labels += len(out.Labelled)
	d.posterior, d.chain = fmt.Sprintf("%x", out.Posterior), fmt.Sprintf("%x", out.Chain)
	d.scores, d.pending = d.engine.Summaries(), out.Levels.Pending
	if len(out.Labelled) == 0 {
		return
	}
	d.step++
	d.record(out)
	if d.screen != nil {
		return
	}
	if every := max(1, d.total/25); s.Replayed || d.step%every != 0 && d.step != d.total {
		return
	}
	served, static := d.served.WindowMeans(), named(d.scores, look.StaticHead).WindowMeans()
	d.lines = append(d.lines, fmt.Sprintf("%6d %7d %7d %14.4f %7.4f %14.4f %7.4f %9d\n",
		d.step, d.arrivals, d.labels, static.Acc, static.NLL, served.Acc, served.NLL, out.Levels.Pending))
}

// record adds the step's scores of what was served, and its mean NLL of each head.
func (d *demoShow) record(out *event.Outcome) {
	served := make([]calibration.Score, len(out.Labelled))
	for i := range served {
		served[i] = calibration.Score(out.Heads[out.Labelled[i].By].Scores[i])
	}
	d.servedNLL = append(d.servedNLL, d.served.AddWindow(served, d.bins).NLL)
	if d.nll == nil {
		d.nll = make([][]float64, len(out.Heads))
	}
	for h := range out.Heads {
		t := serve.Tally(&out.Heads[h])
		d.nll[h] = append(d.nll[h], t.Means().NLL)
	}
}

// view returns the live view: the progress of the stream, and the heads' scores.
func (d *demoShow) view() []look.Line {
	share := float64(d.step) / float64(max(d.total, 1))
	lines := []look.Line{
		{Text: fmt.Sprintf("step %d of %d  %s %3.0f%%  %d nodes served, %d labels, %d pending", d.step, d.total, look.Bar(share, 24), 100*share, d.arrivals, d.labels, d.pending), Style: look.Bold},
		{Text: fmt.Sprintf("%-14s %9s %8s %8s %8s  %s", "", "accuracy", "NLL", "ECE", "Brier", "NLL by step"), Style: look.Faint},
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	const room = 40
	for _, steps := range d.nll {
		for _, v := range steps[max(len(steps)-room, 0):] {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	for h := range d.scores {
		s := d.scores[h].WindowMeans()
		curve := ""
		if h < len(d.nll) {
			curve = look.Spark(d.nll[h], lo, hi, room)
		}
		lines = append(lines, look.Line{Text: fmt.Sprintf("%-14s %9.4f %8.4f %8.4f %8.4f  %s", d.scores[h].Head, s.Acc, s.NLL, s.ECE, s.Brier, curve), Style: look.Usual})
	}
	return lines
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
	for _, l := range d.lines {
		fmt.Fprint(d.w, l)
	}
	d.lines = d.lines[:0]
	if d.screen != nil && d.scores != nil {
		_ = d.screen.Paint(d.view()) // the stream continues without the terminal
	}
	d.finishAt(c.Last + 1)
}

// finishAt closes done if the number of committed windows is that of the demo's.
func (d *demoShow) finishAt(windows int64) {
	if windows >= int64(len(d.windows)) {
		d.once.Do(func() { close(d.done) })
	}
}
