package train

// float is the numbers that a network may compute with: float32 to train,
// float64 to check the gradients by differences.
type float interface{ float32 | float64 }

// gather computes dst[j] += sum over t of value[t]·rows[index[t]·stride+j], t
// ascending: a sparse row times a matrix, which is all of training but
// [dots]. As in package gnn, each output's sum has this one order and no
// product is fused with an addition.
func gather[T float](dst []T, index []int32, value, rows []T, stride int) {
	value = value[:len(index)]
	n := len(dst)
	t := 0
	// Four terms a pass: dst is loaded and stored a quarter as often.
	for ; t+4 <= len(index); t += 4 {
		a, b, c, d := value[t], value[t+1], value[t+2], value[t+3]
		x := rows[int(index[t])*stride:][:n]
		y := rows[int(index[t+1])*stride:][:n]
		z := rows[int(index[t+2])*stride:][:n]
		w := rows[int(index[t+3])*stride:][:n]
		for j := range dst {
			s := dst[j]
			s += T(a * x[j])
			s += T(b * y[j])
			s += T(c * z[j])
			s += T(d * w[j])
			dst[j] = s
		}
	}
	for ; t < len(index); t++ {
		a, x := value[t], rows[int(index[t])*stride:][:n]
		for j := range dst {
			dst[j] += T(a * x[j])
		}
	}
}

// dots computes dst[t] = sum over j of x[j]·rows[index[t]·stride+j], j
// ascending.
func dots[T float](dst []T, index []int32, x, rows []T, stride int) {
	dst = dst[:len(index)]
	n := len(x)
	t := 0
	// Four sums side by side, for each waits for its own last addition.
	for ; t+4 <= len(index); t += 4 {
		a := rows[int(index[t])*stride:][:n]
		b := rows[int(index[t+1])*stride:][:n]
		c := rows[int(index[t+2])*stride:][:n]
		d := rows[int(index[t+3])*stride:][:n]
		var p, q, r, s T
		for j, x := range x {
			p += T(x * a[j])
			q += T(x * b[j])
			r += T(x * c[j])
			s += T(x * d[j])
		}
		dst[t], dst[t+1], dst[t+2], dst[t+3] = p, q, r, s
	}
	for ; t < len(index); t++ {
		a := rows[int(index[t])*stride:][:n]
		var p T
		for j, x := range x {
			p += T(x * a[j])
		}
		dst[t] = p
	}
}
