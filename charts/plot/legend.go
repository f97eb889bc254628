package plot

import (
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// key is an entry of a legend: a name and a sample of what stands for it.
type key struct {
	name   string
	sample func(vgdraw.Canvas) // fills the canvas, an icon
}

// Sizes of a legend, in points.
const (
	iconWidth  = 22
	iconHeight = 8
	iconGap    = 5
	keyGap     = 16
	keyHeight  = 15
)

func (k key) width() vg.Length { return iconWidth + iconGap + keyText.Width(k.name) }

func widestKey(keys []key) (width vg.Length) {
	for _, k := range keys {
		width = max(width, k.width())
	}
	return width
}

// legend is keys in lines.
type legend [][]key

// flow sets keys in lines no wider than width.
func flow(keys []key, width vg.Length) (l legend) {
	var used vg.Length
	for _, k := range keys {
		if used += keyGap + k.width(); len(l) == 0 || used > width {
			l = append(l, nil)
			used = k.width()
		}
		l[len(l)-1] = append(l[len(l)-1], k)
	}
	return l
}

// height is what the legend takes, with the distance below.
func (l legend) height() vg.Length {
	if len(l) == 0 {
		return 0
	}
	return vg.Length(len(l))*keyHeight + below
}

// draw draws the legend downwards from (x, y), its upper left corner, and returns
// the y below it.
func (l legend) draw(st *style, c vgdraw.Canvas, x, y vg.Length) vg.Length {
	for i, line := range l {
		at, middle := x, y-vg.Length(i)*keyHeight-keyHeight/2
		for _, k := range line {
			icon := c
			icon.Rectangle = vg.Rectangle{
				Min: vg.Point{X: at, Y: middle - iconHeight/2},
				Max: vg.Point{X: at + iconWidth, Y: middle + iconHeight/2},
			}
			k.sample(icon)
			st.writeLine(c, keyText, at+iconWidth+iconGap, middle-0.35*keyText.Font.Size, k.name)
			at += k.width() + keyGap
		}
	}
	return y - l.height()
}
