package conformal

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// Outside scores how far an embedding is from a reference, the first rows seen,
// without labels: the score is its squared Mahalanobis distance (after Lee et al. 2018,
// with one mean instead of one for each class). The unit is the 99th percentile of the
// distances of the reference's rows, each measured from the half of the reference that
// it is not part of: a score above 1 is rare in the reference, one above 2 hardly
// occurs there.
//
// The reference is full after 16 rows for each dimension. Scores are 0 until then, and
// the reference does not change afterwards.
type Outside struct {
	dim int
	// rows is the reference while it fills, n × dim; nil once it is full.
	rows []float64

	mean   []float64
	factor []float64 // L of the covariance LLᵀ, lower triangle, dim × dim
	unit   float64   // the squared distance that scores 1

	x []float64 // scratch
}

// referenceRows is the number of rows of the reference for each dimension, so that the
// covariance is estimated well.
const referenceRows = 16

// maxOutsideDim bounds the reference, which has 16·dim² numbers.
const maxOutsideDim = 1024

// NewOutside returns a score for embeddings of dim dimensions, with an empty reference.
// It panics unless dim is 1 to 1024.
func NewOutside(dim int) *Outside {
	if dim < 1 || dim > maxOutsideDim {
		panic(fmt.Sprintf("conformal: embeddings of %d dimensions: want 1 to %d", dim, maxOutsideDim))
	}
	return &Outside{dim: dim, rows: []float64{}, x: make([]float64, dim)}
}

// Full reports whether the reference is full.
func (o *Outside) Full() bool { return o.rows == nil }

// Learn adds an embedding, which must be finite, to the reference unless that is full.
func (o *Outside) Learn(z []float32) {
	o.check(z)
	if o.Full() {
		return
	}
	for _, x := range z {
		o.rows = append(o.rows, float64(x))
	}
	if len(o.rows) == referenceRows*o.dim*o.dim {
		o.fit()
	}
}

// Score returns the score of an embedding, 0 until the reference is full.
func (o *Outside) Score(z []float32) float64 {
	o.check(z)
	if !o.Full() {
		return 0
	}
	for j, x := range z {
		o.x[j] = float64(x)
	}
	return distance(o.x, o.mean, o.factor) / o.unit
}

func (o *Outside) check(z []float32) {
	if len(z) != o.dim {
		panic(fmt.Sprintf("conformal: embedding of dimension %d, not %d", len(z), o.dim))
	}
}

// fit sets mean, factor and unit from the reference. A row is too close to a mean and a
// covariance that it is part of, so the unit comes from the distances of each half's
// rows from the other half.
func (o *Outside) fit() {
	half := len(o.rows) / 2
	var distances []float64
	for _, side := range [...][2][]float64{{o.rows[:half], o.rows[half:]}, {o.rows[half:], o.rows[:half]}} {
		mean, factor := moments(side[0], o.dim)
		for rest := side[1]; len(rest) > 0; rest = rest[o.dim:] {
			copy(o.x, rest)
			distances = append(distances, distance(o.x, mean, factor))
		}
	}
	slices.Sort(distances)
	o.unit = max(distances[len(distances)*99/100], math.SmallestNonzeroFloat32)
	o.mean, o.factor = moments(o.rows, o.dim)
	o.rows = nil
}

// ridge is added to the variances, as a share of their mean, because embeddings may lie
// in a subspace.
const ridge = 0.001

// moments returns the mean of rows and the Cholesky factor of their covariance, with the
// ridge. It does not use LAPACK, whose factorisation fails where rounding makes a pivot
// negative; here pivots are bounded from below.
func moments(rows []float64, d int) (mean, factor []float64) {
	n := float64(len(rows) / d)
	mean, factor = make([]float64, d), make([]float64, d*d)
	for rest := rows; len(rest) > 0; rest = rest[d:] {
		for j := range mean {
			mean[j] += rest[j]
		}
	}
	for j := range mean {
		mean[j] /= n
	}
	for rest := rows; len(rest) > 0; rest = rest[d:] {
		for i := range d {
			x := rest[i] - mean[i]
			for j := range i + 1 {
				factor[i*d+j] += float64(x * (rest[j] - mean[j]))
			}
		}
	}
	var trace float64
	for j := range d {
		trace += factor[j*d+j]
	}
	for i := range factor {
		factor[i] /= n
	}
	// If all rows are equal the covariance is 0, and any positive ridge will do.
	least := max(ridge*trace/n/float64(d), math.SmallestNonzeroFloat32)
	for i := range d {
		factor[i*d+i] += least
		for j := range i + 1 {
			sum := factor[i*d+j]
			for k := range j {
				sum -= float64(factor[i*d+k] * factor[j*d+k])
			}
			if i == j {
				factor[i*d+i] = math.Sqrt(max(sum, least)) // rounding may bring it below
			} else {
				factor[i*d+j] = sum / factor[j*d+j]
			}
		}
	}
	return mean, factor
}

// distance returns |L⁻¹(x - mean)|² and overwrites x.
func distance(x, mean, factor []float64) (sum float64) {
	d := len(x)
	for i := range d {
		y := x[i] - mean[i]
		for j := range i {
			y -= float64(factor[i*d+j] * x[j])
		}
		y /= factor[i*d+i]
		x[i] = y
		sum += float64(y * y)
	}
	return sum
}

// AppendState appends the whole state to b as canonical bytes: the number of rows of an
// unfinished reference and the rows, or 2⁶⁴-1 and mean, factor and unit.
func (o *Outside) AppendState(b []byte) []byte {
	if !o.Full() {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(o.rows)/o.dim))
		return appendNumbers(b, o.rows)
	}
	b = binary.LittleEndian.AppendUint64(b, math.MaxUint64)
	b = appendNumbers(b, o.mean)
	b = appendNumbers(b, o.factor)
	return appendNumbers(b, []float64{o.unit})
}

func appendNumbers(b []byte, x []float64) []byte {
	for _, x := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// SetState reads what AppendState wrote for a score of the same dimension. On an error
// the state is as it was.
func (o *Outside) SetState(b []byte) error {
	if len(b) < 8 || len(b)%8 != 0 {
		return errLength
	}
	n := binary.LittleEndian.Uint64(b)
	numbers := make([]float64, len(b)/8-1)
	for i := range numbers {
		numbers[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*(i+1):]))
	}
	if !check.Finite(numbers...) {
		return errValue
	}
	d := o.dim
	if n != math.MaxUint64 {
		if n >= uint64(referenceRows*d) {
			return errValue
		}
		if len(numbers) != int(n)*d {
			return errLength
		}
		o.rows, o.mean, o.factor, o.unit = numbers, nil, nil, 0
		return nil
	}
	if len(numbers) != d+d*d+1 {
		return errLength
	}
	for i := range d {
		if !(numbers[d+i*d+i] > 0) {
			return errValue
		}
	}
	if !(numbers[d+d*d] > 0) {
		return errValue
	}
	o.rows, o.mean, o.factor, o.unit = nil, numbers[:d:d], numbers[d:d+d*d:d+d*d], numbers[d+d*d]
	return nil
}
