package table

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Picture is plots beside each other, with the name of its file, without the extension.
type Picture struct {
	Name  string
	plots []*plot.Plot
}

// Pictures returns for each data set and protocol: the scores by step of GVBLL, the pool
// and the best baselines, and reliability diagrams of GVBLL with and without updates.
func Pictures(rows []row) (pictures []Picture) {
	for _, t := range tables(rows) {
		shown := curves(t)
		if len(shown) == 0 {
			continue
		}
		name := t[0].Dataset + "-" + t[0].Protocol
		steps := Picture{Name: name + "-curves"}
		for k, label := range []string{"accuracy", "NLL (nats)", "ECE"} {
			q := steps.newPlot("", "step", label)
			if k == 0 {
				q.Title.Text = t[0].Dataset + ", " + t[0].Protocol + ", before its labels"
			}
			for i, r := range shown {
				addCurve(q, r.System, i, overSteps(r.runs, k))
			}
		}
		pictures = append(pictures, steps)
		diagrams := Picture{Name: name + "-reliability"}
		for _, r := range shown {
			if isGVBLL(r) {
				diagrams.reliability(r)
			}
		}
		if diagrams.plots != nil {
			pictures = append(pictures, diagrams)
		}
	}
	return pictures
}

func isGVBLL(r row) bool { return r.System == "gvbll-static" || r.System == "gvbll-online" }

// curves returns the rows whose scores by step are drawn: the best by NLL of the paper's
// baselines and of the simple ones, GVBLL, and the pool.
func curves(rows []row) (shown []row) {
	for _, list := range [][]string{Systems, simple} {
		best := row{NLL: measured{Mean: math.Inf(1)}}
		for _, r := range rows {
			if slices.Contains(list, r.System) && !isGVBLL(r) && r.NLL.Mean < best.NLL.Mean {
				best = r
			}
		}
		if best.System != "" {
			shown = append(shown, best)
		}
	}
	for _, r := range rows {
		if isGVBLL(r) || r.System == "pool" {
			shown = append(shown, r)
		}
	}
	return shown
}

// points are values with their standard errors, 0 for none.
type points struct {
	plotter.XYs
	plotter.YErrors
}

// overSteps averages a measure of runs step by step. A step's mean is over the runs that have the step.
func overSteps(runs []*Result, measure int) (p points) {
	for t := 0; ; t++ {
		var values []float64
		for _, r := range runs {
			if t < len(r.Steps) {
				values = append(values, *r.Steps[t].at(measure))
			}
		}
		if len(values) == 0 {
			return p
		}
		mean, se := calibration.MeanAndError(values)
		p.XYs = append(p.XYs, plotter.XY{X: float64(t + 1), Y: mean})
		p.YErrors = append(p.YErrors, struct{ Low, High float64 }{se, se})
	}
}

// Write writes the picture into a folder, as SVG.
func (p *Picture) Write(dir string) error {
	b, err := p.render()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.Name+".svg"), b, 0o644)
}

func (p *Picture) render() ([]byte, error) {
	const width, height = 320, 260 // of a plot with its axes, in points
	c, err := draw.NewFormattedCanvas(width*vg.Length(len(p.plots)), height, "svg")
	if err != nil {
		return nil, err
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(p.plots), PadX: 12, PadLeft: 6, PadRight: 12, PadTop: 6, PadBottom: 6}
	for i, canvas := range plot.Align([][]*plot.Plot{p.plots}, tiles, draw.New(c))[0] {
		p.plots[i].Draw(canvas)
	}
	var b bytes.Buffer
	_, err = c.WriteTo(&b)
	return b.Bytes(), err
}

// newPlot adds a plot to the picture.
func (p *Picture) newPlot(title, x, y string) *plot.Plot {
	q := plot.New()
	q.Title.Text, q.X.Label.Text, q.Y.Label.Text = title, x, y
	q.Legend.Top = true
	q.Add(plotter.NewGrid())
	p.plots = append(p.plots, q)
	return q
}

// drawn returns a plotter. There is an error for values that are not finite, which no result has.
func drawn[T any](p T, err error) T {
	if err != nil {
		panic(err)
	}
	return p
}

// addCurve adds the line of a system, the i-th of the plot, with error bars where there are several runs.
// What serves, the head that learns and the model as trained have the colours of the live page and the
// dashboards.
func addCurve(q *plot.Plot, system string, i int, values points) {
	line, dots, err := plotter.NewLinePoints(values.XYs)
	drawn(line, err)
	line.Color = plotutil.Color(i)
	if c, ok := map[string]color.RGBA{
		"pool": {0x1a, 0x80, 0xc4, 0xff}, "gvbll-online": {0xd5, 0x5e, 0, 0xff}, "gvbll-static": {0x8e, 0x8e, 0x8e, 0xff},
	}[system]; ok {
		line.Color = c
	}
	dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, 1.5, line.Color
	bars := drawn(plotter.NewYErrorBars(values))
	bars.Color = line.Color
	q.Add(line, dots, bars)
	q.Legend.Add(system, line, dots)
}

// reliability adds a reliability diagram: the accuracy of each bin of confidence, with the
// diagonal and the number of predictions as a line, relative to the largest.
func (p *Picture) reliability(r row) {
	var bins calibration.Bins
	for _, run := range r.runs {
		bins.Merge(&run.Bins)
	}
	accuracy := &plotter.Histogram{Width: 1. / calibration.BinCount, FillColor: plotutil.Color(2), LineStyle: plotter.DefaultLineStyle}
	var n, most int64
	for _, b := range bins {
		n, most = n+b.Count, max(most, b.Count)
	}
	counts := make(plotter.XYs, len(bins))
	for i, b := range bins {
		low := float64(i) * accuracy.Width
		accuracy.Bins = append(accuracy.Bins, plotter.HistogramBin{
			Min: low, Max: low + accuracy.Width,
			Weight: float64(b.Correct) / float64(max(b.Count, 1)),
		})
		counts[i] = plotter.XY{X: low + accuracy.Width/2, Y: float64(b.Count) / float64(max(most, 1))}
	}
	ece, chance := bins.ECE()
	q := p.newPlot(fmt.Sprintf("%s: n = %d, ECE %.4f (by chance up to %.4f)", r.System, n, ece, chance), "confidence", "accuracy")
	line := drawn(plotter.NewLine(counts))
	line.Dashes = plotutil.Dashes(1)
	q.Add(accuracy, plotter.NewFunction(func(x float64) float64 { return x }), line)
	q.Legend.Add("predictions", line)
	q.Legend.Left = true
	q.X.Min, q.X.Max, q.Y.Min, q.Y.Max = 0, 1, 0, 1
}
