package page

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTicks: an axis has two to six ticks at round values, within it and with labels that
// differ.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		whole  bool
		want   string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{1.21, 1.25, false, "1.21 1.22 1.23 1.24 1.25"},
		{1, 40, false, "10 20 30 40"},
		{-3, 2, false, "-3 -2 -1 0 1 2"},
		{7, 9, true, "7 8 9"},
		{7, 7, true, "7"},
		{0, 3e8, false, "0 1e+08 2e+08 3e+08"},
	} {
		s := scale{c.lo, c.hi, 10, 110}
		var labels []string
		for _, tick := range s.ticks(c.whole) {
			labels = append(labels, tick.Label)
			if v, err := strconv.ParseFloat(tick.Label, 64); err != nil || math.Abs(s.at(v)-tick.At) > 0.1 {
				t.Errorf("%v to %v: the tick %s is at %v, want %v", c.lo, c.hi, tick.Label, tick.At, s.at(v))
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%v to %v has the ticks %s, want %s", c.lo, c.hi, got, c.want)
		}
	}
}

// TestLines: whatever the values, all points lie in the chart, a single one is a dot, and
// values that are not finite are left out.
func TestLines(t *testing.T) {
	f := &plot{}
	s, one := series{name: "a"}, series{name: "b"}
	for i, y := range []float64{-1e300, 0, math.NaN(), 5, math.Inf(1), 1e-9} {
		s.add(float64(i), y)
	}
	one.add(3, 2)
	f.add("t", "x", true, s, one)
	if len(s.x) != 4 || len(f.Legend) != 2 || f.Charts[0].Lines[1].Class != "hue1 dot" {
		t.Errorf("%d points and the legend %v, want 4 and two names", len(s.x), f.Legend)
	}
	if p := strings.Fields(f.Charts[0].Lines[1].Points); len(p) != 2 || p[0] != p[1] {
		t.Errorf("a single value is %v, want the same point twice", p)
	}
	for _, text := range regexp.MustCompile(`[^ ,]+`).FindAllString(f.Charts[0].Lines[0].Points, -1) {
		if v, err := strconv.ParseFloat(text, 64); err != nil || v < chartTop-1 || v > chartRight+1 {
			t.Errorf("a point is at %s", text)
		}
	}
}
