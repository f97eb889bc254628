package table

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format svg

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Picture is plots beside each other, with the name of its file, without the extension.
type Picture struct {
	Name  string
	plots []*plot.Plot
	err   error // of the values
}

// Size of a plot with its axes, in points.
const plotWidth, plotHeight = 320, 260

// Write writes the picture into a folder, as SVG.
func (p *Picture) Write(dir string) error {
	b, err := p.render()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, p.Name+".svg"), b, 0o644)
}

func (p *Picture) render() ([]byte, error) {
	if p.err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, p.err)
	}
	c, err := draw.NewFormattedCanvas(plotWidth*vg.Length(len(p.plots)), plotHeight, "svg")
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
	q.Add(plotter.NewGrid())
	p.plots = append(p.plots, q)
	return q
}

// series is a line of a plot: values with their standard errors, 0 for none.
type series struct {
	Name      string
	X, Y, Err []float64
}

func (s *series) add(x, y, err float64) {
	s.X, s.Y, s.Err = append(s.X, x), append(s.Y, y), append(s.Err, err)
}

// points implements [plotter.XYer] and [plotter.YErrorer].
type points struct {
	plotter.XYs
	plotter.YErrors
}

// lines adds a plot of lines with error bars. Values that are not finite are left out.
func (p *Picture) lines(title, x, y string, list []series) *plot.Plot {
	q := p.newPlot(title, x, y)
	for i, s := range list {
		var finite points
		bars := false
		for k, v := range s.Y {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				continue
			}
			finite.XYs = append(finite.XYs, plotter.XY{X: s.X[k], Y: v})
			finite.YErrors = append(finite.YErrors, struct{ Low, High float64 }{s.Err[k], s.Err[k]})
			bars = bars || s.Err[k] > 0
		}
		if len(finite.XYs) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(finite.XYs)
		if err != nil {
			p.err = err
			continue
		}
		line.Color, dots.Shape, dots.Radius = colour(s.Name, i), draw.CircleGlyph{}, 1.5
		dots.Color = line.Color
		q.Add(line, dots)
		q.Legend.Add(s.Name, line, dots)
		if bars {
			e, err := plotter.NewYErrorBars(finite)
			if err != nil {
				p.err = err
				continue
			}
			e.Color = line.Color
			q.Add(e)
		}
	}
	q.Legend.Top = true
	return q
}

// colour returns the colour of a system, the i-th of a plot. What serves, the head that learns
// and the model as trained have those of the live page and the dashboards.
func colour(system string, i int) color.Color {
	switch system {
	case "pool":
		return color.RGBA{0x1a, 0x80, 0xc4, 0xff}
	case "gvbll-online":
		return color.RGBA{0xd5, 0x5e, 0, 0xff}
	case "gvbll-static":
		return color.RGBA{0x8e, 0x8e, 0x8e, 0xff}
	}
	return plotutil.Color(i)
}

// scores adds plots of accuracy, NLL and ECE.
func (p *Picture) scores(title, x string, acc, nll, ece []series) {
	p.lines(title, x, "accuracy", acc)
	p.lines("", x, "NLL (nats)", nll)
	p.lines("", x, "ECE", ece)
}

// reliability adds a reliability diagram: the accuracy of each bin of confidence, with the
// diagonal and the number of predictions as a line, relative to the largest.
func (p *Picture) reliability(name string, bins *calibration.Bins) {
	accuracy := &plotter.Histogram{Width: 1. / calibration.BinCount, FillColor: plotutil.Color(2), LineStyle: plotter.DefaultLineStyle}
	var n, most int64
	for _, b := range bins {
		n, most = n+b.Count, max(most, b.Count)
	}
	counts := make(plotter.XYs, len(bins))
	for i, b := range bins {
		low := float64(i) * accuracy.Width
		accuracy.Bins = append(accuracy.Bins, plotter.HistogramBin{Min: low, Max: low + accuracy.Width, Weight: float64(b.Correct) / float64(max(b.Count, 1))})
		counts[i] = plotter.XY{X: low + accuracy.Width/2, Y: float64(b.Count) / float64(max(most, 1))}
	}
	ece, chance := bins.ECE()
	q := p.newPlot(fmt.Sprintf("%s: n = %d, ECE %.4f (by chance up to %.4f)", name, n, ece, chance), "confidence", "accuracy")
	line, err := plotter.NewLine(counts)
	if err != nil {
		p.err = err
		return
	}
	line.Dashes = plotutil.Dashes(1)
	diagonal := plotter.NewFunction(func(x float64) float64 { return x })
	q.Add(accuracy, diagonal, line)
	q.Legend.Add("predictions", line)
	q.Legend.Top, q.Legend.Left = true, true
	q.X.Min, q.X.Max, q.Y.Min, q.Y.Max = 0, 1, 0, 1
}
