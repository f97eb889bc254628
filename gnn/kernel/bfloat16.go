package kernel

import "math"

// Widen sets dst[j] to the bfloat16 number src[j]: the upper half of a float32.
func Widen(dst []float32, src []uint16) { widen(dst, src[:len(dst)]) }

// Narrow sets dst[j] to the bfloat16 number nearest to src[j], the even one of
// two as near: relative error at most 2⁻⁹, infinite from about 3.4e38. src has
// no NaN.
func Narrow(dst []uint16, src []float32) { narrow(dst, src[:len(dst)]) }

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
