package drift

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/posterior/internal/words"
)

// adwinConfig holds the constants of ADWIN.
type adwinConfig struct {
	Delta      float64 // δ in (0, 1): confidence; lower means fewer false alarms
	Clock      int     // values between two checks
	MaxBuckets int     // buckets of one size, ≥ 2: more means finer cuts
	MinLength  int     // least length of either side of a cut, ≥ 1
	Grace      int     // no check while the window is no longer than this
}

// DefaultADWIN returns river's constants: δ .002, clock 32, 5 buckets, sides of
// 5, grace 10.
func DefaultADWIN() adwinConfig {
	return adwinConfig{Delta: 0.002, Clock: 32, MaxBuckets: 5, MinLength: 5, Grace: 10}
}

// ADWIN keeps the longest window of the latest values whose mean has not changed (Bifet &
// Gavaldà 2007, ADWIN2): it drops the oldest values while there is a cut of the window
// into two sides with different means. The window is an exponential histogram of
// MaxBuckets·log₂(values) buckets.
type ADWIN struct {
	cfg  adwinConfig
	rows [][]bucket // rows[i]: buckets of 2ⁱ values each, oldest first
	tick uint64     // values since the start
	sum  bucket     // of the window
	n    uint64     // values in the window
	done bool       // a drift was detected: the next value starts over
}

// bucket is a sum of neighbouring values.
type bucket struct{ total, squares float64 } // squares: Σ (x - mean)²

// NewADWIN returns a detector with an empty window. It starts empty after a drift, too, as in the Python
// library river: with the rest of the window, the same change is often detected again.
func NewADWIN(cfg adwinConfig) *ADWIN { return &ADWIN{cfg: cfg} }

// Width returns the number of values in the window.
func (a *ADWIN) Width() int { return int(a.n) }

// Mean returns the mean of the window, 0 if it is empty.
func (a *ADWIN) Mean() float64 {
	if a.n == 0 {
		return 0
	}
	return a.sum.total / float64(a.n)
}

// Add adds the next value and reports whether the mean has changed, that is, whether the
// window was cut. Width and Mean are then those of the rest.
func (a *ADWIN) Add(x float64) (drift bool) {
	if a.done {
		*a = ADWIN{cfg: a.cfg}
	}
	a.insert(x)
	a.tick++
	if a.tick%uint64(a.cfg.Clock) == 0 && a.n > uint64(a.cfg.Grace) {
		for a.changed() {
			drift = true
			a.drop()
		}
	}
	a.done = drift
	return drift
}

// insert adds a value as a bucket of one, and merges the two oldest buckets of every size
// that has too many.
func (a *ADWIN) insert(x float64) {
	if a.n > 0 {
		a.sum.squares += between(bucket{total: x}, 1, a.sum, float64(a.n))
	}
	a.n++
	a.sum.total += x
	if len(a.rows) == 0 {
		a.rows = append(a.rows, nil)
	}
	a.rows[0] = append(a.rows[0], bucket{total: x})
	for i := 0; i < len(a.rows) && len(a.rows[i]) > a.cfg.MaxBuckets; i++ {
		if i+1 == len(a.rows) {
			a.rows = append(a.rows, nil)
		}
		row, n := a.rows[i], math.Ldexp(1, i)
		a.rows[i+1] = append(a.rows[i+1], bucket{
			total:   row[0].total + row[1].total,
			squares: row[0].squares + row[1].squares + between(row[0], n, row[1], n),
		})
		a.rows[i] = slices.Delete(row, 0, 2)
	}
}

// between returns by how much the sum of squared deviations of n and m values together
// exceeds the sums of the two parts.
func between(x bucket, n float64, y bucket, m float64) float64 {
	d := x.total/n - y.total/m
	return n * m * d * d / (n + m)
}

// drop removes the oldest bucket from the window.
func (a *ADWIN) drop() {
	last := len(a.rows) - 1
	oldest, n := a.rows[last][0], math.Ldexp(1, last)
	a.rows[last] = slices.Delete(a.rows[last], 0, 1)
	if len(a.rows[last]) == 0 {
		a.rows = a.rows[:last]
	}
	a.n -= 1 << last
	a.sum.total -= oldest.total
	a.sum.squares -= oldest.squares + between(oldest, n, a.sum, float64(a.n))
}

// changed reports whether the means of the two sides of some cut between buckets differ
// by more than Bifet & Gavaldà's bound ε_cut, which chance exceeds with probability δ.
func (a *ADWIN) changed() bool {
	least, width := float64(a.cfg.MinLength), float64(a.n)
	d := double.Log(2 * double.Log(width) / a.cfg.Delta)
	variance := a.sum.squares / width
	n0, total0 := 0., 0.
	for i := len(a.rows) - 1; i >= 0; i-- {
		size := math.Ldexp(1, i)
		for _, b := range a.rows[i] {
			n0 += size
			total0 += b.total
			n1, total1 := width-n0, a.sum.total-total0
			if n0 < least || n1 < least {
				continue
			}
			m := 1/(n0-least+1) + 1/(n1-least+1)
			bound := math.Sqrt(2*m*variance*d) + float64(2./3*d*m)
			if math.Abs(total0/n0-total1/n1) > bound {
				return true
			}
		}
	}
	return false
}

// AppendState appends the whole state to b as canonical bytes.
func (a *ADWIN) AppendState(b []byte) []byte { return words.Append(b, a.state) }

// SetState reads what AppendState wrote. On an error the state is as it was.
func (a *ADWIN) SetState(b []byte) error {
	next := ADWIN{cfg: a.cfg}
	if err := words.Read(b, next.state); err != nil {
		return err
	}
	*a = next
	return nil
}

// maxRows keeps the number of values within 63 bits.
const maxRows = 56

func (a *ADWIN) state(s *words.Stream) {
	s.Flag(&a.done, "whether the mean has changed")
	s.Uint(&a.tick)
	s.Float(&a.sum.total)
	s.Float(&a.sum.squares)
	rows := len(a.rows)
	if s.Below(&rows, maxRows+1, "rows"); s.Reads {
		a.rows = make([][]bucket, rows)
	}
	for i := range a.rows {
		n := len(a.rows[i])
		if s.Below(&n, a.cfg.MaxBuckets+1, "buckets"); s.Reads {
			a.rows[i], a.n = make([]bucket, n), a.n+uint64(n)<<i
		}
		for k := range a.rows[i] {
			s.Float(&a.rows[i][k].total)
			s.Float(&a.rows[i][k].squares)
		}
	}
	// drop needs a last row that is not empty and n ≤ tick.
	s.Check(rows == 0 || len(a.rows[rows-1]) > 0, "the last of %d rows is empty", rows)
	s.Check(a.n <= a.tick, "%d values of %d", a.n, a.tick)
}
