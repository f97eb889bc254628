package plot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

func sansWidth(size float64, s string) vg.Length { return sans(vg.Length(size)).Width(s) }

// The area of the data is as large as was asked for, whatever stands at the axes.
func TestMargins(t *testing.T) {
	for name, test := range gallery() {
		st := newStyle(Light)
		for _, part := range test.picture.parts {
			st.names = append(st.names, part.names()...)
			p := part.plot(st)
			width, height := part.extent()
			m := margins(p, width, height)
			var c vgdraw.Canvas
			c.Max = vg.Point{X: m.left + width + m.right, Y: m.bottom + height + m.top}
			size := p.DataCanvas(c).Size()
			if math.Abs(float64(size.X-width)) > 0.5 || math.Abs(float64(size.Y-height)) > 0.5 {
				t.Errorf("%s: data on %v, want %v × %v", name, size, width, height)
			}
		}
	}
}

func TestFlow(t *testing.T) {
	var keys []key
	for i := range 9 {
		keys = append(keys, key{name: fmt.Sprint("a name of some length ", i)})
	}
	const width = 300
	l := flow(keys, width)
	if len(l) < 2 {
		t.Fatalf("%d lines", len(l))
	}
	var back []string
	for _, line := range l {
		used := vg.Length(-keyGap)
		for _, k := range line {
			used += keyGap + k.width()
			back = append(back, k.name)
		}
		if used > width {
			t.Errorf("a line %v wide", used)
		}
	}
	if len(back) != len(keys) || back[8] != keys[8].name {
		t.Errorf("keys %q", back)
	}
	if flow(nil, width).height() != 0 {
		t.Error("a legend of nothing has a height")
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		lo, hi float64
		n      int
		want   []string
	}{
		{0, 1, 5, []string{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}},
		{1, 60, 6, []string{"10", "20", "30", "40", "50", "60"}},
		{-0.14, 0.11, 6, []string{"-0.10", "-0.05", "0", "0.05", "0.10"}},
		{0, 3e7, 4, []string{"0", "1e7", "2e7", "3e7"}},
		{1e-7, 1e-6, 5, []string{"2e-7", "4e-7", "6e-7", "8e-7", "1e-6"}},
		{1.5e6, 3e6, 3, []string{"1.5e6", "2e6", "2.5e6", "3e6"}},
	} {
		var got []string
		for _, tick := range linearTicks(test.n).Ticks(test.lo, test.hi) {
			got = append(got, tick.Label)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v to %v: %q, want %q", test.lo, test.hi, got, test.want)
		}
	}
}

func TestLogTicks(t *testing.T) {
	for _, test := range []struct {
		lo, hi float64
		want   []string
	}{
		{0.0009, 1.1, []string{"0.001", "0.01", "0.1", "1"}},
		{1.9, 63, []string{"2", "5", "10", "20", "50"}},
		{1.2, 1.9, []string{"1.2", "1.4", "1.6", "1.8"}},
		{0.5, 2e9, []string{"1e0", "1e2", "1e4", "1e6", "1e8"}},
		{9e-6, 1.1e-3, []string{"1e-5", "1e-4", "1e-3"}},
	} {
		var got []string
		for _, tick := range (logTicks{6}).Ticks(test.lo, test.hi) {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v to %v: %q, want %q", test.lo, test.hi, got, test.want)
		}
	}
}

// Ticks lie on the axis, not too many, and no two read the same.
func TestTicksOfAnyRange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		lo := math.Exp(40 * rng.NormFloat64())
		hi := lo * (1 + math.Exp(4*rng.NormFloat64()))
		n := 2 + rng.IntN(7)
		ticks := linearTicks(n).Ticks(lo, hi)
		if len(ticks) > max(n, 8)+1 || len(ticks) < 2 {
			t.Fatalf("%v to %v: %d ticks of %d", lo, hi, len(ticks), n)
		}
		seen := map[string]bool{}
		for _, tick := range ticks {
			if tick.Value < lo-1e-6*(hi-lo) || tick.Value > hi+1e-6*(hi-lo) || seen[tick.Label] {
				t.Fatalf("%v to %v: tick %v %q among %v", lo, hi, tick.Value, tick.Label, ticks)
			}
			seen[tick.Label] = true
		}
		labelled := 0
		for _, tick := range (logTicks{linearTicks(n)}).Ticks(lo, hi) {
			if tick.Label != "" {
				labelled++
			}
		}
		if labelled == 0 || labelled > 10 {
			t.Fatalf("%v to %v: %d labels on a logarithmic axis", lo, hi, labelled)
		}
	}
}
