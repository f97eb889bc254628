package gnn

// The float32 kernels. Every implementation of them, for whatever machine,
// must give the same bits, so their contract fixes the order of each sum:
//
//   - lanes run across outputs: no output's sum is split over lanes;
//   - a sum starts from what the destination holds and takes its terms one by
//     one, k ascending;
//   - a product is rounded before it is added. The conversions float32(x*y)
//     below forbid the compiler to fuse (Go specification, "Floating-point
//     operators").
//
// A term whose factor is zero may be left out: weights are finite, so the term
// is a zero, and a sum that starts from +0 and rounds to nearest never becomes
// the -0 that adding it would change. That is why dense and sparse features
// agree.

// add computes dst[j] += x[j].
func add(dst, x []float32) {
	x = x[:len(dst)]
	for j := range dst {
		dst[j] += x[j]
	}
}

// product computes dst[j] += sum over k of x[k]·w[k·m+j], k ascending, with
// m = len(dst) and len(w) = len(x)·m.
func product(dst, x, w []float32) {
	m := len(dst)
	if len(w) != len(x)*m {
		panic("gnn: product of unfitting shapes")
	}
	// Four terms a pass: dst is loaded and stored a quarter as often.
	k := 0
	for ; k+4 <= len(x); k += 4 {
		axpy4(dst, x[k], x[k+1], x[k+2], x[k+3], w[k*m:], w[(k+1)*m:], w[(k+2)*m:], w[(k+3)*m:])
	}
	for ; k < len(x); k++ {
		axpy(dst, x[k], w[k*m:])
	}
}

// sparseProduct is [product] for the x that has value[i] at index[i] and zero
// elsewhere.
func sparseProduct(dst []float32, index []uint32, value, w []float32) {
	m := len(dst)
	value = value[:len(index)]
	i := 0
	for ; i+4 <= len(index); i += 4 {
		axpy4(dst, value[i], value[i+1], value[i+2], value[i+3],
			w[int(index[i])*m:], w[int(index[i+1])*m:], w[int(index[i+2])*m:], w[int(index[i+3])*m:])
	}
	for ; i < len(index); i++ {
		axpy(dst, value[i], w[int(index[i])*m:])
	}
}

// axpy computes dst[j] += a·x[j].
func axpy(dst []float32, a float32, x []float32) {
	x = x[:len(dst)]
	for j := range dst {
		dst[j] += float32(a * x[j])
	}
}

// axpy4 is four calls of [axpy] in the order of the arguments.
func axpy4(dst []float32, a, b, c, d float32, x, y, z, w []float32) {
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

// gather computes dst[j] += sum over t of value[t]·rows[index[t]·stride+j], t
// ascending.
func gather(dst []float32, index []int32, value, rows []float32, stride int) {
	value = value[:len(index)]
	t := 0
	for ; t+4 <= len(index); t += 4 {
		axpy4(dst, value[t], value[t+1], value[t+2], value[t+3],
			rows[int(index[t])*stride:], rows[int(index[t+1])*stride:], rows[int(index[t+2])*stride:], rows[int(index[t+3])*stride:])
	}
	for ; t < len(index); t++ {
		axpy(dst, value[t], rows[int(index[t])*stride:])
	}
}

// gatherSum is [gather] with all values 1.
func gatherSum(dst []float32, index []int32, rows []float32, stride int) {
	t := 0
	for ; t+4 <= len(index); t += 4 {
		add4(dst, rows[int(index[t])*stride:], rows[int(index[t+1])*stride:], rows[int(index[t+2])*stride:], rows[int(index[t+3])*stride:])
	}
	for ; t < len(index); t++ {
		add(dst, rows[int(index[t])*stride:])
	}
}

// add4 is four calls of [add] in the order of the arguments.
func add4(dst, x, y, z, w []float32) {
	x, y, z, w = x[:len(dst)], y[:len(dst)], z[:len(dst)], w[:len(dst)]
	for j := range dst {
		dst[j] = dst[j] + x[j] + y[j] + z[j] + w[j]
	}
}

// combine computes dst[j] = own[j] + scale·sum[j].
func combine(dst, own, sum []float32, scale float32) {
	own, sum = own[:len(dst)], sum[:len(dst)]
	for j := range dst {
		dst[j] = own[j] + float32(scale*sum[j])
	}
}

// rectify computes dst[j] = max(x[j], 0).
func rectify(dst, x []float32) {
	x = x[:len(dst)]
	for j := range dst {
		dst[j] = max(x[j], 0)
	}
}

// scale computes dst[j] *= a.
func scale(dst []float32, a float32) {
	for j := range dst {
		dst[j] *= a
	}
}
