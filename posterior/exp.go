package posterior

// Exp is e^x, error below 1 ulp, with the same bits on every amd64 machine.
// Below -708 it is 0, above 709 infinite, and NaN stays NaN.
func Exp(x float64) float64 { return exp(x) }

// Log is the natural logarithm of a positive number, error below 1 ulp, with
// the same bits on every amd64 machine. Below the least normal number, 0
// included, it is that number's.
func Log(x float64) float64 { return log(x) }

// AddProduct adds the m × n product of a, m × k, and b, k × n, to dst. The sum of
// each entry goes over k in ascending order. Wrong lengths panic.
func AddProduct(dst, a, b []float64, m, k, n int) {
	product(dense(dst[:m*n:m*n], m, n), dense(a[:m*k:m*k], m, k), dense(b[:k*n:k*n], k, n))
}

// AddTransposed adds the m × n product of aᵀ, where a is k × m, and b, k × n, to
// dst. The sum of each entry goes over k in ascending order. Wrong lengths
// panic.
func AddTransposed(dst, a, b []float64, m, k, n int) {
	product(dense(dst[:m*n:m*n], m, n), dense(a[:m*k:m*k], k, m).t(), dense(b[:k*n:k*n], k, n))
}
