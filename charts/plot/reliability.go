package plot

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// Bin is a summary of the predictions whose confidence lies in an interval.
type Bin struct {
	Low, High  float64 // the interval, within [0, 1]
	Count      int     // predictions
	Confidence float64 // their mean confidence
	Accuracy   float64 // the share of them that are correct
}

// Diagram is the calibration of one system. Its bins may be of equal width or of
// equal mass; empty ones may be left out.
type Diagram struct {
	Name string
	Bins []Bin
}

// Size of a reliability diagram with its axes, in points.
const reliabilityWidth, reliabilityHeight = 280, 250

// Reliability returns reliability diagrams side by side, such as before and after:
// each bin's accuracy with the gap to its mean confidence, above a histogram of
// the predictions. The title of each states their number n and the ECE over its bins,
// Σ_b n_b/n · |accuracy_b - confidence_b|.
func Reliability(title string, diagrams ...Diagram) Picture {
	p := Picture{title: title, width: reliabilityWidth, height: reliabilityHeight, strip: 62, rows: make([][]panel, 2)}
	for _, d := range diagrams {
		p.rows[0] = append(p.rows[0], panel{d.title(), d.calibration})
		p.rows[1] = append(p.rows[1], panel{"", d.histogram})
	}
	return p
}

func (d Diagram) check() error {
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
	if len(d.Bins) > maxBars {
		return fmt.Errorf("%d bins, at most %d", len(d.Bins), maxBars)
	}
	if total == 0 {
		return errors.New("no predictions in any bin")
	}
	return nil
}

// title returns the diagram's name with its ECE and number of predictions.
func (d Diagram) title() string {
	n, ece := 0, 0.0
	for _, b := range d.Bins {
		n += b.Count
	}
	for _, b := range d.Bins {
		if b.Count > 0 {
			ece += float64(float64(b.Count) / float64(n) * math.Abs(b.Accuracy-b.Confidence))
		}
	}
	return fmt.Sprintf("%s (ECE %.3f, n = %d)", d.Name, ece, n)
}

func (d Diagram) calibration(st *style) (*plot.Plot, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	p := st.newPlot("confidence", "accuracy")

	// A bar up to the smaller of accuracy and confidence is drawn over one up to the
	// larger. What remains visible of the latter is the gap.
	boxes := func(hue int) *plotter.Histogram {
		return &plotter.Histogram{
			FillColor: mix(st.page, st.hues[hue], 0.55),
			LineStyle: vgdraw.LineStyle{Color: st.hues[hue], Width: 0.75},
		}
	}
	accuracy, over, under := boxes(0), boxes(1), boxes(3)
	means := &plotter.Scatter{GlyphStyle: vgdraw.GlyphStyle{Color: st.text, Radius: 1.8, Shape: vgdraw.CircleGlyph{}}}
	for _, b := range d.Bins {
		if b.Count == 0 {
			continue
		}
		gap := under
		if b.Confidence > b.Accuracy {
			gap = over
		}
		gap.Bins = append(gap.Bins, plotter.HistogramBin{Min: b.Low, Max: b.High, Weight: max(b.Accuracy, b.Confidence)})
		accuracy.Bins = append(accuracy.Bins, plotter.HistogramBin{Min: b.Low, Max: b.High, Weight: min(b.Accuracy, b.Confidence)})
		means.XYs = append(means.XYs, plotter.XY{X: b.Confidence, Y: b.Accuracy})
	}
	diagonal := &plotter.Line{
		XYs:       plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: 1}},
		LineStyle: vgdraw.LineStyle{Color: st.text, Width: 1, Dashes: []vg.Length{5, 2.5}},
	}
	p.Add(st.rules(), over, under, accuracy, diagonal, means)
	st.list("accuracy", accuracy)
	st.list("gap, overconfident", over)
	st.list("gap, underconfident", under)
	st.list("means of a bin", means)
	st.list("perfect calibration", diagonal)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	return p, nil
}

func (d Diagram) histogram(st *style) (*plot.Plot, error) {
	p := st.newPlot("confidence", "predictions")
	h := &plotter.Histogram{
		FillColor: mix(st.page, st.axis, 0.5),
		LineStyle: vgdraw.LineStyle{Color: st.axis, Width: 0.75},
	}
	most := 0
	for _, b := range d.Bins {
		if b.Count > 0 {
			h.Bins = append(h.Bins, plotter.HistogramBin{Min: b.Low, Max: b.High, Weight: float64(b.Count)})
			most = max(most, b.Count)
		}
	}
	p.Add(st.rules(), h)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1.06*float64(most)
	return p, nil
}
