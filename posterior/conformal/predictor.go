package conformal

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/posterior/internal/check"
)

// Config holds the constants of a Predictor.
type Config struct {
	Classes int
	Alpha   float64 // α in (0, 0.5]: the share of sets that may miss their label

	// PerClass gives each class its own threshold, learned from rows with that label,
	// so that coverage holds within each class. A class is in every set until 1/α - 1
	// labels of it have come.
	PerClass bool
	// Floor α' ≥ α, 0 for none, gives each class a threshold beside that of all: the share of its labels that sets may miss. A
	// class is in a set if either threshold lets it in, so that rare classes are covered at 1 - α' and all labels at 1 - α; and
	// the most probable class is in every set. A class has its threshold from [floorLabels] labels on.
	Floor float64

	Window int // scores kept for each threshold
	// Rate > 0 is the step γ of the level for a label, such as 0.001. If Rate times the
	// number of labels on their way is near 1, the level swings between its bounds.
	Rate float64
	// Gain ≥ 0 bounds the rate by Gain/lag for rows with a Lag, so that Rate may be
	// large if labels come at once; 0 for no bound.
	Gain float64
	// Impute > 0 adds rows without labels to the scores, see [Predictor.Impute]: those
	// served after the latest row with a label, and more while there are fewer scores
	// than this. 0 for none.
	Impute int

	Seed uint64 // of the uniforms of imputed scores
}

// DefaultConfig returns the constants that held coverage best, with the smallest sets,
// on simulated streams with drift and labels up to ten batches late: γ .001 over 500
// scores, at α .1.
func DefaultConfig(classes int) Config {
	return Config{Classes: classes, Alpha: 0.1, Window: 500, Rate: 0.001, Seed: 1}
}

// maxScores bounds the scores that a Predictor keeps, and so its memory.
const maxScores = 1 << 24

// Validate reports every field that is out of range, with the remedy.
func (c Config) Validate() error {
	var r check.Remedies
	r.Unless(c.Classes > 1, "classes %d: give 2 or more", c.Classes)
	r.Unless(c.Alpha > 0 && c.Alpha <= 0.5, "alpha %v: give the share of labels to miss, such as 0.1", c.Alpha)
	r.Unless(c.Floor == 0 || c.Floor >= c.Alpha && c.Floor < 1 && !c.PerClass,
		"floor %v: give 0, or a share of each class's labels to miss that is alpha or more, without thresholds per class alone", c.Floor)
	r.Unless(c.Window > 0 && float64(c.Window)*c.Alpha >= 3, "window %d: give at least 3/alpha, such as 500", c.Window)
	r.Unless(float64(c.Window)*float64(c.thresholds()) <= maxScores,
		"window %d of %d thresholds: keep the product at %d or less", c.Window, c.thresholds(), maxScores)
	r.Unless(c.Rate > 0 && c.Rate <= 1, "rate %v: give a positive number of at most 1, such as 0.001", c.Rate)
	r.Unless(c.Gain >= 0 && c.Gain <= 1, "gain %v: give 0 for none, or a positive number of at most 1, such as 0.25", c.Gain)
	r.Unless(c.Impute >= 0 && c.Impute <= c.Window, "impute %d: give 0 for none, or a number up to the window of %d", c.Impute, c.Window)
	return r.Join()
}

// thresholds returns the number of thresholds.
func (c Config) thresholds() int {
	switch {
	case c.PerClass:
		return c.Classes
	case c.Floor > 0:
		return 1 + c.Classes
	}
	return 1
}

// floorLabels is the number of labels from which on a class has a floor: fewer say little of its scores.
const floorLabels = 20

// Rows are predictions as they were served.
type Rows struct {
	Probs []float64 // n × C
	// ID, n, identifies rows: with the seed it determines the class that Impute draws for
	// a row. IDs ascend in the order of serving, as a count of arrivals does. It may be nil
	// without Impute.
	ID []uint64
	// Lag, n, is the number of rows that were served between each row and its label,
	// at least 1. Only Learn reads it; if it is nil, Gain has no effect.
	Lag []int
}

// Predictor predicts sets for rows as they are served, and learns thresholds from their
// labels by adaptive conformal inference (Gibbs & Candès 2021). A threshold is a quantile
// of the latest scores, at a level that a miss lowers and a hit raises. The level stays
// between α/3 and 2α, so that very late labels cannot make it swing between empty and full
// sets. Two goroutines must not use a Predictor at once.
type Predictor struct {
	cfg   Config
	cells []cell // one, C with PerClass, or with Floor one and then C
	// through is 1 + the largest ID of a row that has a label.
	through uint64
}

// New returns a predictor whose sets hold all classes until it has learned. It panics
// if cfg does not validate.
func New(cfg Config) *Predictor {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	p := &Predictor{cfg: cfg, cells: make([]cell, cfg.thresholds())}
	for i := range p.cells {
		p.cells[i] = p.empty(i)
	}
	return p
}

// empty returns the cell of an index before the first label.
func (p *Predictor) empty(i int) cell {
	if p.cfg.Floor > 0 && i > 0 {
		return cell{alpha: p.cfg.Floor, threshold: math.Inf(-1), level: p.cfg.Floor, least: floorLabels}
	}
	return cell{alpha: p.cfg.Alpha, threshold: math.Inf(1), level: p.cfg.Alpha}
}

// Sets returns the set of every row.
func (p *Predictor) Sets(rows Rows) []set {
	n := p.check(rows)
	words := (p.cfg.Classes + 63) / 64
	bits := make([]uint64, n*words)
	sets := make([]set, n)
	for i := range sets {
		sets[i] = bits[i*words : (i+1)*words : (i+1)*words]
		row := p.row(rows, i)
		top, _ := calibration.Top(row)
		for c := range row {
			if p.holds(p.needs(row, c, top), c) {
				sets[i].add(c)
			}
		}
	}
	return sets
}

// needs returns the score that the threshold of all must reach for a row's set to hold the class: 0 if its floor lets it in, or
// if it is the likeliest class of the row and there are floors.
func (p *Predictor) needs(row []float64, class, likeliest int) float64 {
	s := score(row[class])
	if p.cfg.Floor > 0 && (class == likeliest || s <= p.cells[1+class].threshold) {
		return 0
	}
	return s
}

// holds reports whether the threshold reaches what the class needs.
func (p *Predictor) holds(needs float64, class int) bool {
	return needs <= p.cells[p.index(class)].threshold || p.cfg.Floor > 0 && needs == 0
}

// Learn updates the thresholds with labelled rows, in order. covered reports for each
// row whether the set that was served held the label; so the coverage of served sets
// is controlled, however late labels come. If covered is nil, the set under the
// current thresholds is used instead.
func (p *Predictor) Learn(rows Rows, labels []int32, covered []bool) {
	n := p.checkLabels(rows, labels)
	if covered != nil && len(covered) != n {
		panic(fmt.Sprintf("conformal: covered for %d of %d rows", len(covered), n))
	}
	for i := range n {
		row, y := p.row(rows, i), int(labels[i])
		top, _ := calibration.Top(row)
		needs := p.needs(row, y, top)
		held := p.holds(needs, y)
		if covered != nil {
			held = covered[i]
		}
		rate := p.cfg.Rate
		if p.cfg.Gain > 0 && rows.Lag != nil {
			rate = min(rate, p.cfg.Gain/float64(rows.Lag[i]))
		}
		if p.cfg.Impute > 0 && len(rows.ID) == n {
			p.through = max(p.through, rows.ID[i]+1)
		}
		p.cells[p.index(y)].learn(&p.cfg, needs, held, rate, p.through)
		if p.cfg.Floor > 0 {
			p.cells[1+y].learn(&p.cfg, score(row[y]), held, rate, p.through)
		}
	}
}

func (p *Predictor) check(rows Rows) (n int) {
	n = len(rows.Probs) / p.cfg.Classes
	if len(rows.Probs) != n*p.cfg.Classes {
		panic(fmt.Sprintf("conformal: %d probabilities over %d classes", len(rows.Probs), p.cfg.Classes))
	}
	return n
}

func (p *Predictor) checkLabels(rows Rows, labels []int32) (n int) {
	n = p.check(rows)
	if len(labels) != n {
		panic(fmt.Sprintf("conformal: %d labels for %d rows", len(labels), n))
	}
	for _, y := range labels {
		if y < 0 || int(y) >= p.cfg.Classes {
			panic(fmt.Sprintf("conformal: label %d of %d classes", y, p.cfg.Classes))
		}
	}
	return n
}

func (p *Predictor) row(rows Rows, i int) []float64 {
	return rows.Probs[i*p.cfg.Classes : (i+1)*p.cfg.Classes]
}

// index returns the index of the cell of a class, beside its floor.
func (p *Predictor) index(class int) int {
	if p.cfg.PerClass {
		return class
	}
	return 0
}

// score returns the conformity score of a class of the given probability (Sadinle, Lei &
// Wasserman 2019): it gives the smallest sets on average.
func score(prob float64) float64 { return 1 - prob }

// draw returns the uniform number of an ID: one output of SplitMix64 (Steele, Lea &
// Flood 2014).
func (p *Predictor) draw(id uint64) float64 {
	z := p.cfg.Seed + (id+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) * 0x1p-53
}

// cell is one threshold and the scores that it is computed from.
type cell struct {
	alpha     float64 // the share of labels to miss
	threshold float64
	level     float64 // the miss rate of the quantile, in [α/3, 2α]
	least     int     // labels before which the threshold lets nothing in

	window []float64 // the latest scores of labels; a ring from next once it is full
	next   int       // index of the oldest score once the window is full
	sorted []float64 // the scores of window, ascending
	imputed
}

// learn updates the cell with the score of a label. held reports whether the served set held
// the label.
func (c *cell) learn(cfg *Config, score float64, held bool, rate float64, through uint64) {
	// While there are too few scores for a finite threshold, every set is full.
	if !math.IsInf(quantile(c.alpha, c.sorted, c.sortedImputed), 1) {
		c.level -= float64(rate * miss(held, c.alpha))
		c.level = min(max(c.level, c.alpha/3), 2*c.alpha)
	}
	c.push(cfg, score)
	c.prune(cfg, len(c.window), through)
	c.setThreshold()
}

// miss returns 1 - α for a miss and -α for a hit: its mean is 0 at the stated coverage.
func miss(hit bool, alpha float64) float64 {
	if hit {
		return -alpha
	}
	return 1 - alpha
}

func last(x []float64) float64 { return x[len(x)-1] }

// push adds a score to the window, in place of the oldest if it is full.
func (c *cell) push(cfg *Config, score float64) {
	if len(c.window) < cfg.Window {
		c.window = append(c.window, score)
	} else {
		i, _ := slices.BinarySearch(c.sorted, c.window[c.next])
		c.sorted = slices.Delete(c.sorted, i, i+1)
		c.window[c.next] = score
		c.next = (c.next + 1) % cfg.Window
	}
	i, _ := slices.BinarySearch(c.sorted, score)
	c.sorted = slices.Insert(c.sorted, i, score)
}

// setThreshold recomputes the threshold.
func (c *cell) setThreshold() {
	if len(c.window) >= c.least {
		c.threshold = quantile(c.level, c.sorted, c.sortedImputed)
	}
}

// quantile returns the ⌈(n+1)(1-α)⌉-th smallest of the n scores of two sorted lists together
// (Vovk, Gammerman & Shafer 2005). It is infinite if n is less than that, +Inf for α ≤ 0 and
// -Inf for α ≥ 1.
func quantile(alpha float64, a, b []float64) float64 {
	n := len(a) + len(b)
	if alpha <= 0 {
		return math.Inf(1)
	}
	if alpha >= 1 {
		return math.Inf(-1)
	}
	// ⌈(n+1)(1-α)⌉ = n+1 - ⌊(n+1)α⌋, without the rounding of 1-α.
	switch rank := n + 1 - int(math.Floor(float64(n+1)*alpha)); {
	case rank > n:
		return math.Inf(1)
	case rank < 1:
		return math.Inf(-1)
	default:
		for above := n - rank; ; above-- {
			from := &a
			if len(a) == 0 || len(b) > 0 && last(b) > last(a) {
				from = &b
			}
			if above == 0 {
				return last(*from)
			}
			*from = (*from)[:len(*from)-1]
		}
	}
}
