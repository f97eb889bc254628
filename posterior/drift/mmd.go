package drift

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/posterior/internal/words"
)

// mmdConfig holds the constants of an MMD.
type mmdConfig struct {
	Dim       int // dimension of an embedding
	Features  int // random Fourier features of an embedding
	Reference int // rows of the reference window, at least 4 blocks
	Block     int // rows that are compared with the reference at a time
	// FalseAlarms is the share of blocks with a false alarm if rows are independent.
	// Correlated rows cause more.
	FalseAlarms float64
	InARow      int    // blocks in a row beyond the threshold that are a drift: a lasting one, not chance
	Seed        uint64 // of the random features and of the threshold's draws
}

// MMD compares blocks of embeddings, the rows, with a reference window, the first rows seen, by their
// maximum mean discrepancy (Gretton et al. 2012): the squared distance between the mean
// of a kernel's features over the block and over the reference. A block is a drift if it
// is further away than all but a share FalseAlarms of random blocks of the reference
// itself, each measured from the rest of the reference. The reference's rows are only
// kept until it is full; then their mean features are enough.
//
// The kernel approximates the Gaussian exp(-|x-y|²/2σ²), σ the median distance of the
// reference's rows, by D random Fourier features √(2/D) cos(2π(w·x/σ + b)) (Rahimi & Recht 2007).
// Angles are in turns, so that they are reduced without error.
type MMD struct {
	cfg   mmdConfig
	waves []float64 // w, dim × features; entries approximately N(0, 1/4π²)
	phase []float64 // b, one for each feature, in [0, 1)

	scaled, turns []float64 // scratch of add: x/σ, and the angles

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
	scale     float64   // 1/σ
}

// comparison is the result of comparing the latest block with the reference.
type comparison struct {
	Blocks    uint64  // blocks compared so far, over all references
	MMD       float64 // squared distance of the latest block
	Threshold float64 // a larger MMD is a drift
}

// NewMMD returns a detector that has seen no row, for embeddings of dimension dim.
func NewMMD(dim int) *MMD {
	return newMMD(mmdConfig{Dim: dim, Features: 64, Reference: 512, Block: 128, FalseAlarms: 0.003, InARow: 2, Seed: 1})
}

// Streams of the seed: features and threshold draw independently.
const (
	featureStream   = 1
	thresholdStream = 2
)

func newMMD(cfg mmdConfig) *MMD {
	rng := rand.New(rand.NewPCG(cfg.Seed, featureStream))
	m := &MMD{
		cfg: cfg, waves: make([]float64, cfg.Dim*cfg.Features), phase: make([]float64, cfg.Features),
		scaled: make([]float64, cfg.Dim), turns: make([]float64, cfg.Features), block: make([]float64, cfg.Features),
	}
	for i := range m.waves {
		m.waves[i] = normal(rng) / (2 * math.Pi)
	}
	for k := range m.phase {
		m.phase[k] = rng.Float64()
	}
	return m
}

// normal returns a sum of twelve uniforms less 6: mean 0, variance 1, and close enough to
// a normal for a kernel's spectrum. rand's own normals use math.Exp, whose bits differ
// between processors.
func normal(rng *rand.Rand) (x float64) {
	for range 12 {
		x += float64(rng.Float64())
	}
	return x - 6
}

// Add adds the next row and reports whether it completes the last of InARow blocks that differ from
// the reference. It panics at a row of another dimension.
func (m *MMD) Add(x []float32) (drift bool) {
	if len(x) != m.cfg.Dim {
		panic(fmt.Sprintf("drift: embedding of dimension %d, not %d", len(x), m.cfg.Dim))
	}
	if m.done {
		m.base, m.far, m.done = base{}, 0, false
	}
	if m.base.mean == nil {
		m.reference = append(m.reference, slices.Clone(x))
		if len(m.reference) == m.cfg.Reference {
			m.base = m.fit()
			m.reference = nil
		}
		return false
	}
	m.add(m.block, x, m.base.scale)
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
	m.done = m.far == uint64(m.cfg.InARow)
	return m.done
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

// add adds the features of a row to sum.
func (m *MMD) add(sum []float64, x []float32, scale float64) {
	for j, x := range x {
		m.scaled[j] = float64(x) * scale
	}
	copy(m.turns, m.phase)
	double.AddProduct(m.turns, m.scaled, m.waves, 1, m.cfg.Dim, len(m.turns))
	height := math.Sqrt(2 / float64(len(m.turns)))
	for k, t := range m.turns {
		sum[k] += float64(height * cosine(t))
	}
}

// cosine returns cos(2πt) by the Taylor polynomial of the sine about its nearest zero,
// with an error below 1e-11 as long as float64 resolves t to that, and the same bits
// everywhere.
func cosine(t float64) float64 {
	const s3, s5, s7, s9, s11, s13, s15 = -1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800, 1. / 6227020800, -1. / 1307674368000
	x := (0.25 - math.Abs(t-math.RoundToEven(t))) * (2 * math.Pi)
	u := x * x
	return x * (1 + float64(u*(s3+float64(u*(s5+float64(u*(s7+float64(u*(s9+float64(u*(s11+float64(u*(s13+float64(u*s15))))))))))))))
}

// pairRows is the number of rows whose distances give the median, up to twice as many.
const pairRows = 128

// inverseMedian returns 1/σ of the reference, 1 if more than half of the distances are 0.
func (m *MMD) inverseMedian() float64 {
	every := max(len(m.reference)/pairRows, 1)
	var distances []float64
	for i := 0; i < len(m.reference); i += every {
		for j := 0; j < i; j += every {
			var sum float64
			for k, x := range m.reference[i] {
				d := float64(x) - float64(m.reference[j][k])
				sum += float64(d * d)
			}
			distances = append(distances, sum)
		}
	}
	slices.Sort(distances)
	if median := distances[len(distances)/2]; median > 0 {
		return 1 / math.Sqrt(median)
	}
	return 1
}

// drawsPerAlarm is how many of the random blocks lie beyond the threshold: enough to
// estimate the quantile.
const drawsPerAlarm = 10

// fit returns the summary of the full reference.
func (m *MMD) fit() base {
	n, width := len(m.reference), m.cfg.Features
	b := base{mean: make([]float64, width), scale: m.inverseMedian()}
	stride := (width + 7) / 8 * 8 // see double.Row
	features, total := make([]float64, n*stride), b.mean
	order, ones := make([]int32, n), slices.Repeat([]float32{1}, m.cfg.Block)
	for i, x := range m.reference {
		order[i] = int32(i)
		row := features[i*stride : i*stride+width]
		m.add(row, x, b.scale)
		for k, feature := range row {
			total[k] += feature
		}
	}
	// The largest distances, ascending; the first becomes the threshold.
	var far [drawsPerAlarm]float64
	draws := rand.New(rand.NewPCG(m.cfg.Seed, thresholdStream))
	sum, rest := make([]float64, stride), make([]float64, width)
	var block double.Row
	for range int(math.Ceil(drawsPerAlarm / m.cfg.FalseAlarms)) {
		for i := range m.cfg.Block {
			j := i + draws.IntN(n-i)
			order[i], order[j] = order[j], order[i]
		}
		block.Reset()
		block.AppendScaled(0, order[:m.cfg.Block], ones, 1)
		block.Product(sum, features, stride)
		for k := range rest {
			rest[k] = total[k] - sum[k]
		}
		d := distance(sum[:width], float64(m.cfg.Block), rest, float64(n-m.cfg.Block))
		if d <= far[0] {
			continue
		}
		k := 1
		for ; k < len(far) && far[k] < d; k++ {
			far[k-1] = far[k]
		}
		far[k-1] = d
	}
	b.threshold = far[0]
	for k := range b.mean {
		b.mean[k] /= float64(n)
	}
	return b
}

// AppendState appends the whole state to b as canonical bytes.
func (m *MMD) AppendState(b []byte) []byte { return words.Append(b, m.state) }

// SetState reads what AppendState wrote. On an error the state is as it was.
func (m *MMD) SetState(b []byte) error {
	next := *m
	next.reference, next.base, next.block, next.rows = nil, base{}, make([]float64, len(m.block)), 0
	if err := words.Read(b, next.state); err != nil {
		return err
	}
	*m = next
	return nil
}

// state declares either the rows of an unfinished reference, or a full one and the unfinished block.
func (m *MMD) state(s *words.Stream) {
	s.Flag(&m.done, "whether there is a drift")
	s.Uint(&m.far)
	s.Check(m.far <= uint64(m.cfg.InARow), "%d blocks in a row of %d", m.far, m.cfg.InARow)
	s.Uint(&m.last.Blocks)
	s.Float(&m.last.MMD)
	s.Float(&m.last.Threshold)
	full := m.base.mean != nil
	if s.Flag(&full, "whether the reference is full"); !full {
		s.Check(!m.done, "a drift from a reference that is not full")
		m.stateOfReference(s)
		return
	}
	if s.Reads {
		m.base.mean = make([]float64, m.cfg.Features)
	}
	s.Floats(m.base.mean)
	s.Float(&m.base.threshold)
	s.Float(&m.base.scale)
	s.Check(m.base.scale > 0, "the scale is %v", m.base.scale)
	s.Below(&m.rows, m.cfg.Block, "rows of a block")
	s.Floats(m.block)
}

func (m *MMD) stateOfReference(s *words.Stream) {
	n := len(m.reference)
	if s.Below(&n, m.cfg.Reference, "rows of a reference"); s.Reads {
		m.reference = nil
	}
	for i := range n {
		if s.Reads {
			if !s.Holds(m.cfg.Dim) {
				return
			}
			m.reference = append(m.reference, make([]float32, m.cfg.Dim))
		}
		for j, x := range m.reference[i] {
			wide := float64(x)
			if s.Float(&wide); s.Reads {
				m.reference[i][j] = float32(wide)
				s.Check(float64(float32(wide)) == wide, "an element is %v", wide)
			}
		}
	}
}
