package kernel

// Widen sets dst[j] to the bfloat16 number src[j]: the upper half of a float32.
func Widen(dst []float32, src []uint16) { widen(dst, src[:len(dst)]) }

// Narrow sets dst[j] to the bfloat16 number nearest to src[j], to the even one
// of two equally near. The relative error is at most 2⁻⁹; magnitudes from about
// 3.4e38 on become infinite. src must not have NaN.
func Narrow(dst []uint16, src []float32) { narrow(dst, src[:len(dst)]) }
