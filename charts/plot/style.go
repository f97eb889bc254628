package plot

import (
	"image/color"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Theme is the colours of page and text.
type Theme int

const (
	Light Theme = iota // dark on white, for documents
	Dark               // light on near-black, for a page that is so
)

// style is the look of a picture.
type style struct {
	page, text, axis, grid color.NRGBA
	hues                   [8]color.NRGBA
	names                  []string // what has a look of its own; the look is the index
}

// maxLooks is how many names can be told apart: every hue with every dash
// pattern.
const maxLooks = 32

// dashes are the lines' patterns, in points; each serves for all the hues before
// the next is taken.
var dashes = [maxLooks / 8][]vg.Length{nil, {5, 2.5}, {1.5, 2}, {7, 2, 1.5, 2}}

// markers are the shapes of marked points, taken in turn.
var markers = [...]vgdraw.GlyphDrawer{vgdraw.CircleGlyph{}, vgdraw.BoxGlyph{}, vgdraw.PyramidGlyph{}}

func newStyle(t Theme) *style {
	rgb := func(v uint32) color.NRGBA {
		return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 255}
	}
	// Blue, vermillion, green, purple, orange, sky blue; then what depends on the
	// page: Okabe and Ito's black is text on it, and their yellow, which white
	// would swallow, is grey there.
	st := &style{hues: [8]color.NRGBA{
		rgb(0x0072B2), rgb(0xD55E00), rgb(0x009E73), rgb(0xCC79A7), rgb(0xE69F00), rgb(0x56B4E9),
	}}
	if t == Dark {
		st.page, st.text, st.axis, st.grid = rgb(0x14181F), rgb(0xE8EAED), rgb(0x9AA0A6), rgb(0x333A45)
		st.hues[0] = rgb(0x2B9BDB) // their blue, lighter: 3:1 against the page is too little for a line
		st.hues[6], st.hues[7] = st.text, rgb(0xF0E442)
	} else {
		st.page, st.text, st.axis, st.grid = rgb(0xFFFFFF), rgb(0x1A1A1A), rgb(0x6B6B6B), rgb(0xDDDDDD)
		st.hues[6], st.hues[7] = rgb(0x000000), rgb(0x999999)
	}
	return st
}

// look is the number of a name's look.
func (st *style) look(name string) int { return slices.Index(st.names, name) }

func (st *style) hue(look int) color.NRGBA { return st.hues[look%len(st.hues)] }

func (st *style) line(look int) vgdraw.LineStyle {
	return vgdraw.LineStyle{Color: st.hue(look), Width: 1.5, Dashes: dashes[look/len(st.hues)%len(dashes)]}
}

func (st *style) marker(look int) vgdraw.GlyphStyle {
	return vgdraw.GlyphStyle{Color: st.hue(look), Radius: 2.6, Shape: markers[look%len(markers)]}
}

// faded is the colour with so much of what is under it shining through, alpha of
// 255 for nothing.
func faded(c color.NRGBA, alpha uint8) color.NRGBA {
	c.A = alpha
	return c
}

// Texts by size, in points.
var (
	titleText   = sans(14)
	headingText = sans(11.5)
	keyText     = sans(10)
	axisText    = sans(10)
	tickText    = sans(9)
)

func sans(size vg.Length) text.Style {
	return text.Style{
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: plot.DefaultTextHandler,
	}
}

// leading is the distance of lines of text, as a multiple of their size.
const leading = 1.3

// block is the height that lines of text take with the distance below.
func block(sty text.Style, lines []string) vg.Length {
	if len(lines) == 0 {
		return 0
	}
	return vg.Length(len(lines))*leading*sty.Font.Size + below
}

// write writes lines downwards from (x, y), the upper left corner, and returns
// the y below the block.
func (st *style) write(c vgdraw.Canvas, sty text.Style, x, y vg.Length, lines []string) vg.Length {
	for i, line := range lines {
		st.writeLine(c, sty, x, y-sty.Font.Size-vg.Length(i)*leading*sty.Font.Size, line)
	}
	return y - block(sty, lines)
}

// writeLine writes one line from x, with its baseline at y.
func (st *style) writeLine(c vgdraw.Canvas, sty text.Style, x, y vg.Length, line string) {
	sty.Color = st.text
	// The handler wants the place from which it counts an ascent down and a size up.
	c.FillText(sty, vg.Point{X: x, Y: y + sty.FontExtents().Ascent - sty.Font.Size}, line)
}

// maxText is the number of characters after which a text is cut.
const maxText = 160

// clean returns a text that can be drawn and stand in XML: what is not printable
// is a space, runs of spaces are one, and a text without end is cut.
func clean(s string) string {
	s = s[:min(len(s), 8*maxText)]
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxText {
		s = string(runes[:maxText-1]) + "…"
	}
	return s
}

// wrap breaks a clean text into lines no wider than width, at spaces where it can.
func wrap(sty text.Style, s string, width vg.Length) (lines []string) {
	for _, word := range strings.Fields(s) {
		if n := len(lines); n > 0 && sty.Width(lines[n-1]+" "+word) <= width {
			lines[n-1] += " " + word
			continue
		}
		letters := []rune(word)
		for len(letters) > 0 {
			n := len(letters)
			for n > 1 && sty.Width(string(letters[:n])) > width {
				n--
			}
			lines = append(lines, string(letters[:n]))
			letters = letters[n:]
		}
	}
	return lines
}

// axes returns a plot with labelled axes and nothing in it yet. The size is that
// of the area of the data, by which labels are broken and ticks counted. The
// caller sets the ranges.
func (st *style) axes(xLabel, yLabel string, width, height vg.Length) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the sheet's
	for _, a := range []struct {
		axis   *plot.Axis
		label  string
		length vg.Length
		ticks  int
	}{
		{&p.X, xLabel, width, int(width / 44)},
		{&p.Y, yLabel, height, int(height / 26)},
	} {
		a.axis.Label.Text = strings.Join(wrap(axisText, clean(a.label), a.length+20), "\n")
		a.axis.Label.TextStyle.Font, a.axis.Label.TextStyle.Color = axisText.Font, st.text
		a.axis.Label.Padding = 4
		a.axis.LineStyle = vgdraw.LineStyle{Color: st.axis, Width: 0.75}
		a.axis.Padding = 0
		a.axis.Tick.Label.Font, a.axis.Tick.Label.Color = tickText.Font, st.text
		a.axis.Tick.LineStyle = a.axis.LineStyle
		a.axis.Tick.Length = 4
		a.axis.Tick.Marker = linearTicks(min(max(a.ticks, 2), 8))
	}
	return p
}

// rules are the grid's lines, at the ticks.
func (st *style) rules() *plotter.Grid {
	line := vgdraw.LineStyle{Color: st.grid, Width: 0.5}
	return &plotter.Grid{Vertical: line, Horizontal: line}
}
