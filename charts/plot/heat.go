package plot

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Map is a matrix that is shown by colours.
type Map struct {
	Title   string
	XLabel  string   // what the columns are, which are counted from 0
	Rows    []string // their names, the first on top
	Columns int
	Values  []float64 // rows × columns; what is not finite has no colour
	// Around has zero be the middle of the colours, for values of either sign.
	// Without it they go from the least value to the largest.
	Around bool
}

// Heat is maps side by side.
func Heat(title string, maps ...Map) Picture {
	p := Picture{title: title}
	for _, m := range maps {
		p.parts = append(p.parts, heat(m))
	}
	return p
}

// heat is a Map as part of a picture.
type heat Map

// maxCells bounds a map: beyond it a cell is no longer seen.
const maxCells = 1 << 16

func (h heat) check() error {
	if len(h.Rows) == 0 || h.Columns < 1 || len(h.Rows) > maxCells/h.Columns {
		return fmt.Errorf("%d rows × %d columns: there is one at least of either, and of both %d at most", len(h.Rows), h.Columns, maxCells)
	}
	if n := len(h.Rows) * h.Columns; len(h.Values) != n {
		return fmt.Errorf("%d values for %d rows × %d columns", len(h.Values), len(h.Rows), h.Columns)
	}
	if lo, hi := h.bounds(); lo > hi {
		return errors.New("none of the values can be drawn")
	}
	return nil
}

// bounds are the values at the ends of the colours.
func (h heat) bounds() (lo, hi float64) {
	s := nothing
	for _, v := range h.Values {
		if drawable(v) {
			s.hold(v)
		}
	}
	if h.Around && s.lo <= s.hi {
		most := max(math.Abs(s.lo), math.Abs(s.hi))
		return -most, most
	}
	return s.lo, s.hi
}

func (h heat) heading() string { return clean(h.Title) }

func (h heat) names() []string { return nil }

func (h heat) keys(st *style) (keys []key) {
	lo, hi := h.bounds()
	for _, v := range []float64{lo, (lo + hi) / 2, hi} {
		c := st.shade(h.Around, share(v, lo, hi))
		keys = append(keys, key{strconv.FormatFloat(v, 'g', 3, 64), func(at vgdraw.Canvas) {
			drawBox(at, c, st.axis, at.Min, at.Max)
		}})
	}
	return keys
}

// share is where v lies between lo and hi, from 0 to 1.
func share(v, lo, hi float64) float64 {
	if hi <= lo {
		return 0.5
	}
	return (v - lo) / (hi - lo)
}

// shade is the colour of a share. Around zero: blue, the page, vermillion, which
// colour-blind readers can tell apart; else from the page to blue.
func (st *style) shade(around bool, at float64) color.NRGBA {
	from, to := st.page, st.hues[0]
	if around {
		if at < 0.5 {
			from, to, at = st.hues[0], st.page, 2*at
		} else {
			from, to, at = st.page, st.hues[1], 2*at-1
		}
	}
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + at*(float64(b)-float64(a)))) }
	return color.NRGBA{R: mix(from.R, to.R), G: mix(from.G, to.G), B: mix(from.B, to.B), A: 255}
}

func (h heat) extent() (width, height vg.Length) {
	return min(max(240, vg.Length(h.Columns)*6), 480), min(max(60, vg.Length(len(h.Rows))*15), 600)
}

func (h heat) plot(st *style) *plot.Plot {
	width, height := h.extent()
	p := st.axes(h.XLabel, "", width, height)
	p.X.Min, p.X.Max = -0.5, float64(h.Columns)-0.5
	p.Y.Min, p.Y.Max = -0.5, float64(len(h.Rows))-0.5
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.Y.Tick.LineStyle.Color = color.Transparent
	every := max(1, int(math.Ceil(float64(vg.Length(len(h.Rows))*11/height)))) // so that names do not meet
	names := make(categories, len(h.Rows))
	for i := range names {
		if i%every == 0 {
			names[i] = shortened(clean(h.Rows[i]))
		}
	}
	p.Y.Tick.Marker = names
	p.Add(plotterFunc(func(c vgdraw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		left, right, top, bottom := x(p.X.Min), x(p.X.Max), y(p.Y.Min), y(p.Y.Max)
		c.DrawImage(vg.Rectangle{Min: vg.Point{X: left, Y: min(top, bottom)}, Max: vg.Point{X: right, Y: max(top, bottom)}}, h.image(st))
	}))
	return p
}

// maxName is the number of characters after which a row's name is cut.
const maxName = 24

func shortened(name string) string {
	if runes := []rune(name); len(runes) > maxName {
		return string(runes[:maxName-1]) + "…"
	}
	return name
}

// image has so many pixels a cell that viewers who smooth them do no harm.
func (h heat) image(st *style) image.Image {
	rows := len(h.Rows)
	cell := min(max(1, 1024/max(rows, h.Columns)), 16)
	img := image.NewNRGBA(image.Rect(0, 0, h.Columns*cell, rows*cell))
	lo, hi := h.bounds()
	for i, v := range h.Values {
		c := st.grid
		if drawable(v) {
			c = st.shade(h.Around, share(v, lo, hi))
		}
		row, column := i/h.Columns, i%h.Columns
		for py := range cell {
			for px := range cell {
				img.SetNRGBA(column*cell+px, row*cell+py, c)
			}
		}
	}
	return img
}
