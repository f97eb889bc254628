package page

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"strconv"
	"unicode/utf8"
)

// heatMap is a matrix whose values are shown as colours: the page's own for the smallest to
// blue for the largest. If there are negative values, they are blue, positive ones are
// vermilion, and zero has the page's colour.
type heatMap struct {
	title   string
	x       string    // what the columns are
	rows    []string  // their names, the first on top
	columns []string  // their names; nil if they are numbered from 0
	values  []float64 // rows × columns, row-major
}

// Colours of heat maps: those of Okabe and Ito.
var (
	blue      = color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 255}
	vermilion = color.NRGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 255}
)

// heatView is what the template "heat" draws: maps below each other, an image of its own.
type heatView struct {
	Width, Height float64
	Maps          []heatMapView
}

type heatMapView struct {
	Title, X           string
	Top                float64 // of the map in the image; the rest is relative to it
	Left, Wide, High   float64 // of the cells
	Bottom             float64 // of the names below them
	Rows, Columns      []tick
	Named              bool // the columns have names
	Cells              template.URL
	Lo, Hi             string
	Diverging          bool
	Below, ScaleBottom float64
}

// Sizes of a heat map.
const (
	heatWidth = 480. // of the cells
	charWidth = 6.
	maxName   = 24 // characters
	lineHigh  = 14.
)

// heat returns the image of maps.
func heat(maps ...heatMap) ([]byte, error) {
	var v heatView
	for i := range maps {
		m, err := maps[i].view()
		if err != nil {
			return nil, err
		}
		m.Top = v.Height
		v.Height += m.ScaleBottom + 8
		v.Width = max(v.Width, m.Left+max(m.Wide+10, 1.4*charWidth*float64(utf8.RuneCountInString(m.Title))))
		v.Maps = append(v.Maps, m)
	}
	return execute("heat", v)
}

func (m *heatMap) view() (v heatMapView, err error) {
	columns := len(m.values) / len(m.rows)
	lo, hi := m.values[0], m.values[0]
	for _, x := range m.values {
		lo, hi = min(lo, x), max(hi, x)
	}
	if v.Diverging = lo < 0; v.Diverging {
		hi = max(hi, -lo)
		lo = -hi
	}
	cells := image.NewNRGBA(image.Rect(0, 0, columns, len(m.rows)))
	for i, x := range m.values {
		c, share := blue, (x-lo)/max(hi-lo, math.SmallestNonzeroFloat64)
		if v.Diverging {
			if share = math.Abs(x) / hi; x > 0 {
				c = vermilion
			}
		}
		c.A = uint8(math.Round(255 * share))
		cells.SetNRGBA(i%columns, i/columns, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, cells); err != nil {
		return v, err
	}
	v.Cells = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())) // of our own making
	v.Title, v.X, v.Named = m.title, m.x, m.columns != nil
	v.Lo, v.Hi = strconv.FormatFloat(lo, 'g', 3, 64), strconv.FormatFloat(hi, 'g', 3, 64)
	v.Left, v.Wide, v.High = 8+widest(m.rows), heatWidth, min(max(60, float64(len(m.rows))*lineHigh), 600)
	v.Rows = names(m.rows, v.High)
	if v.Bottom = 22 + v.High + lineHigh; v.Named {
		v.Wide = min(heatWidth, max(120, float64(columns)*lineHigh))
		v.Columns = names(m.columns, v.Wide)
		v.Bottom = 22 + v.High + 6 + widest(m.columns)
	} else {
		across := scale{0, float64(columns), 0, v.Wide}
		for _, t := range across.ticks(true) {
			t.At += v.Wide / float64(2*columns)
			v.Columns = append(v.Columns, t)
		}
	}
	v.Below = v.Bottom + 10
	v.ScaleBottom = v.Below + 32
	return v, nil
}

// names returns names at the middles of equal parts of a length, as many as have room.
func names(list []string, length float64) (ticks []tick) {
	part := length / float64(len(list))
	every := int(math.Ceil(lineHigh * 0.8 / part))
	for i := 0; i < len(list); i += every {
		ticks = append(ticks, tick{At: rounded((float64(i) + .5) * part), Label: cut(list[i])})
	}
	return ticks
}

// cut shortens a name that is too long for an edge of the map.
func cut(name string) string {
	if utf8.RuneCountInString(name) <= maxName {
		return name
	}
	return fmt.Sprintf("%.*s…", maxName-1, name)
}

// widest returns the width of the longest name, about.
func widest(names []string) (width float64) {
	for _, n := range names {
		width = max(width, charWidth*float64(utf8.RuneCountInString(cut(n))))
	}
	return width
}
