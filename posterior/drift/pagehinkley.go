package drift

import (
	"math"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// PageHinkleyConfig holds the constants of PageHinkley.
type PageHinkleyConfig struct {
	MinValues int     // no drift before this many values
	Delta     float64 // δ ≥ 0: deviations from the mean that are tolerated
	Threshold float64 // > 0: cumulative deviation beyond which there is a drift
	Alpha     float64 // in (0, 1]: decay of the cumulative deviations per value
}

// DefaultPageHinkley returns river's constants: 30 values, δ .005, threshold 50,
// α .9999.
func DefaultPageHinkley() PageHinkleyConfig {
	return PageHinkleyConfig{MinValues: 30, Delta: 0.005, Threshold: 50, Alpha: 0.9999}
}

// Validate reports every constant that is out of range, with the remedy.
func (c PageHinkleyConfig) Validate() error {
	var r check.Remedies
	r.Unless(c.MinValues >= 0, "min values %d: give 0 or more, such as 30", c.MinValues)
	r.Unless(c.Delta >= 0 && check.Finite(c.Delta), "delta %v: give 0 or more, such as 0.005", c.Delta)
	r.Unless(c.Threshold > 0 && check.Finite(c.Threshold), "threshold %v: give a positive number, such as 50", c.Threshold)
	r.Unless(c.Alpha > 0 && c.Alpha <= 1, "alpha %v: give a number above 0 and at most 1, such as 0.9999", c.Alpha)
	return r.Join()
}

// PageHinkley cumulates deviations from the mean so far and detects a drift when the sum
// has risen from its minimum, or fallen from its maximum, by more than Threshold (Page
// 1954; Hinkley 1971). The value after a drift starts over.
type PageHinkley struct {
	cfg PageHinkleyConfig
	hinkley
}

type hinkley struct {
	n        uint64
	mean     float64
	up, low  float64 // Σ (deviation - δ), decayed, and its minimum: detects a rise
	down, hi float64 // Σ (deviation + δ), decayed, and its maximum: detects a fall
	done     bool    // a drift was detected: the next value starts over
}

// before is the state before the first value. The maximum starts at -1, as in the Python
// library river.
var before = hinkley{low: math.Inf(1), hi: -1}

// NewPageHinkley returns a detector that has seen no value. It panics if cfg does not
// validate.
func NewPageHinkley(cfg PageHinkleyConfig) *PageHinkley {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &PageHinkley{cfg, before}
}

// Add adds the next value and reports whether the mean has changed.
func (p *PageHinkley) Add(x float64) (drift bool) {
	if p.done {
		p.hinkley = before
	}
	p.n++
	p.mean += (x - p.mean) / float64(p.n)
	deviation := x - p.mean
	p.up = float64(p.cfg.Alpha*p.up) + deviation - p.cfg.Delta
	p.down = float64(p.cfg.Alpha*p.down) + deviation + p.cfg.Delta
	p.low, p.hi = min(p.low, p.up), max(p.hi, p.down)
	p.done = p.n >= uint64(p.cfg.MinValues) && (p.up-p.low > p.cfg.Threshold || p.hi-p.down > p.cfg.Threshold)
	return p.done
}

// Mean returns the mean of the values since the start or the last drift.
func (p *PageHinkley) Mean() float64 { return p.mean }

// Score returns how far the sums have moved from their extremes, a drift if it is above
// Threshold, and whether the mean has risen (up) or fallen.
func (p *PageHinkley) Score() (score float64, up bool) {
	if p.n == 0 {
		return 0, false
	}
	rise, fall := p.up-p.low, p.hi-p.down
	return max(rise, fall), rise >= fall
}

// AppendState appends done, n and the sums.
func (p *PageHinkley) AppendState(b []byte) []byte {
	b = appendFlag(b, p.done)
	b = appendCount(b, p.n)
	return appendNumbers(b, p.mean, p.up, p.low, p.down, p.hi)
}

// SetState reads what AppendState wrote.
func (p *PageHinkley) SetState(b []byte) error {
	r := reader{rest: b}
	next := hinkley{done: r.flag(), n: r.count(), mean: r.number(), up: r.number(), low: r.number(), down: r.number(), hi: r.number()}
	if err := r.end(); err != nil {
		return err
	}
	if next.n == 0 && next != before || next.n > 0 && !check.Finite(next.mean, next.up, next.low, next.down, next.hi) {
		return errValue
	}
	p.hinkley = next
	return nil
}
