package plot

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Bin is the predictions whose confidence lies in an interval.
type Bin struct {
	Low, High  float64 // the interval, within [0, 1]
	Count      int     // predictions
	Confidence float64 // their mean confidence
	Accuracy   float64 // the share of them that is right
}

// Diagram is a system's reliability, at some time. The bins may be of equal
// width or of equal mass; empty ones may be there or not.
type Diagram struct {
	Name string
	Bins []Bin
}

// Reliability is reliability diagrams side by side, such as before and after:
// every bin's accuracy with the gap to its mean confidence, and how the
// predictions spread over the bins. Their number and the ECE that the bins give,
// Σ_b n_b/n · |accuracy_b - confidence_b|, stand above each.
func Reliability(title string, diagrams ...Diagram) Picture {
	p := Picture{title: title, columns: len(diagrams)}
	for _, d := range diagrams {
		p.parts = append(p.parts, calibration(d))
	}
	for _, d := range diagrams {
		p.parts = append(p.parts, spread(d))
	}
	return p
}

// calibration is a Diagram's accuracies and confidences.
type calibration Diagram

func (d calibration) check() error {
	if len(d.Bins) > maxSlots {
		return fmt.Errorf("%d bins, at most %d", len(d.Bins), maxSlots)
	}
	within := func(v float64) bool { return v >= 0 && v <= 1 }
	total := 0
	for i, b := range d.Bins {
		switch {
		case !within(b.Low) || !within(b.High) || b.Low > b.High:
			return fmt.Errorf("bin %d is [%v, %v], not an interval in [0, 1]", i, b.Low, b.High)
		case b.Count < 0 || b.Count > math.MaxInt-total:
			return fmt.Errorf("bin %d has %d predictions", i, b.Count)
		case b.Count > 0 && (!within(b.Confidence) || !within(b.Accuracy)):
			return fmt.Errorf("bin %d has confidence %v and accuracy %v, not both in [0, 1]", i, b.Confidence, b.Accuracy)
		}
		total += b.Count
	}
	if total == 0 {
		return errors.New("no predictions in any bin")
	}
	return nil
}

// total is the number of predictions.
func (d Diagram) total() (n int) {
	for _, b := range d.Bins {
		n += b.Count
	}
	return n
}

func (d calibration) heading() string {
	n, ece := Diagram(d).total(), 0.0
	for _, b := range d.Bins {
		if b.Count > 0 {
			ece += float64(float64(b.Count) / float64(max(n, 1)) * math.Abs(b.Accuracy-b.Confidence))
		}
	}
	return fmt.Sprintf("%s (ECE %.3f, n = %d)", clean(d.Name), ece, n)
}

func (d calibration) names() []string { return nil }

func (d calibration) extent() (width, height vg.Length) { return 220, 220 }

func (d calibration) keys(st *style) []key {
	return []key{
		{"accuracy", func(c vgdraw.Canvas) { st.drawTinted(c, accuracyHue, c.Min, c.Max) }},
		{"gap, overconfident", func(c vgdraw.Canvas) { st.drawTinted(c, overHue, c.Min, c.Max) }},
		{"gap, underconfident", func(c vgdraw.Canvas) { st.drawTinted(c, underHue, c.Min, c.Max) }},
		{"means of a bin", func(c vgdraw.Canvas) { c.DrawGlyph(st.dot(), c.Center()) }},
		{"perfect calibration", func(c vgdraw.Canvas) {
			c.StrokeLine2(st.diagonal(), c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
		}},
	}
}

// Hues of the boxes: of accuracies, and of the gaps where mean confidence lies
// above and below.
const (
	accuracyHue = 0
	overHue     = 1
	underHue    = 3
)

// drawTinted draws a box in a paler hue, over what may be there.
func (st *style) drawTinted(c vgdraw.Canvas, hue int, from, to vg.Point) {
	drawBox(c, st.page, st.page, from, to)
	drawBox(c, faded(st.hues[hue], 140), st.hues[hue], from, to)
}

func (st *style) dot() vgdraw.GlyphStyle {
	return vgdraw.GlyphStyle{Color: st.text, Radius: 1.8, Shape: vgdraw.CircleGlyph{}}
}

func (st *style) diagonal() vgdraw.LineStyle {
	return vgdraw.LineStyle{Color: st.text, Width: 1, Dashes: dashes[1]}
}

func (d calibration) plot(st *style) *plot.Plot {
	width, height := d.extent()
	p := st.axes("confidence", "accuracy", width, height)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	p.Add(st.rules(), plotterFunc(func(c vgdraw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		for _, b := range d.Bins {
			if b.Count == 0 {
				continue
			}
			gap := underHue
			if b.Confidence > b.Accuracy {
				gap = overHue
			}
			st.drawTinted(c, accuracyHue, vg.Point{X: x(b.Low), Y: y(0)}, vg.Point{X: x(b.High), Y: y(b.Accuracy)})
			st.drawTinted(c, gap, vg.Point{X: x(b.Low), Y: y(b.Accuracy)}, vg.Point{X: x(b.High), Y: y(b.Confidence)})
		}
		c.StrokeLine2(st.diagonal(), x(0), y(0), x(1), y(1))
		for _, b := range d.Bins {
			if b.Count > 0 {
				c.DrawGlyphNoClip(st.dot(), vg.Point{X: x(b.Confidence), Y: y(b.Accuracy)})
			}
		}
	}))
	return p
}

// spread is the histogram of a Diagram's predictions.
type spread Diagram

func (d spread) check() error { return nil } // as the calibration above it

func (d spread) heading() string { return "" }

func (d spread) names() []string { return nil }

func (d spread) keys(*style) []key { return nil }

func (d spread) extent() (width, height vg.Length) { return 220, 62 }

func (d spread) plot(st *style) *plot.Plot {
	width, height := d.extent()
	p := st.axes("confidence", "predictions", width, height)
	p.X.Min, p.X.Max = 0, 1
	for _, b := range d.Bins {
		p.Y.Max = max(p.Y.Max, 1.06*float64(b.Count))
	}
	p.Y.Min = 0
	p.Add(st.rules(), plotterFunc(func(c vgdraw.Canvas, p *plot.Plot) {
		x, y := p.Transforms(&c)
		for _, b := range d.Bins {
			if b.Count > 0 {
				drawBox(c, faded(st.axis, 130), st.axis, vg.Point{X: x(b.Low), Y: y(0)}, vg.Point{X: x(b.High), Y: y(float64(b.Count))})
			}
		}
	}))
	return p
}
