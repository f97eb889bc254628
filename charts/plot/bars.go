package plot

import (
	"errors"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// System is one of the systems that [Bars] compares.
type System struct {
	Name string
	// Value is the metric by group: bars from zero. What is not finite has no bar.
	Value []float64
	// Err is nil, or a standard error for each value, in its unit.
	Err []float64
	// Paper is nil, or the published figure for each value, in its unit, for a
	// marker; NaN for none.
	Paper []float64
}

// Bars compares systems by a metric, named with its unit, in groups such as data
// sets. A picture of one group has lying bars with the systems' names beside
// them, so that there may be many.
func Bars(title, metric string, groups []string, systems []System) Picture {
	return Picture{title: title, parts: []part{bars{metric, groups, systems}}}
}

type bars struct {
	metric  string
	groups  []string
	systems []System
}

// published names the marker in the legend.
const published = "paper"

func (b bars) check() error {
	switch groups, systems := len(b.groups), len(b.systems); {
	case groups == 0:
		return errors.New("no groups")
	case systems == 0:
		return errors.New("no systems")
	case systems > maxSlots || groups > maxSlots/systems:
		return fmt.Errorf("%d groups of %d systems, at most %d bars", groups, systems, maxSlots)
	}
	var errs []error
	seen := make(map[string]bool)
	for _, s := range b.systems {
		name := clean(s.Name)
		if seen[name] {
			errs = append(errs, fmt.Errorf("two systems are named %q", name))
		}
		seen[name] = true
		if err := b.checkSystem(s); err != nil {
			errs = append(errs, fmt.Errorf("system %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (b bars) checkSystem(s System) error {
	if len(s.Value) != len(b.groups) {
		return fmt.Errorf("%d values for %d groups", len(s.Value), len(b.groups))
	}
	if s.Paper != nil && len(s.Paper) != len(b.groups) {
		return fmt.Errorf("%d published figures for %d groups", len(s.Paper), len(b.groups))
	}
	if err := checkErr(s.Err, len(s.Value)); err != nil {
		return err
	}
	for g := range s.Value {
		if drawable(s.Value[g]) || s.paper(g) {
			return nil
		}
	}
	return fmt.Errorf("none of %d values can be drawn", len(s.Value))
}

// paper reports whether there is a published figure of the group.
func (s System) paper(group int) bool { return s.Paper != nil && drawable(s.Paper[group]) }

// lying reports whether the bars lie, the first on top.
func (b bars) lying() bool { return len(b.groups) == 1 }

func (b bars) heading() string {
	if b.lying() {
		return clean(b.groups[0])
	}
	return ""
}

func (b bars) names() (names []string) {
	for _, s := range b.systems {
		names = append(names, clean(s.Name))
	}
	return names
}

func (b bars) keys(st *style) (keys []key) {
	if !b.lying() {
		for _, name := range b.names() {
			look := st.look(name)
			keys = append(keys, key{name, func(c vgdraw.Canvas) {
				st.drawBar(c, look, c.Min, c.Max)
			}})
		}
	}
	for _, s := range b.systems {
		for g := range b.groups {
			if s.paper(g) {
				return append(keys, key{published, func(c vgdraw.Canvas) { st.drawPublished(c, c.Center()) }})
			}
		}
	}
	return keys
}

// slot is the width of a group: its bars and the room between groups.
func (b bars) slot() (width vg.Length) {
	width = vg.Length(len(b.systems))*15 + 20
	for _, g := range b.groups {
		width = max(width, tickText.Width(clean(g))+12)
	}
	return width
}

func (b bars) extent() (width, height vg.Length) {
	if b.lying() {
		return 320, max(60, vg.Length(len(b.systems))*24)
	}
	return max(270, vg.Length(len(b.groups))*b.slot()), 190
}

func (b bars) plot(st *style) *plot.Plot {
	width, height := b.extent()
	values := nothing
	values.hold(0)
	for _, s := range b.systems {
		for g, v := range s.Value {
			if s.paper(g) {
				values.hold(s.Paper[g])
			}
			if drawable(v) {
				e := s.err(g)
				values.hold(v - e)
				values.hold(v + e)
			}
		}
	}

	var p *plot.Plot
	var of, across *plot.Axis // of the values, and of what has them
	var names []string
	if b.lying() {
		p = st.axes(b.metric, "", width, height)
		of, across = &p.X, &p.Y
		across.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
		names = b.names()
	} else {
		p = st.axes("", b.metric, width, height)
		of, across = &p.Y, &p.X
		for _, g := range b.groups {
			names = append(names, clean(g))
		}
	}
	of.Min, of.Max = values.padded(0.06)
	across.Min, across.Max = -0.5, float64(len(names))-0.5
	across.Tick.LineStyle.Color = color.Transparent
	across.Tick.Marker = categories(names)
	rules := st.rules()
	if b.lying() {
		rules.Horizontal = vgdraw.LineStyle{}
	} else {
		rules.Vertical = vgdraw.LineStyle{}
	}
	p.Add(rules, plotterFunc(func(c vgdraw.Canvas, p *plot.Plot) { b.draw(st, c, p) }))
	return p
}

func (s System) err(group int) float64 {
	if s.Err == nil || !drawable(s.Err[group]) {
		return 0
	}
	return s.Err[group]
}

// categories are names at 0, 1, 2 and so on, instead of numbers.
type categories []string

func (names categories) Ticks(float64, float64) (ticks []plot.Tick) {
	for i, name := range names {
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: name})
	}
	return ticks
}

func (b bars) draw(st *style, c vgdraw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	at := func(place, value float64) vg.Point { return vg.Point{X: x(place), Y: y(value)} }
	share := 0.8 / float64(len(b.systems)) // of the group's slot
	if b.lying() {
		at = func(place, value float64) vg.Point { return vg.Point{X: x(value), Y: y(place)} }
		share = 0.72
	}
	for g := range b.groups {
		for i, s := range b.systems {
			middle := float64(i)
			if !b.lying() {
				middle = float64(g) + (float64(i)-float64(len(b.systems)-1)/2)*share
			}
			half := 0.46 * share
			// The marker and the error bar share the bar's width: a figure that was
			// met would hide the error otherwise.
			published, spread := middle, middle
			if s.paper(g) {
				published, spread = middle-0.4*half, middle+0.5*half
			}
			if v := s.Value[g]; drawable(v) {
				st.drawBar(c, st.look(clean(s.Name)), at(middle-half, 0), at(middle+half, v))
			}
			if s.paper(g) {
				st.drawPublished(c, at(published, s.Paper[g]))
			}
			if v, e := s.Value[g], s.err(g); drawable(v) && e > 0 {
				// The halo is for black bars.
				for _, line := range []vgdraw.LineStyle{{Color: st.page, Width: 2.2}, {Color: st.text, Width: 0.9}} {
					drawWhisker(c, line, at(spread, v-e), at(spread, v+e))
				}
			}
		}
	}
}

// drawBar draws a bar between two opposite corners. After the hues come their
// pale sisters, and so on.
func (st *style) drawBar(c vgdraw.Canvas, look int, from, to vg.Point) {
	alphas := [maxLooks / 8]uint8{255, 110, 50, 0}
	drawBox(c, faded(st.hue(look), alphas[look/len(st.hues)%len(alphas)]), st.hue(look), from, to)
}

// drawBox draws a rectangle between two opposite corners.
func drawBox(c vgdraw.Canvas, fill, edge color.NRGBA, from, to vg.Point) {
	corners := []vg.Point{from, {X: to.X, Y: from.Y}, to, {X: from.X, Y: to.Y}}
	c.FillPolygon(fill, corners)
	// The edge keeps a box without area in sight.
	c.StrokeLines(vgdraw.LineStyle{Color: edge, Width: 0.75}, append(corners, from))
}

// drawPublished draws the marker of a published figure: a diamond that can be
// seen on any bar.
func (st *style) drawPublished(c vgdraw.Canvas, at vg.Point) {
	const radius = 3.2
	corners := []vg.Point{
		{X: at.X - radius, Y: at.Y},
		{X: at.X, Y: at.Y + radius},
		{X: at.X + radius, Y: at.Y},
		{X: at.X, Y: at.Y - radius},
	}
	c.FillPolygon(st.page, corners)
	c.StrokeLines(vgdraw.LineStyle{Color: st.text, Width: 1}, append(corners, corners[0], corners[1]))
}
