package plot

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Theme is the choice of colours for page and text.
type Theme int

const (
	Light Theme = iota // dark text on white, for documents
	Dark               // light text on near-black, for a dark web page
)

// style is the look of one picture while it is built: the theme's colours, the
// names that have been given a colour, and the legend.
type style struct {
	page, text, axis, grid color.NRGBA
	hues                   [8]color.NRGBA
	names                  []string // names[i] has look i
	legend                 plot.Legend
	listed                 []string // names in the legend
}

// maxLooks is the number of names that can be told apart: each hue with each dash
// pattern.
const maxLooks = 32

// dashes are the patterns of lines, in points. All hues are used with one pattern
// before the next.
var dashes = [maxLooks / 8][]vg.Length{nil, {5, 2.5}, {1.5, 2}, {7, 2, 1.5, 2}}

// markers are the shapes of marked points, by look in turn.
var markers = [...]vgdraw.GlyphDrawer{vgdraw.CircleGlyph{}, vgdraw.BoxGlyph{}, vgdraw.PyramidGlyph{}}

// Text styles by size, in points.
var (
	titleText   = sans(14)
	headingText = sans(11.5)
	labelText   = sans(10)
	tickText    = sans(9)
)

func sans(size vg.Length) text.Style {
	return text.Style{
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: plot.DefaultTextHandler,
	}
}

func newStyle(t Theme) *style {
	rgb := func(v uint32) color.NRGBA {
		return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
	}
	// Okabe and Ito's blue, vermillion, green, purple, orange and sky blue. Their
	// other two depend on the theme: black becomes the colour of text, and on white,
	// where yellow cannot be seen, yellow becomes grey.
	st := &style{hues: [8]color.NRGBA{
		rgb(0x0072B2), rgb(0xD55E00), rgb(0x009E73), rgb(0xCC79A7), rgb(0xE69F00), rgb(0x56B4E9),
	}}
	if t == Dark {
		st.page, st.text, st.axis, st.grid = rgb(0x14181F), rgb(0xE8EAED), rgb(0x9AA0A6), rgb(0x333A45)
		st.hues[0] = rgb(0x2B9BDB) // lighter than theirs, whose contrast of 3:1 to the page is too low for a line
		st.hues[6], st.hues[7] = st.text, rgb(0xF0E442)
	} else {
		st.page, st.text, st.axis, st.grid = rgb(0xFFFFFF), rgb(0x1A1A1A), rgb(0x6B6B6B), rgb(0xDDDDDD)
		st.hues[6], st.hues[7] = rgb(0x000000), rgb(0x999999)
	}
	st.legend = plot.NewLegend()
	st.legend.Top, st.legend.Left = true, true
	st.legend.Padding = 5
	st.legend.TextStyle = st.colored(labelText)
	return st
}

// colored returns a text style in the theme's colour.
func (st *style) colored(sty text.Style) text.Style {
	sty.Color = st.text
	return sty
}

// look returns the index of a name's hue, dash pattern and marker. The first name
// asked for has look 0.
func (st *style) look(name string) int {
	i := slices.Index(st.names, name)
	if i < 0 {
		i = len(st.names)
		st.names = append(st.names, name)
	}
	return i
}

func (st *style) hue(look int) color.NRGBA { return st.hues[look%len(st.hues)] }

func (st *style) line(look int) vgdraw.LineStyle {
	return vgdraw.LineStyle{Color: st.hue(look), Width: 1.5, Dashes: dashes[look/len(st.hues)%len(dashes)]}
}

func (st *style) marker(look int) vgdraw.GlyphStyle {
	return vgdraw.GlyphStyle{Color: st.hue(look), Radius: 2.6, Shape: markers[look%len(markers)]}
}

// faded returns c with the given opacity, 255 for opaque.
func faded(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}

// mix returns the opaque colour at a share of the way from a to b.
func mix(a, b color.NRGBA, share float64) color.NRGBA {
	at := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + share*(float64(b)-float64(a)))) }
	return color.NRGBA{R: at(a.R, b.R), G: at(a.G, b.G), B: at(a.B, b.B), A: 255}
}

// list adds an entry to the legend, unless the name is empty or listed already.
func (st *style) list(name string, samples ...plot.Thumbnailer) {
	if name == "" || slices.Contains(st.listed, name) {
		return
	}
	st.listed = append(st.listed, name)
	st.legend.Add(fit(labelText, name, maxLabel), samples...)
}

// maxLabel is the widest that a name in the legend or beside an axis may be.
const maxLabel vg.Length = 150

// newPlot returns a plot with labelled axes and no data yet. [Picture.sheet] shortens
// labels that do not fit the panel.
func (st *style) newPlot(xLabel, yLabel string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the picture's
	p.X.Label.Text, p.Y.Label.Text = clean(xLabel), clean(yLabel)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = labelText.Font
		a.Label.Padding = 4
		a.LineStyle = vgdraw.LineStyle{Color: st.axis, Width: 0.75}
		a.Padding = 0
		a.Tick.Label.Font, a.Tick.Label.Color = tickText.Font, st.text
		a.Tick.LineStyle = a.LineStyle
		a.Tick.Length = 4
		a.Tick.Marker = plot.TickerFunc(roundTicks)
	}
	return p
}

// rules returns the lines at the ticks of both axes.
func (st *style) rules() *plotter.Grid {
	line := vgdraw.LineStyle{Color: st.grid, Width: 0.5}
	return &plotter.Grid{Vertical: line, Horizontal: line}
}

// nameSlot is the room that the name of a row or a column needs, across its text.
const nameSlot = 11

// nameRows labels the y axis with names, the first on top: row i of n is at n-1-i. If the
// height is too small for all names, every second or third, and so on, is shown.
func nameRows(p *plot.Plot, names []string, height vg.Length) {
	n := len(names)
	nameTicks(&p.Y, names, height, func(i int) int { return n - 1 - i })
}

// nameColumns labels the x axis with names from bottom to top, likewise: column i is at i.
func nameColumns(p *plot.Plot, names []string, width vg.Length) {
	nameTicks(&p.X, names, width, func(i int) int { return i })
	p.X.Tick.Label.Rotation = math.Pi / 2
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = vgdraw.XRight, vgdraw.YCenter
}

// nameTicks labels an axis of the given length with names, name i at the place at(i).
func nameTicks(a *plot.Axis, names []string, length vg.Length, at func(i int) int) {
	n := len(names)
	every := max(1, int(math.Ceil(float64(vg.Length(n)*nameSlot/length))))
	var ticks plot.ConstantTicks
	for i := 0; i < n; i += every {
		ticks = append(ticks, plot.Tick{Value: float64(at(i)), Label: rowName(names[i])})
	}
	a.Tick.Marker = ticks
	a.Tick.Color = color.Transparent // their length separates the names from the axis
	a.Min, a.Max = -0.5, float64(n)-0.5
}

func rowName(name string) string { return fit(tickText, clean(name), maxLabel) }

// widest returns the width of the widest row name.
func widest(names []string) (width vg.Length) {
	for _, name := range names {
		width = max(width, tickText.Width(rowName(name)))
	}
	return width
}
