package plot

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Distances of the layout, in points.
const (
	margin = 14 // around the picture
	gap    = 22 // between panels
	below  = 8  // under titles and legends
)

// sheet is a picture of which every part has its place. Sizes are worked out from
// the areas of the data outwards, so that those of a row or a column are of one
// size and in line, whatever stands at their axes.
type sheet struct {
	st            *style
	width, height vg.Length
	title         []string
	legend        legend // of all panels; empty where they have their own
	cells         []cell
	columns       []column
	rows          []row
}

// cell is a panel with its axes and what stands above it.
type cell struct {
	plot   *plot.Plot
	title  []string
	legend legend
}

// column and row are sizes shared by their cells.
type (
	column struct{ left, data, right, width vg.Length }
	row    struct{ head, top, data, bottom vg.Length }
)

func newSheet(st *style, title string, columns int, parts []part) *sheet {
	s := &sheet{
		st:      st,
		cells:   make([]cell, len(parts)),
		columns: make([]column, columns),
		rows:    make([]row, (len(parts)+columns-1)/columns),
	}
	for i, p := range parts {
		s.cells[i].plot = p.plot(st)
		width, height := p.extent()
		m := margins(s.cells[i].plot, width, height)
		c, r := &s.columns[i%columns], &s.rows[i/columns]
		c.left, c.data, c.right = max(c.left, m.left), max(c.data, width), max(c.right, m.right)
		r.top, r.data, r.bottom = max(r.top, m.top), max(r.data, height), max(r.bottom, m.bottom)
	}

	keys, shared := sharedKeys(st, parts)
	for i, p := range parts {
		c := &s.columns[i%columns]
		c.width = max(c.width, c.left+c.data+c.right)
		if !shared {
			c.width = max(c.width, widestKey(p.keys(st)))
		}
	}
	inner := vg.Length(columns-1) * gap
	for _, c := range s.columns {
		inner += c.width
	}
	inner = max(inner, widestKey(keys))

	s.title = wrap(titleText, title, inner)
	s.legend = flow(keys, inner)
	s.height = 2*margin + block(titleText, s.title) + s.legend.height() + vg.Length(len(s.rows)-1)*gap
	for i, p := range parts {
		cell, c, r := &s.cells[i], s.columns[i%columns], &s.rows[i/columns]
		cell.title = wrap(headingText, clean(p.heading()), c.width)
		if !shared {
			cell.legend = flow(p.keys(st), c.width)
		}
		r.head = max(r.head, block(headingText, cell.title)+cell.legend.height())
	}
	for _, r := range s.rows {
		s.height += r.head + r.top + r.data + r.bottom
	}
	s.width = vg.Length(math.Ceil(float64(inner + 2*margin)))
	s.height = vg.Length(math.Ceil(float64(s.height)))
	return s
}

// sharedKeys returns the one legend of panels whose legends are the same, if they
// are.
func sharedKeys(st *style, parts []part) (keys []key, shared bool) {
	for _, p := range parts {
		own := p.keys(st)
		switch {
		case own == nil:
		case keys == nil:
			keys = own
		case !slices.EqualFunc(keys, own, func(a, b key) bool { return a.name == b.name }):
			return nil, false
		}
	}
	return keys, true
}

// edges are the distances from a plot's outline to the area of its data.
type edges struct{ left, right, bottom, top vg.Length }

// margins measures the room that the axes and their texts take around an area of
// data. How far a tick's label hangs over depends on the area's size: the second
// round measures with what the first found.
func margins(p *plot.Plot, width, height vg.Length) (m edges) {
	for range 2 {
		var outline vgdraw.Canvas
		outline.Max = vg.Point{X: m.left + width + m.right, Y: m.bottom + height + m.top}
		data := p.DataCanvas(outline)
		m = edges{
			left: data.Min.X, right: outline.Max.X - data.Max.X,
			bottom: data.Min.Y, top: outline.Max.Y - data.Max.Y,
		}
	}
	return m
}

func (s *sheet) draw(c vgdraw.Canvas) {
	c.SetColor(s.st.page)
	c.Fill(c.Rectangle.Path())

	y := s.height - margin
	y = s.st.write(c, titleText, margin, y, s.title)
	y = s.legend.draw(s.st, c, margin, y)
	for i, r := range s.rows {
		x := vg.Length(margin)
		for j, col := range s.columns {
			if at := i*len(s.columns) + j; at < len(s.cells) {
				s.drawCell(c, s.cells[at], x, y, col, r)
			}
			x += col.width + gap
		}
		y -= r.head + r.top + r.data + r.bottom + gap
	}
}

// drawCell draws a cell whose upper left corner is (x, y).
func (s *sheet) drawCell(c vgdraw.Canvas, cell cell, x, y vg.Length, col column, r row) {
	head := s.st.write(c, headingText, x, y, cell.title)
	cell.legend.draw(s.st, c, x, head)

	m := margins(cell.plot, col.data, r.data)
	data := vg.Point{X: x + col.left, Y: y - r.head - r.top - r.data}
	c.Rectangle = vg.Rectangle{
		Min: vg.Point{X: data.X - m.left, Y: data.Y - m.bottom},
		Max: vg.Point{X: data.X + col.data + m.right, Y: data.Y + r.data + m.top},
	}
	cell.plot.Draw(c)
}
