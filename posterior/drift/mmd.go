package drift

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// mmdConfig holds the constants of an MMD.
type mmdConfig struct {
	Dim       int // dimension of an embedding
	Features  int // random Fourier features of an embedding
	Reference int // rows of the reference window, at least 4 blocks
	Block     int // rows that are compared with the reference at a time
	// FalseAlarms in [1e-4, 0.5] is the share of blocks with a false alarm if rows
	// are independent. Correlated rows cause more.
	FalseAlarms float64
	// InARow ≥ 1 blocks in a row beyond the threshold are a drift: a lasting one, not chance.
	InARow int
	Seed   uint64 // of the random features and of the threshold's draws
	// Keep keeps the reference after a drift, so that a lasting change is detected
	// in every block. Otherwise the rows after a drift are the new reference.
	Keep bool
}

// DefaultMMD returns 64 features, blocks of 64 rows, a reference of 1024 and one false
// alarm in a thousand blocks, for embeddings of dimension dim.
func DefaultMMD(dim int) mmdConfig {
	return mmdConfig{Dim: dim, Features: 64, Reference: 1024, Block: 64, FalseAlarms: 0.001, InARow: 1, Seed: 1}
}

// maxNumbers bounds the reference window and the matrix of the features.
const maxNumbers = 1 << 24

// Validate reports every constant that is out of range, with the remedy.
func (c mmdConfig) Validate() error {
	small := func(a, b int) bool { return a > 0 && b > 0 && a <= maxNumbers/b }
	var r check.Remedies
	r.Unless(c.Dim > 0, "dim %d: give the dimension of an embedding", c.Dim)
	r.Unless(small(c.Features, max(c.Dim, 1)) && small(c.Features, max(c.Reference, 1)), "features %d: give 1 or more, such as 64, and with %d dimensions and %d rows of reference no more than %d numbers", c.Features, c.Dim, c.Reference, maxNumbers)
	r.Unless(c.Block > 0 && c.Block <= maxNumbers, "block %d: give 1 or more, such as 64", c.Block)
	r.Unless(c.Block > 0 && c.Reference/4 >= c.Block && small(c.Reference, max(c.Dim, 1)), "reference %d: give at least four blocks of %d and, at %d dimensions, no more than %d numbers", c.Reference, c.Block, c.Dim, maxNumbers)
	r.Unless(c.FalseAlarms >= 1e-4 && c.FalseAlarms <= 0.5, "false alarms %v: give a share of blocks from 1e-4 to 0.5, such as 0.001", c.FalseAlarms)
	r.Unless(c.InARow > 0 && c.InARow <= maxNumbers, "%d blocks in a row: give 1 or more, such as 2", c.InARow)
	return r.Join()
}

// MMD compares blocks of embeddings, the rows, with a reference window, the first rows seen, by their
// maximum mean discrepancy (Gretton et al. 2012): the squared distance between the mean
// of a kernel's features over the block and over the reference. A block is a drift if it
// is further away than all but a share FalseAlarms of random blocks of the reference
// itself, each measured from the rest of the reference. The reference's rows are only
// kept until it is full; then their mean features are enough.
//
// The kernel approximates the Gaussian exp(-|x-y|²/2σ²), σ the median distance of the
// reference's rows, by Features random Fourier features (Rahimi & Recht 2007).
type MMD struct {
	cfg    mmdConfig
	kernel *fourier

	reference [][]float32 // the reference while it fills, then nil
	base      base

	block []float64 // Σ of the features of the unfinished block
	rows  int       // its rows, fewer than cfg.Block
	far   uint64    // latest blocks in a row beyond the threshold
	last  comparison
	done  bool // a drift was detected: the next row starts a new reference
}

// base is the summary of a full reference, the zero value until then.
type base struct {
	mean      []float64 // mean of the features
	threshold float64   // squared distance beyond which a block is a drift
}

// comparison is the result of comparing the latest block with the reference.
type comparison struct {
	Blocks    uint64  // blocks compared so far, over all references
	MMD       float64 // squared distance of the latest block
	Threshold float64 // a larger MMD is a drift
}

// NewMMD returns a detector that has seen no row. It panics if cfg does not validate.
func NewMMD(cfg mmdConfig) *MMD {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &MMD{cfg: cfg, kernel: newFourier(cfg), block: make([]float64, cfg.Features)}
}

// Add adds the next row and reports whether it completes the last of InARow blocks that differ from
// the reference. It panics at a row of another dimension.
func (m *MMD) Add(x []float32) (drift bool) {
	m.kernel.check(x)
	if m.done {
		m.base, m.far, m.done = base{}, 0, false
	}
	if m.base.mean == nil {
		m.reference = append(m.reference, slices.Clone(x))
		if len(m.reference) == m.cfg.Reference {
			m.kernel.fit(m.reference)
			m.base = m.fit()
			m.reference = nil
		}
		return false
	}
	m.kernel.add(m.block, x)
	if m.rows++; m.rows < m.cfg.Block {
		return false
	}
	m.last.Blocks++
	m.last.MMD, m.last.Threshold = distance(m.block, float64(m.rows), m.base.mean, 1), m.base.threshold
	clear(m.block)
	m.rows = 0
	m.far = min(m.far+1, uint64(m.cfg.InARow))
	if m.last.MMD <= m.base.threshold {
		m.far = 0
	}
	drift = m.far == uint64(m.cfg.InARow)
	m.done = drift && !m.cfg.Keep
	return drift
}

// Last returns the latest comparison, zeros before the first.
func (m *MMD) Last() comparison { return m.last }

// distance returns |x/n - y/k|².
func distance(x []float64, n float64, y []float64, k float64) (sum float64) {
	byN, byK := 1/n, 1/k
	for i, x := range x {
		d := float64(x*byN) - float64(y[i]*byK)
		sum += float64(d * d)
	}
	return sum
}

// drawsPerAlarm is how many of the random blocks lie beyond the threshold: enough to
// estimate the quantile.
const drawsPerAlarm = 10

// fit returns mean and threshold of the full reference.
func (m *MMD) fit() base {
	n, width := len(m.reference), m.cfg.Features
	total := make([]float64, width)
	sums := m.kernel.sums(total, m.reference)
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	// The largest distances, ascending; the first becomes the threshold.
	var far [drawsPerAlarm]float64
	draws := rand.New(rand.NewPCG(m.cfg.Seed, thresholdStream))
	sum, rest := make([]float64, width), make([]float64, width)
	for range int(math.Ceil(drawsPerAlarm / m.cfg.FalseAlarms)) {
		for i := range m.cfg.Block {
			j := i + draws.IntN(n-i)
			order[i], order[j] = order[j], order[i]
		}
		sums(sum, order[:m.cfg.Block])
		for k, x := range sum {
			rest[k] = total[k] - x
		}
		d := distance(sum, float64(m.cfg.Block), rest, float64(n-m.cfg.Block))
		if d <= far[0] {
			continue
		}
		k := 1
		for ; k < len(far) && far[k] < d; k++ {
			far[k-1] = far[k]
		}
		far[k-1] = d
	}
	b := base{mean: total, threshold: far[0]}
	for k := range b.mean {
		b.mean[k] /= float64(n)
	}
	return b
}

// Streams of the seed: features and threshold draw independently.
const (
	featureStream   = 1
	thresholdStream = 2
)

// AppendState appends done, far and the latest comparison, and then either the rows of an
// unfinished reference, or mean, threshold and kernel constants of a full one and the
// unfinished block.
func (m *MMD) AppendState(b []byte) []byte {
	b = appendFlag(b, m.done)
	b = appendCount(b, m.far)
	b = appendCount(b, m.last.Blocks)
	b = appendNumbers(b, m.last.MMD, m.last.Threshold)
	full := m.base.mean != nil
	b = appendFlag(b, full)
	if !full {
		b = appendCount(b, uint64(len(m.reference)))
		for _, x := range m.reference {
			b = m.kernel.appendRow(b, x)
		}
		return b
	}
	b = appendNumbers(b, m.base.mean...)
	b = appendNumbers(b, m.base.threshold)
	b = m.kernel.appendFit(b)
	b = appendCount(b, uint64(m.rows))
	return appendNumbers(b, m.block...)
}

// SetState reads what AppendState wrote.
func (m *MMD) SetState(b []byte) error {
	r := &reader{rest: b}
	next := &MMD{cfg: m.cfg, kernel: m.kernel, block: make([]float64, m.cfg.Features)}
	next.done = r.flag()
	next.far = r.count()
	next.last = comparison{r.count(), r.number(), r.number()}
	ok := check.Finite(next.last.MMD, next.last.Threshold) && next.far <= uint64(m.cfg.InARow)
	if full := r.flag(); full {
		next.base.mean = r.numbers(len(m.block))
		next.base.threshold = r.number()
		var fits bool
		next.kernel, fits = m.kernel.setFit(r)
		rows := r.count()
		next.rows = int(min(rows, maxNumbers))
		if sum := r.numbers(len(m.block)); sum != nil {
			next.block = sum
		}
		ok = ok && fits && rows < uint64(m.cfg.Block) && check.Finite(next.base.threshold) && check.Finite(next.base.mean...) && check.Finite(next.block...)
	} else {
		n := r.count()
		ok = ok && n < uint64(m.cfg.Reference) && !next.done && r.holds(n)
		for i := uint64(0); ok && i < n; i++ {
			var x []float32
			x, ok = m.kernel.row(r)
			next.reference = append(next.reference, x)
		}
	}
	if err := r.end(); r.short || ok && err != nil {
		return errLength
	}
	if !ok {
		return errValue
	}
	*m = *next
	return nil
}
