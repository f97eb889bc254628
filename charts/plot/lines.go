package plot

import (
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Series is a line: points in the order in which they are joined.
type Series struct {
	// Name stands in the legend, unless it is empty.
	Name string
	// X and Y are of one length. Points that are not finite are skipped, and so
	// are those that a logarithmic axis cannot show.
	X, Y []float64
	// Err is nil, or as long as Y: a standard error for each, or any other
	// distance in Y's unit by which a value may be off to either side. What is not
	// finite is not drawn.
	Err []float64
}

// Panel is a diagram of lines.
type Panel struct {
	Title          string
	XLabel, YLabel string // with the unit
	LogX           bool   // a logarithmic axis; points with X ≤ 0 are skipped
	// Points marks every point, and draws errors as bars. Without it there is a
	// line, and errors are a band.
	Points bool
	Series []Series // each of another name
}

// Lines is a picture of panels, so many in a row; 0 for all in one row.
func Lines(title string, columns int, panels ...Panel) Picture {
	p := Picture{title: title, columns: columns}
	for _, panel := range panels {
		p.parts = append(p.parts, lines(panel))
	}
	return p
}

// lines is a Panel as part of a picture.
type lines Panel

// huge is what a value may be: beyond it, differences might overflow.
const huge = 1e100

// drawable reports whether v is a number that has a place on an axis.
func drawable(v float64) bool { return math.Abs(v) <= huge }

type point struct{ x, y, err float64 }

// points returns those points of a series that can be drawn.
func (l lines) points(s Series) (points []point) {
	for i, x := range s.X {
		if !drawable(x) || !drawable(s.Y[i]) || l.LogX && x < 1/huge {
			continue
		}
		p := point{x: x, y: s.Y[i]}
		if s.Err != nil && drawable(s.Err[i]) {
			p.err = s.Err[i]
		}
		points = append(points, p)
	}
	return points
}

func (l lines) check() error {
	if len(l.Series) == 0 {
		return errors.New("no series")
	}
	var errs []error
	seen := make(map[string]bool)
	for _, s := range l.Series {
		name := clean(s.Name)
		if seen[name] {
			errs = append(errs, fmt.Errorf("two series are named %q", name))
		}
		seen[name] = true
		if err := l.checkSeries(s); err != nil {
			errs = append(errs, fmt.Errorf("series %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (l lines) checkSeries(s Series) error {
	if len(s.X) != len(s.Y) {
		return fmt.Errorf("%d x, but %d y", len(s.X), len(s.Y))
	}
	if err := checkErr(s.Err, len(s.Y)); err != nil {
		return err
	}
	if len(l.points(s)) == 0 {
		return fmt.Errorf("none of %d points can be drawn", len(s.X))
	}
	return nil
}

// checkErr checks standard errors that belong to n values.
func checkErr(errs []float64, n int) error {
	if errs != nil && len(errs) != n {
		return fmt.Errorf("%d standard errors of %d values", len(errs), n)
	}
	for _, e := range errs {
		if e < 0 {
			return fmt.Errorf("a standard error of %v", e)
		}
	}
	return nil
}

func (l lines) heading() string { return clean(l.Title) }

func (l lines) names() (names []string) {
	for _, s := range l.Series {
		names = append(names, clean(s.Name))
	}
	return names
}

func (l lines) extent() (width, height vg.Length) { return 270, 170 }

func (l lines) keys(st *style) (keys []key) {
	for _, name := range l.names() {
		if name == "" {
			continue
		}
		look := st.look(name)
		keys = append(keys, key{name, func(c vgdraw.Canvas) {
			middle := c.Center()
			c.StrokeLine2(st.line(look), c.Min.X, middle.Y, c.Max.X, middle.Y)
			if l.Points {
				c.DrawGlyph(st.marker(look), middle)
			}
		}})
	}
	return keys
}

func (l lines) plot(st *style) *plot.Plot {
	width, height := l.extent()
	p := st.axes(l.XLabel, l.YLabel, width, height)
	var curves []curve
	x, y := nothing, nothing
	for _, s := range l.Series {
		look := st.look(clean(s.Name))
		c := curve{points: l.points(s), hue: st.hue(look), line: st.line(look), marker: st.marker(look)}
		for _, pt := range c.points {
			x.hold(pt.x)
			y.hold(pt.y - pt.err)
			y.hold(pt.y + pt.err)
		}
		curves = append(curves, c)
	}
	p.Y.Min, p.Y.Max = y.padded(0.06)
	switch {
	case l.LogX:
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = logTicks{p.X.Tick.Marker.(linearTicks)}
		room := max(math.Pow(x.hi/x.lo, 0.03), 1.05)
		p.X.Min, p.X.Max = x.lo/room, x.hi*room
	case l.Points:
		p.X.Min, p.X.Max = x.padded(0)
		room := 0.03 * (p.X.Max - p.X.Min) // markers at zero stay clear of the axis
		p.X.Min, p.X.Max = p.X.Min-room, p.X.Max+room
	default:
		p.X.Min, p.X.Max = x.padded(0)
	}
	p.Add(st.rules(), plotterFunc(func(c vgdraw.Canvas, p *plot.Plot) {
		for _, line := range curves {
			if !l.Points {
				line.drawBand(c, p)
			}
		}
		for _, line := range curves {
			line.draw(c, p, l.Points)
		}
	}))
	return p
}

// span is the least interval that holds values.
type span struct{ lo, hi float64 }

var nothing = span{math.Inf(1), math.Inf(-1)}

func (s *span) hold(v float64) { s.lo, s.hi = min(s.lo, v), max(s.hi, v) }

// padded returns the range of an axis: the span with a share of it to either
// side, and of some width even if the span has none. It does not cross zero, if
// the span does not.
func (s span) padded(share float64) (lo, hi float64) {
	room := share * (s.hi - s.lo)
	largest := max(math.Abs(s.lo), math.Abs(s.hi))
	switch {
	case largest < 1/huge:
		room = 1
	case s.hi-s.lo <= 1e-9*largest:
		room = 0.05 * largest
	}
	lo, hi = s.lo-room, s.hi+room
	if s.lo >= 0 {
		lo = max(lo, 0)
	}
	if s.hi <= 0 && s.lo < 0 {
		hi = min(hi, 0)
	}
	return lo, hi
}

// plotterFunc is data that draws itself on a plot's area.
type plotterFunc func(vgdraw.Canvas, *plot.Plot)

func (f plotterFunc) Plot(c vgdraw.Canvas, p *plot.Plot) { f(c, p) }

// curve is a series as it is drawn.
type curve struct {
	points []point
	hue    color.NRGBA
	line   vgdraw.LineStyle
	marker vgdraw.GlyphStyle
}

func (l curve) drawBand(c vgdraw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	outline := make([]vg.Point, 2*len(l.points))
	var widest float64
	for i, pt := range l.points {
		outline[i] = vg.Point{X: x(pt.x), Y: y(pt.y + pt.err)}
		outline[len(outline)-1-i] = vg.Point{X: x(pt.x), Y: y(pt.y - pt.err)}
		widest = max(widest, pt.err)
	}
	if widest > 0 {
		// Through it, other bands and the grid can be seen.
		c.FillPolygon(faded(l.hue, 48), outline)
	}
}

// draw draws the line; and the points with their errors, if marked. A line of one
// point could not be seen otherwise.
func (l curve) draw(c vgdraw.Canvas, p *plot.Plot, marked bool) {
	x, y := p.Transforms(&c)
	path := make([]vg.Point, len(l.points))
	for i, pt := range l.points {
		path[i] = vg.Point{X: x(pt.x), Y: y(pt.y)}
	}
	if len(path) > 1 {
		c.StrokeLines(l.line, path)
	}
	if !marked && len(path) > 1 {
		return
	}
	for i, pt := range l.points {
		if marked && pt.err > 0 {
			drawWhisker(c, vgdraw.LineStyle{Color: l.hue, Width: 0.9}, vg.Point{X: path[i].X, Y: y(pt.y - pt.err)}, vg.Point{X: path[i].X, Y: y(pt.y + pt.err)})
		}
		c.DrawGlyphNoClip(l.marker, path[i])
	}
}

// drawWhisker draws an error bar between two points above or beside each other.
func drawWhisker(c vgdraw.Canvas, line vgdraw.LineStyle, from, to vg.Point) {
	const reach = 2.5 // of the caps, in points
	across := vg.Point{X: reach}
	if from.Y == to.Y {
		across = vg.Point{Y: reach}
	}
	c.StrokeLines(line,
		[]vg.Point{from, to},
		[]vg.Point{from.Sub(across), from.Add(across)},
		[]vg.Point{to.Sub(across), to.Add(across)})
}
