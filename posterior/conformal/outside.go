package conformal

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Outside scores how unlike the rows known an embedding is, without labels: by
// the squared Mahalanobis distance from a reference, which is the first
// Reference rows seen (after Lee et al. 2018, with one mean instead of one for
// each class), in units of the distance that all but one in a hundred rows of the
// reference have from rows they are no part of. Beyond 1 is what is rare in the
// reference, beyond 2 what hardly occurs there.
//
// Until the reference is full, which takes 16 rows a dimension, scores are 0. From
// then on it does not change.
type Outside struct {
	dim int
	// The reference while it fills, dim numbers a row; nil when it is full.
	rows []float64

	mean   []float64
	factor []float64 // L of the covariance LLᵀ, lower triangle, dim × dim
	unit   float64   // the distance that scores 1

	x []float64 // scratch
}

// referenceRows are for each dimension: enough for a covariance that says more of
// the rows than of chance.
const referenceRows = 16

// maxOutsideDim bounds the reference, which has 16·dim² numbers.
const maxOutsideDim = 1024

// NewOutside returns a score that knows nothing, of embeddings of so many
// dimensions. It panics unless they are 1 to 1024.
func NewOutside(dim int) *Outside {
	if dim < 1 || dim > maxOutsideDim {
		panic(fmt.Sprintf("conformal: embeddings of %d dimensions: want 1 to %d", dim, maxOutsideDim))
	}
	return &Outside{dim: dim, rows: []float64{}, x: make([]float64, dim)}
}

// Full reports whether the reference is full.
func (o *Outside) Full() bool { return o.rows == nil }

// Learn takes an embedding, finite numbers, into the reference if that is not
// full.
func (o *Outside) Learn(z []float32) {
	o.check(z)
	if o.Full() {
		return
	}
	for _, x := range z {
		o.rows = append(o.rows, float64(x))
	}
	if len(o.rows) == referenceRows*o.dim*o.dim {
		o.settle()
	}
}

// Score returns the score of an embedding.
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

// settle finds mean, covariance and unit. Distances of rows from a mean and a
// covariance that they are part of are too short, so the unit is found from each
// half's distances to the other.
func (o *Outside) settle() {
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

// ridge is added to the variances, as a share of their mean: embeddings may lie
// in fewer dimensions than they have.
const ridge = 0.001

// moments returns mean and Cholesky factor of rows.
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
	// Where all rows are one the covariance is 0; any positive one will do.
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

// distance is |L⁻¹(x - mean)|²; x is overwritten.
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

// AppendState appends canonical bytes of the whole state to b: the number of rows
// of a reference that fills and these, or a number more than any and mean, factor
// and unit.
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

// SetState is the inverse of AppendState for a score of as many dimensions. On an
// error the state is as it was.
func (o *Outside) SetState(b []byte) error {
	if len(b) < 8 || len(b)%8 != 0 {
		return errLength
	}
	n := binary.LittleEndian.Uint64(b)
	numbers := make([]float64, len(b)/8-1)
	for i := range numbers {
		numbers[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*(i+1):]))
	}
	if !finite(numbers...) {
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
