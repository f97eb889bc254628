package conformal

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// Method is how thresholds follow the stream.
type Method uint8

const (
	// ACI is adaptive conformal inference (Gibbs & Candès 2021). The threshold is a
	// quantile of the latest scores, at a level that a miss raises and a hit lowers.
	// The level stays between 1 - 2α and 1 - α/3, so that very late labels cannot make
	// it swing between empty and full sets.
	ACI Method = iota
	// PID is conformal PID control (Angelopoulos, Candès & Tibshirani 2023). The
	// threshold is the 1-α quantile of the latest scores, plus an offset that a miss
	// raises and a hit lowers, plus a saturating function of all misses so far.
	PID
	// Fixed is split conformal prediction: the threshold of Calibrate, or, without it,
	// of the first Window scores that come.
	Fixed
)

// String returns "aci", "pid" or "fixed".
func (m Method) String() string {
	switch m {
	case ACI:
		return "aci"
	case PID:
		return "pid"
	case Fixed:
		return "fixed"
	}
	return fmt.Sprintf("Method(%d)", uint8(m))
}

// Config holds the constants of a Predictor.
type Config struct {
	Classes int
	Alpha   float64 // α in (0, 0.5]: the share of sets that may miss their label
	Score   Score
	Method  Method

	// PerClass gives each class its own threshold, learned from rows with that label,
	// so that coverage holds within each class. A class is in every set until 1/α - 1
	// labels of it have come.
	PerClass bool
	// Slices is the number of groups of rows that have their own thresholds; 1 for
	// none.
	Slices int

	Window int // scores kept for each threshold
	// Rate > 0 is the step of a label: γ of ACI's level, such as 0.001; of PID's offset
	// as a share of the range of the scores, such as 0.005. If Rate times the number of
	// labels on their way is near 1, ACI's level swings between its bounds.
	Rate float64
	// Gain ≥ 0 bounds ACI's rate by Gain/lag for rows with a Lag, so that Rate may be
	// large if labels come at once; 0 for no bound.
	Gain float64
	// Impute > 0 adds rows without labels to the scores, see [Predictor.Impute]: those
	// served after the latest row with a label, and more while there are fewer scores
	// than this. 0 for none.
	Impute int
	// Integral ≥ 0, as a share of the range of the scores, and Horizon > 0, in misses
	// beyond α, are the constants of PID's saturating term: Integral·x/(1-|x|) with
	// x = misses/Horizon.
	Integral, Horizon float64

	Seed uint64 // of the uniforms of randomized and imputed scores
}

// DefaultConfig returns the constants that held coverage best, with the smallest sets,
// on simulated streams with drift and labels up to ten batches late: LAC scores and
// ACI with γ .001 over 500 scores, at α .1.
func DefaultConfig(classes int) Config {
	return Config{Classes: classes, Alpha: 0.1, Slices: 1, Window: 500, Rate: 0.001, Integral: 0.1, Horizon: 200, Seed: 1}
}

// maxScores bounds the scores that a Predictor keeps, and so its memory.
const maxScores = 1 << 24

// Validate reports every field that is out of range, with the remedy.
func (c Config) Validate() error {
	var r check.Remedies
	r.Unless(c.Classes > 1, "classes %d: give 2 or more", c.Classes)
	r.Unless(c.Alpha > 0 && c.Alpha <= 0.5, "alpha %v: give the share of labels to miss, such as 0.1", c.Alpha)
	r.Unless(c.Method <= Fixed, "method %v: give aci, pid or fixed", c.Method)
	r.Unless(c.Slices > 0, "slices %d: give 1 for none, or more", c.Slices)
	r.Unless(c.Window > 0 && float64(c.Window)*c.Alpha >= 3, "window %d: give at least 3/alpha, such as 500", c.Window)
	r.Unless(float64(c.Window)*float64(c.Slices)*float64(c.perSlice()) <= maxScores, "window %d of %d slices of %d thresholds: keep the product at %d or less", c.Window, c.Slices, c.perSlice(), maxScores)
	r.Unless(c.Rate > 0 && c.Rate <= 1, "rate %v: give a positive number of at most 1, such as 0.001", c.Rate)
	r.Unless(c.Gain >= 0 && c.Gain <= 1, "gain %v: give 0 for none, or a positive number of at most 1, such as 0.25", c.Gain)
	r.Unless(c.Impute >= 0 && c.Impute <= c.Window, "impute %d: give 0 for none, or a number up to the window of %d", c.Impute, c.Window)
	r.Unless(c.Integral >= 0 && c.Integral <= maxGain, "integral %v: give 0 for none, or a positive number of at most %d, such as 0.1", c.Integral, maxGain)
	r.Unless(c.Horizon >= 1 && c.Horizon <= maxScores, "horizon %v: give 1 or more, such as 200", c.Horizon)
	return errors.Join(c.Score.Validate(), r.Join())
}

const maxGain = 1000

// perSlice returns the number of thresholds of a slice.
func (c Config) perSlice() int {
	if c.PerClass {
		return c.Classes
	}
	return 1
}

// Rows are predictions as they were served.
type Rows struct {
	Probs []float64 // n × C
	// ID, n, identifies rows: with the seed it determines a row's uniform number, the
	// same when the row is served and when its label comes. IDs ascend in the order of
	// serving, as a count of arrivals does. It may be nil without randomized scores and
	// Impute.
	ID []uint64
	// Slice, n, is the group of every row, from 0. It may be nil if Slices is 1.
	Slice []int32
	// Lag, n, is the number of rows that were served between each row and its label,
	// at least 1. Only Learn reads it; if it is nil, Gain has no effect.
	Lag []int
}

// Predictor predicts sets for rows as they are served, and learns thresholds from their
// labels. Two goroutines must not use it at once.
type Predictor struct {
	cfg   Config
	cells []cell // slices × perSlice
	// through is 1 + the largest ID of a row that has a label.
	through uint64

	scores []float64 // C; scratch
}

// New returns a predictor whose sets hold all classes until it has learned. It panics
// if cfg does not validate.
func New(cfg Config) *Predictor {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	p := &Predictor{cfg: cfg, cells: make([]cell, cfg.Slices*cfg.perSlice()), scores: make([]float64, cfg.Classes)}
	for i := range p.cells {
		p.cells[i] = newCell(&p.cfg)
	}
	return p
}

// Thresholds returns the current thresholds, slices × C with PerClass and one for each
// slice otherwise. An infinite threshold admits all classes.
func (p *Predictor) Thresholds() []float64 {
	t := make([]float64, len(p.cells))
	for i := range p.cells {
		t[i] = p.cells[i].threshold
	}
	return t
}

// SetThresholds sets the thresholds to those that another predictor of the same configuration
// has learned, as Thresholds returns them, and leaves what they are computed from as it is: it
// is for a predictor that learns and imputes nothing. On an error they stay as they were.
func (p *Predictor) SetThresholds(t []float64) error {
	if len(t) != len(p.cells) {
		return fmt.Errorf("conformal: %d thresholds, want %d", len(t), len(p.cells))
	}
	for _, x := range t {
		if math.IsNaN(x) {
			return fmt.Errorf("conformal: a threshold is %v", x)
		}
	}
	for i, x := range t {
		p.cells[i].threshold = x
	}
	return nil
}

// Sets returns the set of every row.
func (p *Predictor) Sets(rows Rows) []Set {
	n := p.check(rows)
	words := (p.cfg.Classes + 63) / 64
	bits := make([]uint64, n*words)
	sets := make([]Set, n)
	for i := range sets {
		sets[i] = bits[i*words : (i+1)*words : (i+1)*words]
		u := p.uniform(rows, i)
		p.cfg.Score.all(p.scores, p.row(rows, i), func(int) float64 { return u })
		for c, score := range p.scores {
			if score <= p.cell(rows, i, int32(c)).threshold {
				sets[i].add(c)
			}
		}
	}
	return sets
}

// Calibrate adds the scores of labelled rows that were not served, such as those of a
// warm-up, to the windows; levels and offsets do not change. With Fixed, it sets the
// thresholds from these rows alone.
func (p *Predictor) Calibrate(rows Rows, labels []int32) {
	n := p.checkLabels(rows, labels)
	scores := make([][]float64, len(p.cells))
	for i := range n {
		k := p.index(rows, i, labels[i])
		scores[k] = append(scores[k], p.score(rows, i, labels[i]))
	}
	for k := range p.cells {
		p.cells[k].calibrate(&p.cfg, scores[k])
	}
}

// Learn updates the thresholds with labelled rows, in order. covered reports for each
// row whether the set that was served held the label; so the coverage of served sets
// is controlled, however late labels come. If covered is nil, the set under the
// current thresholds is used instead. With Fixed, Learn changes nothing after
// Calibrate or after Window labels.
func (p *Predictor) Learn(rows Rows, labels []int32, covered []bool) {
	n := p.checkLabels(rows, labels)
	if covered != nil && len(covered) != n {
		panic(fmt.Sprintf("conformal: covered for %d of %d rows", len(covered), n))
	}
	for i := range n {
		c, score := p.cell(rows, i, labels[i]), p.score(rows, i, labels[i])
		now := score <= c.threshold
		served := now
		if covered != nil {
			served = covered[i]
		}
		rate := p.cfg.Rate
		if p.cfg.Gain > 0 && rows.Lag != nil {
			rate = min(rate, p.cfg.Gain/float64(rows.Lag[i]))
		}
		if p.cfg.Impute > 0 && len(rows.ID) == n {
			p.through = max(p.through, rows.ID[i]+1)
		}
		c.learn(&p.cfg, score, served, now, rate, p.through)
	}
}

func (p *Predictor) check(rows Rows) (n int) {
	n = len(rows.Probs) / p.cfg.Classes
	if len(rows.Probs) != n*p.cfg.Classes ||
		p.cfg.Score.randomized() && len(rows.ID) != n ||
		p.cfg.Slices > 1 && len(rows.Slice) != n {
		panic(fmt.Sprintf("conformal: %d probabilities over %d classes, %d identities, slices of %d rows", len(rows.Probs), p.cfg.Classes, len(rows.ID), len(rows.Slice)))
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

func (p *Predictor) score(rows Rows, i int, label int32) float64 {
	return p.cfg.Score.one(p.row(rows, i), label, p.uniform(rows, i))
}

// index returns the index of the cell of a class in row i's slice.
func (p *Predictor) index(rows Rows, i int, class int32) int {
	k := 0
	if p.cfg.Slices > 1 {
		k = int(rows.Slice[i])
		if k < 0 || k >= p.cfg.Slices {
			panic(fmt.Sprintf("conformal: slice %d of %d", k, p.cfg.Slices))
		}
	}
	if p.cfg.PerClass {
		k = k*p.cfg.Classes + int(class)
	}
	return k
}

func (p *Predictor) cell(rows Rows, i int, class int32) *cell {
	return &p.cells[p.index(rows, i, class)]
}

// uniform returns row i's number in [0, 1), 0 without randomized scores.
func (p *Predictor) uniform(rows Rows, i int) float64 {
	if !p.cfg.Score.randomized() {
		return 0
	}
	return p.draw(rows.ID[i])
}

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
	threshold float64
	level     float64 // ACI: the miss rate α of the quantile, in [α/3, 2α]; Fixed: 0 after Calibrate
	offset    float64 // PID: offset of the threshold from the quantile
	missed    float64 // PID: Σ (1 - α for a miss, -α for a hit)

	window []float64 // the latest scores of labels; a ring from next once it is full
	next   int       // index of the oldest score once the window is full
	sorted []float64 // the scores of window, ascending
	imputed
}

func newCell(cfg *Config) cell { return cell{threshold: math.Inf(1), level: cfg.Alpha} }

func (c *cell) calibrate(cfg *Config, scores []float64) {
	c.imputed = imputed{}
	if cfg.Method == Fixed {
		c.threshold, c.level = Threshold(scores, cfg.Alpha), 0
		return
	}
	for _, s := range scores {
		c.push(cfg, s)
	}
	c.setThreshold(cfg)
}

// learn updates the cell with the score of a label. served reports whether the served
// set held the label, now whether the current threshold admits it. PID's offset uses
// now: the offset is unbounded, so with served it would oscillate when labels are late.
func (c *cell) learn(cfg *Config, score float64, served, now bool, rate float64, through uint64) {
	if cfg.Method == Fixed {
		if c.level > 0 && len(c.window) < cfg.Window {
			c.push(cfg, score)
			c.prune(cfg, len(c.window), through)
			c.setThreshold(cfg)
		}
		return
	}
	// While there are too few scores for a finite threshold, every set is full.
	if !math.IsInf(quantile(cfg.Alpha, c.sorted, c.sortedImputed), 1) {
		c.level -= float64(rate * miss(served, cfg.Alpha))
		c.level = min(max(c.level, cfg.Alpha/3), 2*cfg.Alpha)
		c.offset += float64(cfg.Rate * c.spread() * miss(now, cfg.Alpha))
		c.missed += miss(served, cfg.Alpha)
	}
	c.push(cfg, score)
	c.prune(cfg, len(c.window), through)
	c.setThreshold(cfg)
}

// miss returns 1 - α for a miss and -α for a hit: its mean is 0 at the stated coverage.
func miss(hit bool, alpha float64) float64 {
	if hit {
		return -alpha
	}
	return 1 - alpha
}

// spread returns the range of the scores. There must be at least one.
func (c *cell) spread() float64 {
	all := [2][]float64{c.sorted, c.sortedImputed}
	if len(all[0]) == 0 || len(all[1]) == 0 {
		all[0] = slices.Concat(all[0], all[1])
		all[1] = all[0]
	}
	return max(last(all[0]), last(all[1])) - min(all[0][0], all[1][0])
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
func (c *cell) setThreshold(cfg *Config) {
	if cfg.Method == ACI {
		c.threshold = quantile(c.level, c.sorted, c.sortedImputed)
		return
	}
	c.threshold = quantile(cfg.Alpha, c.sorted, c.sortedImputed)
	if cfg.Method == PID && len(c.sorted) > 0 {
		x := min(max(c.missed/cfg.Horizon, -saturated), saturated)
		c.threshold += c.offset + float64(cfg.Integral*c.spread()*(x/(1-math.Abs(x))))
	}
}

// saturated bounds |x| in PID's saturating term, which is infinite at 1.
const saturated = 0.999
