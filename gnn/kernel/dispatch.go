package kernel

import (
	"github.com/gvbll/gvbll/gnn/kernel/level"
)

func gather(dst []float32, index []int32, value, rows []float32, stride int) {
	switch level.Active {
	case level.AVX512:
		gatherAVX512(&dst[0], len(dst), &index[0], &value[0], len(index), &rows[0], stride)
	case level.AVX2:
		gatherAVX2(&dst[0], len(dst), &index[0], &value[0], len(index), &rows[0], stride)
	default:
		plainGather(dst, index, value, rows, stride)
	}
}

func gatherSum(dst []float32, index []int32, rows []float32, stride int) {
	switch level.Active {
	case level.AVX512:
		gatherSumAVX512(&dst[0], len(dst), &index[0], len(index), &rows[0], stride)
	case level.AVX2:
		gatherSumAVX2(&dst[0], len(dst), &index[0], len(index), &rows[0], stride)
	default:
		plainGatherSum(dst, index, rows, stride)
	}
}

func product(dst, x, w []float32) {
	switch level.Active {
	case level.AVX512:
		productAVX512(&dst[0], len(dst), &x[0], len(x), &w[0], len(dst))
	case level.AVX2:
		productAVX2(&dst[0], len(dst), &x[0], len(x), &w[0], len(dst))
	default:
		plainProduct(dst, x, w)
	}
}

func productRows(dst []float32, apart int, x, w []float32, n, in, out int) {
	if level.Active == level.Plain {
		plainProductRows(dst, apart, x, w, n, in, out)
		return
	}
	i := 0
	for ; i+4 <= n; i += 4 {
		d, x := dst[i*apart:(i+3)*apart+out], x[i*in:(i+4)*in]
		var done int
		if level.Active == level.AVX512 {
			done = productRows4AVX512(&d[0], out, apart, &x[0], in, &w[0])
		} else {
			done = productRows4AVX2(&d[0], out, apart, &x[0], in, &w[0])
		}
		if done == out {
			continue
		}
		for r := range 4 {
			productColumns(d[r*apart+done:r*apart+out], x[r*in:(r+1)*in], w[done:], out)
		}
	}
	for ; i < n; i++ {
		productColumns(dst[i*apart:i*apart+out], x[i*in:(i+1)*in], w, out)
	}
}

// prefetchRows is [Prefetch] of words of 4 bytes, whatever their type.
func prefetchRows(blocks *[]float32, shift, stride int, index []int32, from, n int) {
	if level.Active != level.Plain {
		prefetch(n, &index[0], len(index), blocks, shift, stride, from)
	}
}

func prefetchLines(address []uintptr) {
	if level.Active != level.Plain && len(address) > 0 {
		prefetchAt(&address[0], len(address))
	}
}

func gatherRectified(dst []float32, t *Table[float32], index []int32, scale []float32, x, y int) {
	switch level.Active {
	case level.AVX512:
		gatherRectifiedAVX512(&dst[0], len(dst), &index[0], &scale[0], len(index), &t.blocks[0], int(t.shift), t.width, x, y)
	case level.AVX2:
		gatherRectifiedAVX2(&dst[0], len(dst), &index[0], &scale[0], len(index), &t.blocks[0], int(t.shift), t.width, x, y)
	default:
		plainGatherRectified(dst, t, index, scale, x, y)
	}
}

func exchange(t *Table[float32], v int32, index []int32, from, to, n int) {
	row := t.Row(v)
	switch level.Active {
	case level.AVX512:
		exchangeAVX512(&row[to], n, &row[from], &index[0], len(index), &t.blocks[0], int(t.shift), t.width, from, to)
	case level.AVX2:
		exchangeAVX2(&row[to], n, &row[from], &index[0], len(index), &t.blocks[0], int(t.shift), t.width, from, to)
	default:
		plainExchange(t, v, index, from, to, n)
	}
}

// productColumns is [Product] with the first len(dst) columns of a matrix whose
// rows are stride entries apart.
func productColumns(dst, x, w []float32, stride int) {
	if level.Active == level.AVX512 {
		productAVX512(&dst[0], len(dst), &x[0], len(x), &w[0], stride)
	} else {
		productAVX2(&dst[0], len(dst), &x[0], len(x), &w[0], stride)
	}
}

// Axpy computes dst[j] += a·x[j].
func Axpy(dst []float32, a float32, x []float32) {
	switch x = x[:len(dst)]; {
	case level.Active == level.Plain || len(dst) == 0:
		plainAxpy(dst, a, x)
	case level.Active == level.AVX512:
		axpyAVX512(&dst[0], len(dst), a, &x[0])
	default:
		axpyAVX2(&dst[0], len(dst), a, &x[0])
	}
}

// Add computes dst[j] += x[j].
func Add(dst, x []float32) {
	switch x = x[:len(dst)]; {
	case level.Active == level.Plain || len(dst) == 0:
		plainAdd(dst, x)
	case level.Active == level.AVX512:
		addAVX512(&dst[0], len(dst), &x[0])
	default:
		addAVX2(&dst[0], len(dst), &x[0])
	}
}

// Scale computes dst[j] *= a.
func Scale(dst []float32, a float32) {
	switch {
	case level.Active == level.Plain || len(dst) == 0:
		plainScale(dst, a)
	case level.Active == level.AVX512:
		scaleAVX512(&dst[0], len(dst), a)
	default:
		scaleAVX2(&dst[0], len(dst), a)
	}
}

// Combine computes dst[j] = x[j] + a·y[j].
func Combine(dst, x, y []float32, a float32) {
	switch x, y = x[:len(dst)], y[:len(dst)]; {
	case level.Active == level.Plain || len(dst) == 0:
		plainCombine(dst, x, y, a)
	case level.Active == level.AVX512:
		combineAVX512(&dst[0], len(dst), &x[0], &y[0], a)
	default:
		combineAVX2(&dst[0], len(dst), &x[0], &y[0], a)
	}
}

// Rectify computes dst[j] = max(x[j], 0): never -0, and NaN for NaN.
func Rectify(dst, x []float32) {
	switch x = x[:len(dst)]; {
	case level.Active == level.Plain || len(dst) == 0:
		plainRectify(dst, x)
	case level.Active == level.AVX512:
		rectifyAVX512(&dst[0], len(dst), &x[0])
	default:
		rectifyAVX2(&dst[0], len(dst), &x[0])
	}
}

// AddRectified computes dst[j] += max(x[j] + a·y[j], 0).
func AddRectified(dst, x, y []float32, a float32) {
	switch x, y = x[:len(dst)], y[:len(dst)]; {
	case level.Active == level.Plain || len(dst) == 0:
		plainAddRectified(dst, x, y, a)
	case level.Active == level.AVX512:
		addRectifiedAVX512(&dst[0], len(dst), &x[0], &y[0], a)
	default:
		addRectifiedAVX2(&dst[0], len(dst), &x[0], &y[0], a)
	}
}

// Gate computes dst[j] = a·dst[j] where x[j] > 0, and 0 elsewhere.
func Gate(dst, x []float32, a float32) {
	switch x = x[:len(dst)]; {
	case level.Active == level.Plain || len(dst) == 0:
		plainGate(dst, x, a)
	case level.Active == level.AVX512:
		gateAVX512(&dst[0], len(dst), &x[0], a)
	default:
		gateAVX2(&dst[0], len(dst), &x[0], a)
	}
}

// Dropout computes dst[j] = scale·x[j] where draws[j] < below, and 0 elsewhere.
func Dropout(dst, x []float32, draws []uint16, below uint32, scale float32) {
	switch x, draws = x[:len(dst)], draws[:Draws(len(dst))]; {
	case level.Active == level.Plain || len(dst) == 0:
		plainDropout(dst, x, draws, below, scale)
	case level.Active == level.AVX512:
		dropoutAVX512(&dst[0], len(dst), &x[0], &draws[0], below, scale)
	default:
		dropoutAVX2(&dst[0], len(dst), &x[0], &draws[0], below, scale)
	}
}

func adam(param, grad, first, second []float32, c *[8]float32) {
	switch {
	case level.Active == level.Plain || len(param) == 0:
		plainAdam(param, grad, first, second, c)
	case level.Active == level.AVX512:
		adamAVX512(&param[0], len(param), &grad[0], &first[0], &second[0], c)
	default:
		adamAVX2(&param[0], len(param), &grad[0], &first[0], &second[0], c)
	}
}

// whole rounds n down to whole registers of every level.
func whole(n int) int { return n &^ 15 }

// Widen sets dst[j] to the bfloat16 number src[j]: the upper half of a float32.
func Widen(dst []float32, src []uint16) {
	n := whole(len(dst))
	switch src = src[:len(dst)]; {
	case level.Active == level.Plain || n == 0:
		n = 0
	case level.Active == level.AVX512:
		widenAVX512(&dst[0], n, &src[0])
	default:
		widenAVX2(&dst[0], n, &src[0])
	}
	plainWiden(dst[n:], src[n:])
}

// Narrow sets dst[j] to the bfloat16 number nearest to src[j], to the even one
// of two equally near. The relative error is at most 2⁻⁹; magnitudes from about
// 3.4e38 on become infinite. src must not have NaN.
func Narrow(dst []uint16, src []float32) {
	n := whole(len(dst))
	switch src = src[:len(dst)]; {
	case level.Active == level.Plain || n == 0:
		n = 0
	case level.Active == level.AVX512:
		narrowAVX512(&dst[0], n, &src[0])
	default:
		narrowAVX2(&dst[0], n, &src[0])
	}
	plainNarrow(dst[n:], src[n:])
}
