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

// chart is a diagram of lines.
type chart struct {
	title          string
	xLabel, yLabel string // with the unit
	// sweep is true if x is the values of a parameter that were tried: every point is
	// marked, and errors are bars. Otherwise x counts steps of a stream or epochs of
	// a training: its ticks are integers, and errors are a band.
	sweep bool
	// log makes the x axis logarithmic, with ticks at the values of the series.
	log    bool
	series []Series // with different names
}

// Size of a chart with its axes, in points.
const chartWidth, chartHeight = 310, 210

// lines returns a picture of charts side by side.
func lines(title string, charts ...chart) Picture {
	var row []panel
	for _, c := range charts {
		row = append(row, panel{c.title, c.build})
	}
	return Picture{title: title, width: chartWidth, height: chartHeight, rows: [][]panel{row}}
}

func (c chart) build(st *style) (*plot.Plot, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	p := st.newPlot(c.xLabel, c.yLabel)
	x, y := nothing, nothing
	var tried []float64
	var bands, lines []plot.Plotter // lines are drawn over all bands
	for _, s := range c.series {
		data := c.points(s)
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
		if c.sweep {
			st.list(name, line, marks)
			lines = append(lines, line, data.bars(st.hue(look)), marks)
			continue
		}
		st.list(name, line)
		bands = append(bands, data.band(st.hue(look)))
		if len(data) > 1 {
			lines = append(lines, line)
		} else { // a line of one point could not be seen
			lines = append(lines, marks)
		}
	}
	p.Add(st.rules())
	p.Add(bands...)
	p.Add(lines...)
	p.Y.Min, p.Y.Max = y.padded(0.06)
	p.X.Min, p.X.Max = x.padded(0)
	switch {
	case c.log:
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = valueTicks(tried, chartWidth-80)
		room := max(math.Pow(x.hi/x.lo, 0.03), 1.05)
		p.X.Min, p.X.Max = x.lo/room, x.hi*room
	case c.sweep: // marks at the ends stay clear of the axis
		room := 0.03 * (p.X.Max - p.X.Min)
		p.X.Min, p.X.Max = p.X.Min-room, p.X.Max+room
	default:
		p.X.Tick.Marker = plot.TickerFunc(wholeTicks)
	}
	return p, nil
}

func (c chart) check() error {
	if len(c.series) == 0 {
		return errors.New("no series")
	}
	var errs []error
	seen := make(map[string]bool)
	for _, s := range c.series {
		name := clean(s.Name)
		if seen[name] {
			errs = append(errs, fmt.Errorf("two series are named %q", name))
		}
		seen[name] = true
		if err := c.checkSeries(s); err != nil {
			errs = append(errs, fmt.Errorf("series %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (c chart) checkSeries(s Series) error {
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
	if len(c.points(s)) == 0 {
		return fmt.Errorf("none of %d points can be drawn", len(s.X))
	}
	return nil
}

// points are values with their standard errors, 0 for none.
type points []point

type point struct{ x, y, err float64 }

// points returns those points of a series that can be drawn.
func (c chart) points(s Series) (data points) {
	for i, x := range s.X {
		if !drawable(x) || !drawable(s.Y[i]) || c.log && x < 1/huge {
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
