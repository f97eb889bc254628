package pool

import "math"

// standardizer makes a block of dense features, that of x or that of s/deg: with m and σ
// the mean and the standard deviation over the training rows that have it,
//
//	u((x - m)∘σ⁻¹),  u(x) = x/|x|.
//
// A row without neighbours has 0 for s/deg.
type standardizer struct {
	mean    []float64 // m
	inverse []float64 // 1/σ, 1 where σ is 0
}

func newStandardizer(features int) *standardizer {
	s := &standardizer{mean: make([]float64, features), inverse: make([]float64, features)}
	for j := range s.inverse {
		s.inverse[j] = 1
	}
	return s
}

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

// fit sets mean and inverse from block b of the training rows.
func (s *standardizer) fit(b Block, rows *Rows) {
	row, square := make([]float64, len(s.mean)), make([]float64, len(s.mean))
	var count float64
	clear(s.mean)
	for i := range rows.N {
		if !s.raw(row, b, rows, i) {
			continue
		}
		count++
		for j, x := range row {
			// Welford 1962: Σx² - (Σx)²/n would cancel where the mean is large.
			d := x - s.mean[j]
			s.mean[j] += d / count
			square[j] += float64(d * (x - s.mean[j]))
		}
	}
	for j := range s.inverse {
		s.inverse[j] = 1
		if sd := math.Sqrt(square[j] / max(count, 1)); sd > 0 {
			s.inverse[j] = 1 / sd
		}
	}
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
