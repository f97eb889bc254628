package plot

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// TestLayout: the data areas of a row's panels are equally high and at the same height,
// and likewise those of a column; no panel or legend overlaps another or leaves the page.
func TestLayout(t *testing.T) {
	for name, test := range gallery() {
		s, err := test.picture.sheet()
		if err != nil {
			t.Fatal(err)
		}
		checkPlaces(t, name, s)
		near := func(a, b vg.Length) bool { return math.Abs(float64(a-b)) < 0.5 }
		first := s.plots[0][0].DataCanvas(s.canvases[0][0]).Rectangle
		for i, row := range s.canvases {
			left := s.plots[i][0].DataCanvas(row[0]).Rectangle
			if !near(left.Min.X, first.Min.X) || !near(left.Max.X, first.Max.X) {
				t.Errorf("%s: the data of row %d is at %v, that of row 0 at %v", name, i, left, first)
			}
			for j, c := range row {
				data := s.plots[i][j].DataCanvas(c).Rectangle
				if !near(data.Min.Y, left.Min.Y) || !near(data.Max.Y, left.Max.Y) || !near(data.Size().X, left.Size().X) {
					t.Errorf("%s: the data of panel %d of row %d is at %v, that of panel 0 at %v", name, j, i, data, left)
				}
			}
		}
	}
}

// TestStacked: in a stacked picture the panels are below each other, each with its title
// above it, and the picture is narrow enough for a phone.
func TestStacked(t *testing.T) {
	for name, test := range gallery() {
		test.picture.Stacked = true
		s, err := test.picture.sheet()
		if err != nil {
			t.Fatal(err)
		}
		checkPlaces(t, name, s)
		if s.width > stackedWidth+2*margin {
			t.Errorf("%s: the stacked picture is %v wide, want %v at most", name, s.width, stackedWidth+2*margin)
		}
		last := len(s.canvases) - 1
		for j := range s.titles {
			if top := s.canvases[0][j].Max.Y; s.titlesAt[j] < top {
				t.Errorf("%s: the title of panel %d is at %v, below the panel's top at %v", name, j, s.titlesAt[j], top)
			}
			if j > 0 && s.titlesAt[j] > s.canvases[last][j-1].Min.Y {
				t.Errorf("%s: the title of panel %d is at %v, above the end of the panel before at %v", name, j, s.titlesAt[j], s.canvases[last][j-1].Min.Y)
			}
		}
	}
}

// checkPlaces checks that no panel or legend overlaps another or leaves the page.
func checkPlaces(t *testing.T, name string, s *sheet) {
	t.Helper()
	page := vg.Rectangle{Min: vg.Point{Y: -s.height}, Max: vg.Point{X: s.width}}
	var places []vg.Rectangle
	if s.legend != (vg.Rectangle{}) {
		places = append(places, s.legend)
	}
	for _, row := range s.canvases {
		for _, c := range row {
			places = append(places, c.Rectangle)
		}
	}
	for i, a := range places {
		if a.Min.X < page.Min.X || a.Max.X > page.Max.X || a.Min.Y < page.Min.Y || a.Max.Y > page.Max.Y {
			t.Errorf("%s: %v is not on the page %v", name, a, page)
		}
		for _, b := range places[:i] {
			if a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y {
				t.Errorf("%s: %v and %v overlap", name, a, b)
			}
		}
	}
}

// TestLongLabels: titles and labels, which are centred on the data, are cut where they
// would leave the panel, also in the histogram's low strip.
func TestLongLabels(t *testing.T) {
	long := strings.Repeat("long ", 30)
	for name, p := range map[string]Picture{
		"logarithmic": lines("", chart{log: true, sweep: true, title: long, xLabel: long, yLabel: long, series: []Series{curveOf("s", 30)}}),
		"lines":       lines("", chart{title: long, xLabel: long, yLabel: long, series: []Series{curveOf("s", 3)}}),
		"heat": Heat("", Map{Title: long, XLabel: long, Rows: []string{long, "b"}, Columns: 2, Values: make([]float64, 4)},
			Map{Title: long, XLabel: long, Rows: []string{"a", "b"}, Columns: 2, Values: make([]float64, 4)}),
		"bars":        Bars("", long, []System{{Name: long, Value: 1}}),
		"reliability": Reliability("", Diagram{long, []Bin{{Low: .5, High: .6, Count: 1, Confidence: .55, Accuracy: 1}}}),
	} {
		s, err := p.sheet()
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range s.labels {
			for j, text := range row {
				c, centre := s.canvases[i][j], s.centre(i, j)
				width, height := labelText.Width(text.x), labelText.Width(text.y)
				if i == 0 {
					width = max(width, headingText.Width(s.titles[j]))
				}
				if centre.X-width/2 < c.Min.X || centre.X+width/2 > c.Max.X || centre.Y-height/2 < c.Min.Y || centre.Y+height/2 > c.Max.Y {
					t.Errorf("%s: texts of %.1f × %.1f around %v leave panel %d of row %d, which is %v", name, width, height, centre, j, i, c.Rectangle)
				}
			}
		}
	}
}

func TestFit(t *testing.T) {
	for _, s := range []string{"", "short", "a text that is somewhat longer than the room for it"} {
		got := fit(labelText, s, 100)
		if labelText.Width(got) > 100 || got != s && len([]rune(got)) < 10 {
			t.Errorf("fit(%q, 100) = %q, %.1f wide", s, got, labelText.Width(got))
		}
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		name   string
		ticks  func(lo, hi float64) []plot.Tick
		lo, hi float64
		want   []string
	}{
		{"round", roundTicks, 0, 1, []string{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}},
		{"round", roundTicks, 1, 60, []string{"20", "40", "60"}},
		{"round", roundTicks, -0.14, 0.11, []string{"-0.10", "-0.05", "0", "0.05", "0.10"}},
		{"round", roundTicks, 1.211, 1.249, []string{"1.22", "1.23", "1.24"}},
		{"round", roundTicks, 0, 3e7, []string{"0", "1e+07", "2e+07", "3e+07"}},
		{"round", roundTicks, 1e-7, 1e-6, []string{"2e-07", "4e-07", "6e-07", "8e-07", "1e-06"}},
		{"round", roundTicks, 1.5e6, 3e6, []string{"1.5e+06", "2e+06", "2.5e+06", "3e+06"}},
		{"whole", wholeTicks, 1, 3, []string{"1", "2", "3"}},
		{"whole", wholeTicks, -0.5, 1.5, []string{"0", "1"}},
		{"whole", wholeTicks, 1, 100, []string{"20", "40", "60", "80", "100"}},
		{"whole", wholeTicks, 0.1, 0.9, []string{"0.2", "0.4", "0.6", "0.8"}},
	} {
		if got := labels(test.ticks(test.lo, test.hi)); !slices.Equal(got, test.want) {
			t.Errorf("%s ticks of %v to %v are %q, want %q", test.name, test.lo, test.hi, got, test.want)
		}
	}
}

func labels(ticks []plot.Tick) (labels []string) {
	for _, tick := range ticks {
		labels = append(labels, tick.Label)
	}
	return labels
}

// TestValueTicks: every value has a tick, with a label unless that would overlap another.
func TestValueTicks(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   []string
	}{
		{[]float64{1, 0.03, 0.1, 0.3, 0.1}, []string{"0.03", "0.1", "0.3", "1"}},
		{[]float64{5}, []string{"5"}},
		{[]float64{1, 1.01, 1.02, 100, 1e9}, []string{"1", "", "", "100", "1e+09"}},
	} {
		if got := labels(valueTicks(test.values, 250)); !slices.Equal(got, test.want) {
			t.Errorf("ticks of %v are %q, want %q", test.values, got, test.want)
		}
	}
}

// TestTicksOfAnyRange: any axis has two to six ticks, which lie on it and have different
// labels.
func TestTicksOfAnyRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		s := nothing
		s.add(math.Exp(40 * rng.NormFloat64()))
		s.add(s.lo * (1 + math.Exp(4*rng.NormFloat64())))
		if rng.IntN(2) == 0 {
			s.add(-s.lo)
		}
		lo, hi := s.padded(0.06)
		seen := map[string]bool{}
		for _, tick := range roundTicks(lo, hi) {
			if tick.Value < lo-1e-6*(hi-lo) || tick.Value > hi+1e-6*(hi-lo) || seen[tick.Label] {
				t.Fatalf("%v to %v: tick %v %q among %v", lo, hi, tick.Value, tick.Label, seen)
			}
			seen[tick.Label] = true
		}
		if len(seen) > 6 || len(seen) < 2 {
			t.Fatalf("%v to %v: %d ticks", lo, hi, len(seen))
		}
	}
}
