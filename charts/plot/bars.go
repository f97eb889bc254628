package plot

import (
	"errors"
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// System is one of the systems that [Bars] compares. Numbers that are not finite
// are not drawn.
type System struct {
	Name  string
	Value float64 // of the metric: the bar's length from zero
	Err   float64 // standard error of Value
	Paper float64 // the published figure, for a marker
}

// Bars returns a picture that compares systems by a metric, named with its unit: a
// horizontal bar for each, the first on top, with its error and the published
// figure.
func Bars(title, metric string, systems []System) Picture {
	var names []string
	for _, s := range systems {
		names = append(names, s.Name)
	}
	width := 340 + widest(names)
	height := 40 + max(60, barSlot*vg.Length(len(systems)))
	build := func(st *style) (*plot.Plot, error) {
		if err := checkSystems(systems); err != nil {
			return nil, err
		}
		p := st.newPlot(metric, "")
		nameRows(p, names, height)
		rules := st.rules()
		rules.Horizontal = vgdraw.LineStyle{}
		p.Add(rules)
		p.Add(compare(st, systems)...)
		values := nothing
		values.add(0)
		for _, s := range systems {
			if drawable(s.Value) {
				values.add(s.Value - s.err())
				values.add(s.Value + s.err())
			}
			if drawable(s.Paper) {
				values.add(s.Paper)
			}
		}
		p.X.Min, p.X.Max = values.padded(0.06)
		return p, nil
	}
	return Picture{title: title, width: width, height: height, rows: [][]panel{{{"", build}}}}
}

// barSlot is the height of a bar with the room around it.
const barSlot = 24

func checkSystems(systems []System) error {
	if len(systems) == 0 {
		return errors.New("no systems")
	}
	if len(systems) > maxBars {
		return fmt.Errorf("%d systems, at most %d", len(systems), maxBars)
	}
	var errs []error
	seen := make(map[string]bool)
	for _, s := range systems {
		name := clean(s.Name)
		if seen[name] {
			errs = append(errs, fmt.Errorf("two systems are named %q", name))
		}
		seen[name] = true
		if s.Err < 0 {
			errs = append(errs, fmt.Errorf("system %q: a standard error of %v", name, s.Err))
		}
		if !drawable(s.Value) && !drawable(s.Paper) {
			errs = append(errs, fmt.Errorf("system %q: neither its value nor the published one can be drawn", name))
		}
	}
	return errors.Join(errs...)
}

// err returns the standard error to draw, 0 for none.
func (s System) err() float64 {
	if !drawable(s.Err) {
		return 0
	}
	return s.Err
}

// compare returns bars, error bars and the markers of published figures. Markers are
// drawn a little above the error bars, since the marker of a figure that was
// reproduced would hide the error.
func compare(st *style, systems []System) []plot.Plotter {
	bars := &plotter.BarChart{
		Values: make(plotter.Values, len(systems)),
		Width:  0.7 * barSlot, Color: st.hues[0], Horizontal: true,
	}
	var errs plotter.XErrorBars
	var paper plotter.XYs
	for i, s := range systems {
		row := len(systems) - 1 - i
		if drawable(s.Value) {
			bars.Values[row] = s.Value
			if e := s.err(); e > 0 {
				errs.XYs = append(errs.XYs, plotter.XY{X: s.Value, Y: float64(row) - 0.15})
				errs.XErrors = append(errs.XErrors, struct{ Low, High float64 }{e, e})
			}
		}
		if drawable(s.Paper) {
			paper = append(paper, plotter.XY{X: s.Paper, Y: float64(row) + 0.15})
		}
	}
	// Error bars have a halo and markers are filled, so that both can be seen on a bar.
	errs.CapWidth = capWidth
	halo := errs
	errs.LineStyle = vgdraw.LineStyle{Color: st.text, Width: 0.9}
	halo.LineStyle = vgdraw.LineStyle{Color: st.page, Width: 2.2}
	fill := &plotter.Scatter{XYs: paper, GlyphStyle: vgdraw.GlyphStyle{Color: st.page, Radius: 3, Shape: vgdraw.CircleGlyph{}}}
	ring := &plotter.Scatter{XYs: paper, GlyphStyle: vgdraw.GlyphStyle{Color: st.text, Radius: 3, Shape: vgdraw.RingGlyph{}}}
	if len(paper) > 0 {
		st.list("paper", fill, ring)
	}
	return []plot.Plotter{bars, fill, ring, &halo, &errs}
}
