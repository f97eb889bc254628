package plot

import (
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Series is a line: points in the order in which they are joined.
type Series struct {
	// Name stands in the legend, unless it is empty.
	Name string
	// X and Y have the same length. Points that are not finite are left out, and
	// on a logarithmic axis those with X ≤ 0.
	X, Y []float64
	// Err is nil, or the standard error of each Y, in its unit. One that is not
	// finite is not drawn.
	Err []float64
}

// Panel is a diagram of lines.
type Panel struct {
	Title string
	// XLabel and YLabel are with their unit. Without Sweep, X counts steps of a
	// stream or a training, so that its ticks are integers.
	XLabel, YLabel string
	// Sweep is for the values that were tried of a parameter: every point is
	// marked, and errors are bars instead of a band.
	Sweep bool
	// Log makes the x axis logarithmic, with ticks at the values of the series.
	Log    bool
	Series []Series // with different names
}

// Size of a panel of lines with its axes, in points.
const linesWidth, linesHeight = 310, 210

// Lines returns a picture of panels side by side.
func Lines(title string, panels ...Panel) Picture {
	var row []panel
	for _, p := range panels {
		row = append(row, panel{p.Title, p.build})
	}
	return Picture{title: title, width: linesWidth, height: linesHeight, rows: [][]panel{row}}
}

func (p Panel) build(st *style) (*plot.Plot, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	diagram := st.newPlot(p.XLabel, p.YLabel, linesWidth, linesHeight)
	x, y := nothing, nothing
	var tried []float64
	var bands, lines []plot.Plotter // lines are drawn over all bands
	for _, s := range p.Series {
		data := p.points(s)
		for _, d := range data {
			x.add(d.x)
			y.add(d.y - d.err)
			y.add(d.y + d.err)
			tried = append(tried, d.x)
		}
		name := clean(s.Name)
		look := st.look(name)
		line := &plotter.Line{XYs: data.xys(), LineStyle: st.line(look)}
		marks := &plotter.Scatter{XYs: line.XYs, GlyphStyle: st.marker(look)}
		if !p.Sweep {
			bands = append(bands, data.band(st.hue(look)))
			st.list(name, line)
			if len(data) == 1 { // a line that could not be seen
				lines = append(lines, marks)
			} else {
				lines = append(lines, line)
			}
			continue
		}
		st.list(name, line, marks)
		lines = append(lines, line, data.bars(st.hue(look)), marks)
	}
	diagram.Add(st.rules())
	diagram.Add(bands...)
	diagram.Add(lines...)
	diagram.Y.Min, diagram.Y.Max = y.padded(0.06)
	switch {
	case p.Log:
		diagram.X.Scale = plot.LogScale{}
		diagram.X.Tick.Marker = valueTicks(tried, linesWidth-80)
		room := max(math.Pow(x.hi/x.lo, 0.03), 1.05)
		diagram.X.Min, diagram.X.Max = x.lo/room, x.hi*room
	case p.Sweep: // marks at zero stay clear of the axis
		lo, hi := x.padded(0)
		diagram.X.Min, diagram.X.Max = lo-0.03*(hi-lo), hi+0.03*(hi-lo)
	default:
		diagram.X.Tick.Marker = plot.TickerFunc(wholeTicks)
		diagram.X.Min, diagram.X.Max = x.padded(0)
	}
	return diagram, nil
}

func (p Panel) check() error {
	if len(p.Series) == 0 {
		return errors.New("no series")
	}
	var errs []error
	seen := make(map[string]bool)
	for _, s := range p.Series {
		name := clean(s.Name)
		if seen[name] {
			errs = append(errs, fmt.Errorf("two series are named %q", name))
		}
		seen[name] = true
		if err := p.checkSeries(s); err != nil {
			errs = append(errs, fmt.Errorf("series %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (p Panel) checkSeries(s Series) error {
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("%d x, but %d y", len(s.X), len(s.Y))
	}
	if s.Err != nil && len(s.Err) != len(s.Y) {
		return fmt.Errorf("%d standard errors of %d values", len(s.Err), len(s.Y))
	}
	for _, e := range s.Err {
		if e < 0 {
			return fmt.Errorf("a standard error of %v", e)
		}
	}
	if len(p.points(s)) == 0 {
		return fmt.Errorf("none of %d points can be drawn", len(s.X))
	}
	return nil
}

// points are values with their errors, 0 for none.
type points []point

type point struct{ x, y, err float64 }

// points returns those points of a series that can be drawn.
func (p Panel) points(s Series) (data points) {
	for i, x := range s.X {
		if !drawable(x) || !drawable(s.Y[i]) || p.Log && x < 1/huge {
			continue
		}
		d := point{x: x, y: s.Y[i]}
		if s.Err != nil && drawable(s.Err[i]) {
			d.err = s.Err[i]
		}
		data = append(data, d)
	}
	return data
}

func (data points) xys() plotter.XYs {
	xys := make(plotter.XYs, len(data))
	for i, d := range data {
		xys[i] = plotter.XY{X: d.x, Y: d.y}
	}
	return xys
}

// band returns the area within one standard error of the points, through which
// other bands and the grid can be seen. Without errors it has no area.
func (data points) band(hue color.NRGBA) *plotter.Polygon {
	ring := make(plotter.XYs, 2*len(data))
	for i, d := range data {
		ring[i] = plotter.XY{X: d.x, Y: d.y + d.err}
		ring[len(ring)-1-i] = plotter.XY{X: d.x, Y: d.y - d.err}
	}
	return &plotter.Polygon{XYs: []plotter.XYs{ring}, Color: faded(hue, 48)}
}

// bars returns the error bars of those points that have an error.
func (data points) bars(hue color.NRGBA) *plotter.YErrorBars {
	b := &plotter.YErrorBars{LineStyle: vgdraw.LineStyle{Color: hue, Width: 0.9}, CapWidth: capWidth}
	for _, d := range data {
		if d.err > 0 {
			b.XYs = append(b.XYs, plotter.XY{X: d.x, Y: d.y})
			b.YErrors = append(b.YErrors, struct{ Low, High float64 }{d.err, d.err})
		}
	}
	return b
}

// capWidth is the length of the caps of error bars.
const capWidth vg.Length = 5
