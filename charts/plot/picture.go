package plot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Limits of a picture: beyond them it could not be read, and a PNG would take
// memory without bound.
const (
	maxPanels = 32
	maxBars   = 600
)

// dpi is the resolution of PNGs: two pixels for each point.
const dpi = 144

// Picture is a grid of panels under one title, with one legend. The functions
// named after what they show make one; it keeps the slices it is given. The zero
// Picture is invalid.
type Picture struct {
	// Theme is the colours of page and text, Light by default.
	Theme Theme
	// Stacked puts the panels that are side by side below each other, for a narrow
	// screen.
	Stacked bool

	title         string
	width, height vg.Length // of a panel with its axes
	rows          [][]panel // all of one length
	strip         vg.Length // the height of the last row's data; 0 for that of the others
}

// panel is one diagram of a picture.
type panel struct {
	title string // above it; only panels of the first row have one
	// build checks the values and returns their plot. It adds what needs explaining
	// to the legend of the style.
	build func(*style) (*plot.Plot, error)
}

// SVG renders the picture as an SVG document. Text stays text, in Liberation Sans
// or a font of the same widths. The error lists everything that is wrong with the
// values.
func (p Picture) SVG() ([]byte, error) {
	s, err := p.sheet()
	if err != nil {
		return nil, err
	}
	c := vgsvg.New(s.width, s.height)
	s.draw(vgdraw.New(c))
	svg, err := encode(c)
	if err != nil {
		return nil, err
	}
	// Let viewers stretch the image of a heat map to its axes without smoothing. In
	// text, < and " are escaped, so only elements and attributes match.
	svg = bytes.ReplaceAll(svg, []byte("<image "), []byte(`<image preserveAspectRatio="none" style="image-rendering:pixelated" `))
	return bytes.ReplaceAll(svg, []byte(`style="font-family:Liberation Sans;`),
		[]byte(`style="font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif;`)), nil
}

// PNG renders the picture as a PNG, with two pixels for each point of the SVG's
// size. It fails as SVG does.
func (p Picture) PNG() ([]byte, error) {
	s, err := p.sheet()
	if err != nil {
		return nil, err
	}
	c := vgimg.NewWith(vgimg.UseWH(s.width, s.height), vgimg.UseDPI(dpi))
	s.draw(vgdraw.New(c))
	return encode(vgimg.PngCanvas{Canvas: c})
}

func encode(c io.WriterTo) ([]byte, error) {
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("plot: %w", err)
	}
	return out.Bytes(), nil
}

// build returns the plots of all panels, and their common style.
func (p Picture) build() (*style, [][]*plot.Plot, error) {
	if p.Theme != Light && p.Theme != Dark {
		return nil, nil, fmt.Errorf("plot: theme %d is neither Light nor Dark", p.Theme)
	}
	if len(p.rows) == 0 || len(p.rows[0]) == 0 {
		return nil, nil, errors.New("plot: a picture without panels")
	}
	if n := len(p.rows[0]); n > maxPanels {
		return nil, nil, fmt.Errorf("plot: %d panels side by side, at most %d", n, maxPanels)
	}
	st := newStyle(p.Theme)
	var errs []error
	plots := make([][]*plot.Plot, len(p.rows))
	for i, row := range p.rows {
		for j, panel := range row {
			built, err := panel.build(st)
			if err != nil {
				errs = append(errs, fmt.Errorf("plot: panel %d %q: %w", j, clean(panel.title), err))
			}
			plots[i] = append(plots[i], built)
		}
	}
	if n := len(st.names); n > maxLooks {
		errs = append(errs, fmt.Errorf("plot: %d names in a picture, at most %d can be told apart", n, maxLooks))
	}
	return st, plots, errors.Join(errs...)
}

// Distances of the layout, in points.
const (
	margin = 14 // around the picture
	gap    = 18 // between panels, and to the legend
)

// sheet is a picture laid out: its plots and texts with their places. The origin is the
// upper left corner, so that all y are negative.
type sheet struct {
	st            *style
	width, height vg.Length
	title         string
	titles        []string    // of the panels of the first row
	titlesAt      []vg.Length // their y
	plots         [][]*plot.Plot
	labels        [][]axisLabels    // of the plots
	canvases      [][]vgdraw.Canvas // where each plot is drawn; they have no backend
	legend        vg.Rectangle
}

// sheet builds the panels and lays them out.
func (p Picture) sheet() (*sheet, error) {
	st, plots, err := p.build()
	if err != nil {
		return nil, err
	}
	s := &sheet{st: st, plots: plots, labels: takeLabels(plots), canvases: make([][]vgdraw.Canvas, len(plots))}
	groups := p.groups()
	columns := vg.Length(groups[0].end - groups[0].begin)
	width := columns*p.panelWidth() + (columns-1)*gap
	s.title = fit(titleText, clean(p.title), width)
	bottom := vg.Length(margin)
	if s.title != "" {
		bottom += titleText.Height("X") + 12
	}
	top := bottom
	heading := vg.Length(0)
	for _, panel := range p.rows[0] {
		s.titles = append(s.titles, clean(panel.title))
		if panel.title != "" {
			heading = headingText.Height("X") + 6
		}
	}
	for k, g := range groups {
		if k > 0 {
			bottom += gap
		}
		for range g.end - g.begin {
			s.titlesAt = append(s.titlesAt, -bottom)
		}
		bottom += heading
		bottom += s.place(g, p.strip, vg.Rectangle{
			Min: vg.Point{X: margin, Y: -bottom - vg.Length(len(plots))*(p.height+gap) + gap},
			Max: vg.Point{X: margin + width, Y: -bottom},
		})
	}
	s.fitLabels()
	if len(st.listed) > 0 {
		size := st.legend.Rectangle(vgdraw.Canvas{}).Size()
		at := vg.Point{X: margin + width + gap, Y: -top - heading}
		if p.Stacked {
			at = vg.Point{X: margin, Y: -bottom - gap}
			width = max(width, size.X)
		} else {
			width += gap + size.X
		}
		s.legend = vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - size.Y}, Max: vg.Point{X: at.X + size.X, Y: at.Y}}
		bottom = max(bottom, size.Y-at.Y)
	}
	s.width = vg.Length(math.Ceil(float64(width + 2*margin)))
	s.height = vg.Length(math.Ceil(float64(bottom + margin)))
	return s, nil
}

// group is the columns from begin to before end, which are side by side.
type group struct{ begin, end int }

// groups returns the columns by the height at which they are, from the top on: all
// together, or each for itself if the picture is stacked.
func (p Picture) groups() (list []group) {
	n := len(p.rows[0])
	if !p.Stacked {
		return []group{{0, n}}
	}
	for j := range n {
		list = append(list, group{j, j + 1})
	}
	return list
}

// stackedWidth is the most that a panel of a stacked picture is wide, so that its text
// can be read on a screen of 400 pixels.
const stackedWidth = 340

func (p Picture) panelWidth() vg.Length {
	if p.Stacked {
		return min(p.width, stackedWidth)
	}
	return p.width
}

// place places the plots of a group within a rectangle, the last row with data of the
// height strip unless that is 0. It returns the height that they take from its top.
func (s *sheet) place(g group, strip vg.Length, within vg.Rectangle) vg.Length {
	var plots [][]*plot.Plot
	for _, row := range s.plots {
		plots = append(plots, row[g.begin:g.end])
	}
	height := within.Size().Y
	canvases := plot.Align(plots, vgdraw.Tiles{Rows: len(plots), Cols: g.end - g.begin, PadX: gap, PadY: gap}, vgdraw.Canvas{Rectangle: within})
	if strip > 0 {
		last := len(plots) - 1
		cut := plots[last][0].DataCanvas(canvases[last][0]).Size().Y - strip
		for j, c := range canvases[last] {
			canvases[last][j] = vgdraw.Crop(c, 0, 0, cut, 0)
		}
		height -= cut
	}
	for i := range canvases {
		s.canvases[i] = append(s.canvases[i], canvases[i]...)
	}
	return height
}

// axisLabels are the labels of a plot's axes.
type axisLabels struct{ x, y string }

// takeLabels moves the axis labels out of the plots, since gonum shrinks the data to
// make room for a long label. A space in its place reserves the height of a line.
func takeLabels(plots [][]*plot.Plot) [][]axisLabels {
	labels := make([][]axisLabels, len(plots))
	for i, row := range plots {
		for _, p := range row {
			labels[i] = append(labels[i], axisLabels{p.X.Label.Text, p.Y.Label.Text})
			for _, text := range []*string{&p.X.Label.Text, &p.Y.Label.Text} {
				if *text != "" {
					*text = " "
				}
			}
		}
	}
	return labels
}

// fitLabels shortens titles and axis labels that would leave their panel. They are
// centred on the data, which is not the middle of the panel.
func (s *sheet) fitLabels() {
	for i, row := range s.labels {
		for j := range row {
			c, centre := s.canvases[i][j], s.centre(i, j)
			width := 2 * min(centre.X-c.Min.X, c.Max.X-centre.X)
			height := 2 * min(centre.Y-c.Min.Y, c.Max.Y-centre.Y)
			row[j].x = fit(labelText, row[j].x, width)
			row[j].y = fit(labelText, row[j].y, height)
			if i == 0 {
				s.titles[j] = fit(headingText, s.titles[j], width)
			}
		}
	}
}

// centre returns the middle of a panel's data area.
func (s *sheet) centre(i, j int) vg.Point {
	data := s.plots[i][j].DataCanvas(s.canvases[i][j])
	return data.Center()
}

// draw draws the picture on a canvas of its size.
func (s *sheet) draw(c vgdraw.Canvas) {
	c.SetColor(s.st.page)
	c.Fill(c.Rectangle.Path())
	c.Translate(vg.Point{Y: s.height})

	sty := s.st.colored(titleText)
	sty.YAlign = vgdraw.YTop
	c.FillText(sty, vg.Point{X: margin, Y: -margin}, s.title)
	sty = s.st.colored(headingText)
	sty.XAlign, sty.YAlign = vgdraw.XCenter, vgdraw.YTop
	for j, title := range s.titles {
		c.FillText(sty, vg.Point{X: s.centre(0, j).X, Y: s.titlesAt[j]}, title)
	}
	for i, row := range s.plots {
		for j, p := range row {
			c.Rectangle = s.canvases[i][j].Rectangle
			p.Draw(c)
			s.drawLabels(c, i, j)
		}
	}
	c.Rectangle = s.legend
	s.st.legend.Draw(c)
}

// drawLabels draws the axis labels of a panel along the lower and the left edge.
func (s *sheet) drawLabels(c vgdraw.Canvas, i, j int) {
	labels, centre, descent := s.labels[i][j], s.centre(i, j), labelText.FontExtents().Descent
	sty := s.st.colored(labelText)
	sty.XAlign, sty.YAlign = vgdraw.XCenter, vgdraw.YBottom
	c.FillText(sty, vg.Point{X: centre.X, Y: c.Min.Y + descent}, labels.x)
	sty.Rotation = math.Pi / 2
	c.FillText(sty, vg.Point{X: c.Min.X + sty.Height("X") - descent, Y: centre.Y}, labels.y)
}
