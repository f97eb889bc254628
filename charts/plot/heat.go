package plot

import (
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Map is a matrix whose values are shown as colours.
type Map struct {
	Title   string
	XLabel  string   // what the columns are, numbered from 0
	Rows    []string // their names, the first on top
	Columns int
	// Names are those of the columns, to stand in place of their numbers; nil for numbers.
	Names  []string
	Values []float64 // rows × columns, row-major; values that are not finite are grey
	// Diverging is for values of either sign: colours go from blue for negative
	// values through the page's colour at zero to vermillion. Otherwise they go from
	// the page's colour at the smallest value to blue at the largest.
	Diverging bool
}

// Heat returns a picture of maps side by side, each with its scale of colours
// below.
func Heat(title string, maps ...Map) Picture {
	p := Picture{title: title, strip: 10, rows: make([][]panel, 2)}
	names := vg.Length(0) // their height; the rows of a picture share it
	for _, m := range maps {
		names = max(names, widest(m.Names))
		p.width = max(p.width, 30+widest(m.Rows)+m.columnsWidth())
		p.height = max(p.height, 40+min(max(60, vg.Length(len(m.Rows))*15), 600))
	}
	height := p.height
	p.height += names / 2
	for _, m := range maps {
		cells := func(st *style) (*plot.Plot, error) { return m.build(st, height) }
		p.rows[0] = append(p.rows[0], panel{m.Title, cells})
		p.rows[1] = append(p.rows[1], panel{"", m.scale})
	}
	return p
}

// columnsWidth is the width of all columns.
func (m Map) columnsWidth() vg.Length {
	cell := vg.Length(6)
	if m.Names != nil {
		cell = nameSlot
	}
	return min(max(240, vg.Length(m.Columns)*cell), 480)
}

// maxCells bounds a map: with more, a cell could no longer be seen.
const maxCells = 1 << 16

func (m Map) check() error {
	if len(m.Rows) == 0 || m.Columns < 1 || len(m.Rows) > maxCells/m.Columns {
		return fmt.Errorf("%d rows × %d columns: give at least one of each, and at most %d cells", len(m.Rows), m.Columns, maxCells)
	}
	if n := len(m.Rows) * m.Columns; len(m.Values) != n {
		return fmt.Errorf("%d values for %d rows × %d columns", len(m.Values), len(m.Rows), m.Columns)
	}
	if m.Names != nil && len(m.Names) != m.Columns {
		return fmt.Errorf("%d names of %d columns", len(m.Names), m.Columns)
	}
	for _, v := range m.Values {
		if drawable(v) {
			return nil
		}
	}
	return errors.New("none of the values can be drawn")
}

// bounds returns the values of the first and the last colour.
func (m Map) bounds() (lo, hi float64) {
	s := nothing
	for _, v := range m.Values {
		if drawable(v) {
			s.add(v)
		}
	}
	if m.Diverging {
		s.add(-s.lo)
		s.add(-s.hi)
	}
	return s.padded(0)
}

// palette is the colours from the smallest value to the largest. Their number is odd,
// so that there is one in the middle.
type palette [255]color.Color

func (p *palette) Colors() []color.Color { return p[:] }

// palette returns the colours in a style.
func (m Map) palette(st *style) *palette {
	var p palette
	for i := range p {
		at := float64(i) / float64(len(p)-1)
		switch {
		case !m.Diverging:
			p[i] = mix(st.page, st.hues[0], at)
		case at < 0.5:
			p[i] = mix(st.hues[0], st.page, 2*at)
		default:
			p[i] = mix(st.page, st.hues[1], 2*at-1)
		}
	}
	return &p
}

// grid implements [plotter.GridXYZ]. Row 0 is at the bottom.
type grid struct {
	columns, rows int
	x             func(column int) float64
	z             func(column, row int) float64
}

func (g grid) Dims() (columns, rows int) { return g.columns, g.rows }
func (g grid) X(column int) float64      { return g.x(column) }
func (g grid) Y(row int) float64         { return float64(row) }
func (g grid) Z(column, row int) float64 { return g.z(column, row) }

// heatMap returns the plotter of a grid in the colours of m.
func (g grid) heatMap(m Map, st *style) cells {
	lo, hi := m.bounds()
	return cells{&plotter.HeatMap{GridXYZ: g, Palette: m.palette(st), NaN: st.grid, Min: lo, Max: hi, Rasterized: true}}
}

// cells is a heat map that needs no room beyond the axes. gonum's asks for five
// points around every cell.
type cells struct{ *plotter.HeatMap }

func (cells) GlyphBoxes(*plot.Plot) []plot.GlyphBox { return nil }

func (m Map) build(st *style, height vg.Length) (*plot.Plot, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	p := st.newPlot(m.XLabel, "")
	p.Add(grid{
		columns: m.Columns, rows: len(m.Rows),
		x: func(column int) float64 { return float64(column) },
		z: func(column, row int) float64 {
			if v := m.Values[(len(m.Rows)-1-row)*m.Columns+column]; drawable(v) {
				return v
			}
			return math.NaN()
		},
	}.heatMap(m, st))
	p.X.Tick.Marker = plot.TickerFunc(wholeTicks)
	switch {
	case m.Names != nil:
		nameColumns(p, m.Names, m.columnsWidth())
	case m.Columns == 1:
		p.HideX()
	}
	nameRows(p, m.Rows, height-40)
	return p, nil
}

// scale shows which value has which colour.
func (m Map) scale(st *style) (*plot.Plot, error) {
	if m.check() != nil {
		return nil, nil // build reports the error
	}
	p := st.newPlot("", "")
	lo, hi := m.bounds()
	n := len(palette{})
	value := func(column int) float64 { return lo + (hi-lo)*float64(column)/float64(n-1) }
	p.Add(grid{columns: n, rows: 1, x: value, z: func(column, _ int) float64 { return value(column) }}.heatMap(m, st))
	p.HideY()
	return p, nil
}
