package plot

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// linearTicks marks at most so many round values and one more, in steps of 1, 2 or
// 5 times a power of ten; more if a low number would leave fewer than two.
type linearTicks int

func (n linearTicks) Ticks(lo, hi float64) []plot.Tick {
	power := int(math.Floor(math.Log10((hi - lo) / float64(n))))
	step := math.Pow10(power)
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * math.Pow10(power); step*float64(n) >= (hi-lo)*(1-1e-9) {
			break
		}
	}
	if step >= 9.5*math.Pow10(power) {
		power++
	}
	var ticks []plot.Tick
	for first, i := math.Ceil(lo/step-1e-9), 0; i <= int(n); i++ {
		v := (first + float64(i)) * step
		if v > hi+1e-9*(hi-lo) {
			break
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: number(v, power, max(math.Abs(lo), math.Abs(hi)))})
	}
	if len(ticks) < 2 && n < 8 {
		return (2 * n).Ticks(lo, hi)
	}
	return ticks
}

// number writes a multiple of 10^power, the same way as others up to largest.
func number(v float64, power int, largest float64) string {
	if v == 0 {
		return "0"
	}
	if power > -5 && largest < 1e6 {
		return strconv.FormatFloat(v, 'f', max(0, -power), 64)
	}
	digits := int(math.Floor(math.Log10(math.Abs(v)))) - power
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', min(max(digits, 0), 15), 64), "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	e, _ := strconv.Atoi(exponent)
	return mantissa + "e" + strconv.Itoa(e)
}

// logTicks marks the powers of ten, or where there are few 2 and 5 times them
// too, or where there are none what linearTicks marks.
type logTicks struct{ most linearTicks }

func (l logTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	every := 1 + (last-first)/int(l.most)
	within := func(v float64) bool { return v >= lo*(1-1e-9) && v <= hi*(1+1e-9) }
	powers := 0
	for k := first; k <= last; k++ {
		if within(math.Pow10(k)) {
			powers++
		}
	}
	largest := hi
	if lo < 1e-4 { // all with exponents rather than some
		largest = 1e6
	}
	var ticks []plot.Tick
	labelled := 0
	for k := first; k <= last; k++ {
		for m := 1.0; m < 10; m++ {
			v := m * math.Pow10(k)
			label := m == 1 && k%every == 0 || powers <= 2 && (m == 2 || m == 5)
			switch {
			case !within(v):
			case label:
				ticks = append(ticks, plot.Tick{Value: v, Label: number(v, k, largest)})
				labelled++
			case every == 1:
				ticks = append(ticks, plot.Tick{Value: v})
			}
		}
	}
	if labelled < 2 {
		return l.most.Ticks(lo, hi)
	}
	return ticks
}
