// Package double has the float64 inner loops of package posterior and its pool, in AVX-512,
// AVX2 and plain Go, and elementary functions that have the same bits on every machine. It
// knows neither graphs nor posteriors.
//
// A sum of an output takes its terms in one fixed order. Matrix products and the exponential
// are fused multiplications and additions on every machine (math.FMA, in software if need
// be), and nothing else is on any: the explicit float64 conversions forbid it, and .ci/arm64
// checks it.
//
//	kernel.go      loops over blocks of rows, each row a lane
//	matrix.go      dense products; sparse.go: products with sparse rows
//	newton.go      vector operations of Newton steps
//	average.go     softmax of sampled logits, in float32
//	elementary.go  Exp, Log and their vector forms; quantile.go: of the normal distribution
package double
