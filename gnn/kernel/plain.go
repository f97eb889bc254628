package kernel

import "math"

// The plain forms run on other machines and define what the assembly computes.
// The conversions float32(x*y) forbid the compiler to fuse (Go specification,
// "Floating-point operators").

func plainGather(dst []float32, index []int32, value, rows []float32, stride int) {
	t := 0
	// Four terms a pass: dst is loaded and stored a quarter as often.
	for ; t+4 <= len(index); t += 4 {
		plainAxpy4(dst, value[t], value[t+1], value[t+2], value[t+3],
			rows[int(index[t])*stride:], rows[int(index[t+1])*stride:], rows[int(index[t+2])*stride:], rows[int(index[t+3])*stride:])
	}
	for ; t < len(index); t++ {
		plainAxpy(dst, value[t], rows[int(index[t])*stride:])
	}
}

func plainGatherSum(dst []float32, index []int32, rows []float32, stride int) {
	for _, i := range index {
		plainAdd(dst, rows[int(i)*stride:])
	}
}

func plainProduct(dst, x, w []float32) {
	m := len(dst)
	k := 0
	for ; k+4 <= len(x); k += 4 {
		plainAxpy4(dst, x[k], x[k+1], x[k+2], x[k+3], w[k*m:], w[(k+1)*m:], w[(k+2)*m:], w[(k+3)*m:])
	}
	for ; k < len(x); k++ {
		plainAxpy(dst, x[k], w[k*m:])
	}
}

func plainProductRows(dst []float32, apart int, x, w []float32, n, in, out int) {
	for i := range n {
		plainProduct(dst[i*apart:i*apart+out], x[i*in:(i+1)*in], w)
	}
}

func plainAxpy(dst []float32, a float32, x []float32) {
	x = x[:len(dst)]
	for j := range dst {
		dst[j] += float32(a * x[j])
	}
}

// plainAxpy4 is four calls of plainAxpy, in the order of the arguments.
func plainAxpy4(dst []float32, a, b, c, d float32, x, y, z, w []float32) {
	x, y, z, w = x[:len(dst)], y[:len(dst)], z[:len(dst)], w[:len(dst)]
	for j := range dst {
		s := dst[j]
		s += float32(a * x[j])
		s += float32(b * y[j])
		s += float32(c * z[j])
		s += float32(d * w[j])
		dst[j] = s
	}
}

func plainAdd(dst, x []float32) {
	x = x[:len(dst)]
	for j := range dst {
		dst[j] += x[j]
	}
}

func plainScale(dst []float32, a float32) {
	for j := range dst {
		dst[j] *= a
	}
}

func plainCombine(dst, x, y []float32, a float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for j := range dst {
		dst[j] = x[j] + float32(a*y[j])
	}
}

func plainRectify(dst, x []float32) {
	x = x[:len(dst)]
	for j := range dst {
		dst[j] = max(x[j], 0)
	}
}

func plainAddRectified(dst, x, y []float32, a float32) {
	x, y = x[:len(dst)], y[:len(dst)]
	for j := range dst {
		dst[j] += max(x[j]+float32(a*y[j]), 0)
	}
}

func plainGate(dst, x []float32, a float32) {
	x = x[:len(dst)]
	for j, v := range x {
		if v > 0 {
			dst[j] *= a
		} else {
			dst[j] = 0
		}
	}
}

func plainDropout(dst, x []float32, draws []uint16, below uint32, scale float32) {
	x, draws = x[:len(dst)], draws[:len(dst)]
	for j, v := range x {
		dst[j] = 0
		if uint32(draws[j]) < below {
			dst[j] = float32(scale * v)
		}
	}
}

func plainAdam(param, grad, first, second []float32, c *[8]float32) {
	size, root, decay, b1, c1, b2, c2, eps := c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]
	grad, first, second = grad[:len(param)], first[:len(param)], second[:len(param)]
	for i, p := range param {
		g := grad[i] + float32(decay*p)
		m := float32(b1*first[i]) + float32(c1*g)
		v := float32(b2*second[i]) + float32(c2*float32(g*g))
		first[i], second[i] = m, v
		param[i] = p - float32(size*m)/(float32(float32(math.Sqrt(float64(v)))*root)+eps)
	}
}

func plainGatherRectified(dst []float32, t *Table[float32], index []int32, scale []float32, x, y int) {
	clear(dst)
	for k, i := range index {
		row := t.Row(i)
		plainAddRectified(dst, row[x:], row[y:], scale[k])
	}
}

func plainExchange(t *Table[float32], v int32, index []int32, from, to, n int) {
	a := t.Row(v)
	for _, u := range index {
		b := t.Row(u)
		plainAdd(a[to:to+n], b[from:from+n])
		plainAdd(b[to:to+n], a[from:from+n])
	}
}

func plainWiden(dst []float32, src []uint16) {
	for j, b := range src {
		dst[j] = math.Float32frombits(uint32(b) << 16)
	}
}

func plainNarrow(dst []uint16, src []float32) {
	for j, x := range src {
		bits := math.Float32bits(x)
		dst[j] = uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
}
