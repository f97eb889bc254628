package plot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

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
	maxSlots  = 600 // bars, drawn or left out
)

// dpi is the resolution of PNGs: two pixels for each point.
const dpi = 144

// Picture is panels in a grid, under one title. Make one with [Lines] or one of
// the functions named after what they show; it holds on to the slices given. The
// zero Picture has nothing to render.
type Picture struct {
	// Theme is the colours of page and text, Light by default.
	Theme Theme

	title   string
	columns int // panels in a row; none for all in one
	parts   []part
}

// part is one panel of a picture.
type part interface {
	// check says what is wrong with the values. The other methods may be called
	// if it returns nil.
	check() error
	// heading is the text above the panel, or "".
	heading() string
	// names are those that want a look of their own, in order.
	names() []string
	// keys are the legend's entries; none for a panel that needs no legend.
	keys(*style) []key
	// extent is the least size of the area of the data, in points.
	extent() (width, height vg.Length)
	// plot returns axes and data, for an area of at least the extent.
	plot(*style) *plot.Plot
}

// SVG renders the picture as an SVG document. The text stays text, in Liberation
// Sans or what the viewer has of the same widths. The errors are about the
// picture's values: lengths that differ, nothing finite to draw.
func (p Picture) SVG() ([]byte, error) {
	s, err := p.lay()
	if err != nil {
		return nil, err
	}
	c := vgsvg.NewWith(vgsvg.UseWH(s.width, s.height))
	s.draw(vgdraw.New(c))
	out, err := written(c)
	if err != nil {
		return nil, err
	}
	// A map's cells are as wide and high as the plot has them.
	out = bytes.ReplaceAll(out, []byte("<image "), []byte(`<image preserveAspectRatio="none" `))
	// In text a quote is escaped, so that only attributes match.
	return bytes.ReplaceAll(out, []byte(`style="font-family:Liberation Sans;`),
		[]byte(`style="font-family:'Liberation Sans',Arimo,Arial,Helvetica,sans-serif;`)), nil
}

// PNG renders the picture as a PNG, with two pixels for each point of the SVG's
// size. It fails as SVG does.
func (p Picture) PNG() ([]byte, error) {
	s, err := p.lay()
	if err != nil {
		return nil, err
	}
	c := vgimg.NewWith(vgimg.UseWH(s.width, s.height), vgimg.UseDPI(dpi))
	s.draw(vgdraw.New(c))
	return written(vgimg.PngCanvas{Canvas: c})
}

func written(from io.WriterTo) ([]byte, error) {
	var out bytes.Buffer
	if _, err := from.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	return out.Bytes(), nil
}

// check lists all that is wrong with the picture's values.
func (p Picture) check() error {
	if p.Theme != Light && p.Theme != Dark {
		return fmt.Errorf("draw: theme %d is neither Light nor Dark", p.Theme)
	}
	if len(p.parts) == 0 {
		return errors.New("draw: a picture without panels")
	}
	if len(p.parts) > maxPanels {
		return fmt.Errorf("draw: %d panels in a picture, at most %d", len(p.parts), maxPanels)
	}
	var errs []error
	for i, part := range p.parts {
		if err := part.check(); err != nil {
			errs = append(errs, fmt.Errorf("draw: panel %d %q: %w", i, part.heading(), err))
		}
	}
	return errors.Join(errs...)
}

// lay checks the picture and gives everything its place.
func (p Picture) lay() (*sheet, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	st := newStyle(p.Theme)
	for _, part := range p.parts {
		for _, name := range part.names() {
			if !slices.Contains(st.names, name) {
				st.names = append(st.names, name)
			}
		}
	}
	if len(st.names) > maxLooks {
		return nil, fmt.Errorf("draw: %d names in a picture, at most %d can be told apart", len(st.names), maxLooks)
	}
	columns := p.columns
	if columns <= 0 || columns > len(p.parts) {
		columns = len(p.parts)
	}
	return newSheet(st, clean(p.title), columns, p.parts), nil
}
