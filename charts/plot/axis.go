package plot

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// huge bounds what is drawn: beyond it, differences of values may overflow.
const huge = 1e100

// drawable reports whether v is finite and within the bounds of what is drawn.
func drawable(v float64) bool { return math.Abs(v) <= huge }

// span is the smallest interval that contains the values added to it.
type span struct{ lo, hi float64 }

// nothing is the span of no values.
var nothing = span{math.Inf(1), math.Inf(-1)}

func (s *span) add(v float64) { s.lo, s.hi = min(s.lo, v), max(s.hi, v) }

// padded returns the range of an axis: the span, widened on either side by a share
// of its length. The result is never empty, nor so short relative to its values
// that ticks would need many digits. It crosses zero only if the span does.
func (s span) padded(share float64) (lo, hi float64) {
	largest := max(math.Abs(s.lo), math.Abs(s.hi))
	if largest < 1/huge {
		return s.lo - 1, s.hi + 1
	}
	room := share * (s.hi - s.lo)
	if s.hi-s.lo < 1e-3*largest {
		room = 1e-3 * largest
	}
	lo, hi = s.lo-room, s.hi+room
	if s.lo >= 0 {
		lo = max(lo, 0)
	}
	if s.hi <= 0 && s.lo < 0 {
		hi = min(hi, 0)
	}
	return lo, hi
}

// roundTicks returns two to six ticks in steps of 1, 2 or 5 times a power of ten.
// (gonum's own ticks for 1 to 40 are 5, 20 and 35, and for 1.21 to 1.25 several have
// the label 1.2.)
func roundTicks(lo, hi float64) (ticks []plot.Tick) {
	power := int(math.Floor(math.Log10((hi - lo) / 5)))
	var step float64
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * math.Pow10(power); 5*step >= (hi-lo)*(1-1e-9) {
			break
		}
	}
	largest := max(math.Abs(lo), math.Abs(hi))
	for i := math.Ceil(lo/step - 1e-9); i*step <= hi+1e-9*step; i++ {
		v := i * step
		label := strconv.FormatFloat(v, 'f', max(0, -int(math.Floor(math.Log10(1.001*step)))), 64)
		if largest >= 1e6 || step < 1e-5 {
			label = strconv.FormatFloat(v, 'g', 5, 64)
		}
		if i == 0 {
			label = "0"
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

// wholeTicks returns those round ticks that are integers, for axes of counts. If there
// are none, because lo and hi are between two integers, it returns all round ticks.
func wholeTicks(lo, hi float64) (whole []plot.Tick) {
	ticks := roundTicks(lo, hi)
	for _, t := range ticks {
		if math.Trunc(t.Value) == t.Value {
			t.Label, _, _ = strings.Cut(t.Label, ".0")
			whole = append(whole, t)
		}
	}
	if whole == nil {
		return ticks
	}
	return whole
}

// valueTicks returns ticks at the given values of a logarithmic axis. A label that would
// overlap another on an axis of this length is left out.
func valueTicks(values []float64, length vg.Length) plot.ConstantTicks {
	slices.Sort(values)
	values = slices.Compact(values)
	lo, hi := math.Log(values[0]), math.Log(values[len(values)-1])
	var ticks plot.ConstantTicks
	free := vg.Length(math.Inf(-1)) // where the last label ends
	for _, v := range values {
		t := plot.Tick{Value: v}
		label := strconv.FormatFloat(v, 'g', 4, 64)
		at := length / 2
		if hi > lo {
			at = vg.Length((math.Log(v)-lo)/(hi-lo)) * length
		}
		if half := tickText.Width(label) / 2; at-half > free {
			t.Label, free = label, at+half+4
		}
		ticks = append(ticks, t)
	}
	return ticks
}
