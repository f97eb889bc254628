package pool

import (
	"math"
	"slices"
)

// moments standardise columns: a number x becomes (x - m)/σ.
type moments struct {
	mean    []float64 // m
	inverse []float64 // 1/σ, 1 where σ is 0
}

func newMoments(columns int) moments {
	return moments{mean: make([]float64, columns), inverse: slices.Repeat([]float64{1}, columns)}
}

// fit sets m and σ from those of n rows that are not nil.
func (m *moments) fit(n int, row func(i int) []float64) {
	square := make([]float64, len(m.mean))
	var count float64
	clear(m.mean)
	for i := range n {
		x := row(i)
		if x == nil {
			continue
		}
		count++
		for j, x := range x {
			// Welford 1962: Σx² - (Σx)²/n would cancel where the mean is large.
			d := x - m.mean[j]
			m.mean[j] += d / count
			square[j] += float64(d * (x - m.mean[j]))
		}
	}
	for j := range m.inverse {
		m.inverse[j] = 1
		if sd := math.Sqrt(square[j] / max(count, 1)); sd > 0 {
			m.inverse[j] = 1 / sd
		}
	}
}

// standardizer makes a block of dense features, that of x or that of s/deg: with m and σ
// over the training rows that have it,
//
//	u((x - m)∘σ⁻¹),  u(x) = x/|x|.
//
// A row without neighbours has 0 for s/deg.
type standardizer struct{ moments }

func newStandardizer(features int) *standardizer { return &standardizer{newMoments(features)} }

// raw writes block b of row i, unscaled, to dst. It reports whether the row has it.
func (s *standardizer) raw(dst []float64, b Block, rows *Rows, i int) bool {
	from, by := &rows.X, 1.0
	if b == meanFeatures {
		if rows.Degree[i] == 0 {
			clear(dst)
			return false
		}
		from, by = &rows.S, 1/float64(rows.Degree[i])
	}
	if from.Start == nil {
		for j, x := range from.Dense[i*len(dst) : (i+1)*len(dst)] {
			dst[j] = float64(x) * by
		}
		return true
	}
	clear(dst)
	for k := from.Start[i]; k < from.Start[i+1]; k++ {
		dst[from.Index[k]] = float64(from.Value[k]) * by
	}
	return true
}

// fitRows sets m and σ from block b of the training rows.
func (s *standardizer) fitRows(b Block, rows *Rows) {
	row := make([]float64, len(s.mean))
	s.fit(rows.N, func(i int) []float64 {
		if !s.raw(row, b, rows, i) {
			return nil
		}
		return row
	})
}

// write writes block b of row i to dst.
func (s *standardizer) write(dst []float64, b Block, rows *Rows, i int) {
	if !s.raw(dst, b, rows, i) {
		return
	}
	for j, m := range s.mean {
		dst[j] = (dst[j] - m) * s.inverse[j]
	}
	unit(dst)
}

// unit scales x to unit length, unless it is 0.
func unit(x []float64) {
	var square float64
	for _, v := range x {
		square += float64(v * v)
	}
	if square == 0 {
		return
	}
	by := 1 / math.Sqrt(square)
	for j := range x {
		x[j] *= by
	}
}
