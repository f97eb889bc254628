package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// plot is charts beside each other with one legend. A name has the same colour in all of
// them. The template "figure" draws it as a part of a page.
type plot struct {
	Label   string // what it shows, for who cannot see it
	Caption string
	Charts  []chart
	Legend  []label
	clock   func(x float64) string // the ticks of an x axis of time; nil for numbers
}

// Left returns the place of a chart in an image of its own, Width the width of the image.
func (f *plot) Left(chart int) int { return 350 * chart }
func (f *plot) Width() int         { return f.Left(len(f.Charts)) - 10 }

// Entry returns the place of a name of the legend in an image of its own, below the first charts.
func (f *plot) Entry(i int) int { return 44 + 100*i }

// chart is lines and boxes in a box of 340 units.
type chart struct {
	Title          string
	X              string // what the X axis counts
	XTicks, YTicks []tick
	Boxes          []box
	Lines          []line
	Height         float64
}

// label is a name in a legend. Its class is the colour of its lines.
type label struct{ Class, Name string }

// tick is a mark of an axis: a place, and the value there.
type tick struct {
	At    float64
	Label string
	value float64
}

type box struct {
	Class               string
	X, Y, Width, Height float64
}

// line joins points, "x,y x,y". Its class is the colour of its name.
type line struct{ Class, Points string }

// Places in a chart, as the template has them too.
const (
	chartLeft, chartRight = 44., 330.
	chartTop, chartBottom = 22., 178.
	chartHeight           = 214.
	stripTop, stripBottom = 218., 258. // of the numbers below a reliability diagram
)

// hues is the number of colours for names that have none of their own.
const hues = 4

// ofName is the colours that names have in every figure. Dashboards and the pictures of the
// table have them too.
var ofName = map[string]string{
	"served": "served", "gvbll": "served", "pool": "served", "online": "online",
	"static": "static", byChance: "by-chance", "what serves": "served", "the model as trained": "static",
}

// byChance is the name of the chance level of an ECE.
const byChance = "by chance up to"

// series is the points of a line, in ascending order of x. Those that are not finite are
// left out.
type series struct {
	name string
	x, y []float64
}

func (s *series) add(x, y float64) {
	if !math.IsInf(y, 0) && !math.IsNaN(y) {
		s.x, s.y = append(s.x, x), append(s.y, y)
	}
}

// add adds a chart of lines. The ticks of a whole x axis are integers.
func (f *plot) add(title, x string, whole bool, list ...series) {
	c := chart{Title: title, X: x, Height: chartHeight}
	across, up := scale{from: chartLeft, to: chartRight}, scale{from: chartBottom, to: chartTop}
	first := true
	for _, s := range list {
		for i := range s.x {
			if first {
				across.lo, across.hi, up.lo, up.hi = s.x[i], s.x[i], s.y[i], s.y[i]
				first = false
			}
			across.include(s.x[i])
			up.include(s.y[i])
		}
	}
	up.widen()
	c.XTicks, c.YTicks = across.ticks(whole), up.ticks(false)
	if f.clock != nil {
		for i := range c.XTicks {
			c.XTicks[i].Label = f.clock(c.XTicks[i].value)
		}
	}
	for _, s := range list {
		l := line{Class: f.hue(s.name)}
		var points strings.Builder
		for i := range s.x {
			fmt.Fprintf(&points, "%.1f,%.1f ", across.at(s.x[i]), up.at(s.y[i]))
		}
		if l.Points = points.String(); len(s.x) == 1 {
			l.Class += " dot"
			l.Points += l.Points // a line from a point to itself has its ends alone
		}
		c.Lines = append(c.Lines, l)
	}
	f.Charts = append(f.Charts, c)
}

// hue returns the class of the colour of a name, and enters the name in the legend.
func (f *plot) hue(name string) string {
	if i := slices.IndexFunc(f.Legend, func(l label) bool { return l.Name == name }); i >= 0 {
		return f.Legend[i].Class
	}
	class, ok := ofName[name]
	if !ok {
		class = "hue" + strconv.Itoa(len(f.Legend)%hues)
	}
	f.Legend = append(f.Legend, label{class, name})
	return class
}

// measured is the scores of something over time.
type measured struct {
	name   string
	x      []float64
	scores []calibration.Means
	noECE  bool // the scores have no ECE
}

// scores adds charts of accuracy, NLL and ECE, the last with the chance level of the first of
// the list.
func (f *plot) scores(x string, whole bool, list []measured) {
	f.add("accuracy", x, whole, linesOf(list, func(m calibration.Means) float64 { return m.Acc })...)
	f.add("NLL, nats", x, whole, linesOf(list, func(m calibration.Means) float64 { return m.NLL })...)
	if binned := slices.DeleteFunc(slices.Clone(list), func(m measured) bool { return m.noECE }); len(binned) > 0 {
		chance := linesOf(binned[:1], func(m calibration.Means) float64 { return m.Chance })
		chance[0].name = byChance
		f.add("ECE", x, whole, append(linesOf(binned, func(m calibration.Means) float64 { return m.ECE }), chance...)...)
	}
}

// linesOf returns a line of a score for each of a list.
func linesOf(list []measured, score func(calibration.Means) float64) (lines []series) {
	for _, m := range list {
		s := series{name: m.name}
		for i, scores := range m.scores {
			s.add(m.x[i], score(scores))
		}
		lines = append(lines, s)
	}
	return lines
}

// reliability adds a reliability diagram: for each bin of confidence the accuracy, the gap
// between it and the mean confidence, a line where chance alone leaves 95 of 100 accuracies,
// and below it the number of predictions.
func (f *plot) reliability(name string, t *calibration.Tally) {
	ece, chance := t.Bins.ECE()
	c := chart{
		Title:  fmt.Sprintf("%s: ECE %.3f, by chance ≤ %.3f", name, ece, chance),
		Height: stripBottom + 2, X: fmt.Sprintf("confidence; below: how many of %d", t.Labels),
		Lines: []line{{"ideal", fmt.Sprintf("%v,%v %v,%v", chartLeft, chartBottom, chartRight, chartTop)}},
	}
	across, up := scale{0, 1, chartLeft, chartRight}, scale{0, 1, chartBottom, chartTop}
	c.XTicks, c.YTicks = across.ticks(false), up.ticks(false)
	most := int64(1)
	for _, b := range t.Bins {
		most = max(most, b.Count)
	}
	below := scale{0, float64(most), stripTop, stripBottom}
	for i, b := range t.Bins {
		if b.Count == 0 {
			continue
		}
		left, right := across.at(float64(i)/calibration.BinCount), across.at(float64(i+1)/calibration.BinCount)
		add := func(class string, from, to float64) {
			c.Boxes = append(c.Boxes, box{
				class, rounded(left + .5), rounded(min(from, to)), rounded(right - left - 1),
				rounded(math.Abs(to - from)),
			})
		}
		accuracy, confidence := float64(b.Correct)/float64(b.Count), min(b.SumConfidence/float64(b.Count), 1)
		gap := "over" // confident
		if confidence < accuracy {
			gap = "under"
		}
		add("bar", up.at(0), up.at(min(accuracy, confidence)))
		add(gap, up.at(accuracy), up.at(confidence))
		add("bar", below.from, below.at(float64(b.Count)))
		spread := 1.96 * math.Sqrt(confidence*(1-confidence)/float64(b.Count))
		middle := rounded((left + right) / 2)
		c.Lines = append(c.Lines, line{"chance", fmt.Sprintf("%v,%v %v,%v", middle,
			rounded(up.at(max(confidence-spread, 0))), middle, rounded(up.at(min(confidence+spread, 1))))})
	}
	f.Charts = append(f.Charts, c)
}

// scale maps the values lo ≤ hi to the places from and to.
type scale struct{ lo, hi, from, to float64 }

func (s *scale) include(v float64) { s.lo, s.hi = min(s.lo, v), max(s.hi, v) }

// widen leaves room at both ends, but crosses zero only if the values do.
func (s *scale) widen() {
	room := max(0.06*(s.hi-s.lo), 0.02*max(math.Abs(s.lo), math.Abs(s.hi)))
	if s.lo < 0 || s.lo > room {
		s.lo -= room
	} else {
		s.lo = 0
	}
	s.hi += room
}

// at returns the place of a value. Where there is one value alone, it is in the middle.
func (s *scale) at(v float64) float64 {
	if s.hi <= s.lo {
		return (s.from + s.to) / 2
	}
	return s.from + (s.to-s.from)*(v-s.lo)/(s.hi-s.lo)
}

// ticks returns at most six ticks in steps of 1, 2 or 5 times a power of ten.
func (s *scale) ticks(whole bool) (list []tick) {
	if s.hi <= s.lo {
		return []tick{{s.at(s.lo), strconv.FormatFloat(s.lo, 'g', 4, 64), s.lo}}
	}
	power := math.Pow10(int(math.Floor(math.Log10((s.hi - s.lo) / 5))))
	step := 10 * power
	for _, m := range []float64{5, 2, 1} {
		if 5*m*power >= s.hi-s.lo {
			step = m * power
		}
	}
	if whole {
		step = max(step, 1)
	}
	digits := max(0, -int(math.Floor(math.Log10(1.001*step))))
	for i := math.Ceil(s.lo/step-1e-9) + 0; i*step <= s.hi+1e-9*step; i++ { // + 0: not -0
		label := strconv.FormatFloat(i*step, 'f', digits, 64)
		if len(label) > 7 {
			label = strconv.FormatFloat(i*step, 'g', 3, 64)
		}
		list = append(list, tick{rounded(s.at(i * step)), label, i * step})
	}
	return list
}

// rounded returns a place with as many digits as can be seen.
func rounded(v float64) float64 { return math.Round(10*v) / 10 }
