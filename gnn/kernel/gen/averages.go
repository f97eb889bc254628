//go:build ignore

package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The arithmetic in float32, of which a register holds twice as many.

func (s isa) single(x float32) Mem {
	bits := uint64(math.Float32bits(x))
	return s.bits(bits<<32 | bits)
}

func (s isa) loadf(from Op) VecVirtual           { r := s.register(); VMOVUPS(from, r); return r }
func (s isa) addf(a VecVirtual, b Op) VecVirtual { r := s.register(); VADDPS(b, a, r); return r }
func (s isa) subf(a VecVirtual, b Op) VecVirtual { r := s.register(); VSUBPS(b, a, r); return r }
func (s isa) mulf(a VecVirtual, b Op) VecVirtual { r := s.register(); VMULPS(b, a, r); return r }
func (s isa) maxf(a VecVirtual, b Op) VecVirtual { r := s.register(); VMAXPS(b, a, r); return r } // b unless a > b

// expf is expSingle of average.go.
func (s isa) expf(x VecVirtual) VecVirtual {
	const round = 0x1.8p23
	shifted := s.addf(s.mulf(x, s.single(math.Log2E)), s.single(round))
	k := s.subf(shifted, s.single(round))
	r := s.subf(s.subf(x, s.mulf(k, s.single(0x1.63p-1))), s.mulf(k, s.single(-2.12194440e-4)))
	y := s.single(0.00138144672)
	sum := s.mulf(r, y)
	for _, c := range []float32{0.00836878084, 0.0416683927, 0.166665196} {
		sum = s.mulf(s.addf(sum, s.single(c)), r)
	}
	sum = s.addf(sum, s.single(0.49999994))
	sum = s.addf(s.addf(s.mulf(sum, s.mulf(r, r)), r), s.single(1))
	exponent, scaled := s.register(), s.register()
	VPSLLD(U8(23), shifted, exponent)
	VPADDD(exponent, sum, scaled)
	return scaled
}

// averages is Drawn.add for as many lanes as a register has float32s. scratch has four
// registers for each class, and two more.
func (s isa) averages() {
	form(fmt.Sprint("averages", s.singles), "(average, total, dot, mean, variance *float64, normals, scratch *float32, "+
		"samples, classes, lanes int)")
	whole := 8 * s.lanes // bytes of a register
	average, total, mean, variance := argument("average"), argument("total"), argument("mean"), argument("variance")
	normals, scratch, stride := argument("normals"), argument("scratch"), step("lanes")
	p, n := GP64(), GP64()
	// Of each class the scratch holds these, a register each.
	const logit, sd, exponential, sum = 0, 1, 2, 3
	at := func(i int) Mem { return Mem{Base: p}.Offset(whole * i) }
	overClasses := func(label string, body func()) {
		MOVQ(scratch, p)
		Load(Param("classes"), n)
		loop(label, n, 1, func() {
			body()
			ADDQ(U32(4*whole), p)
		})
	}
	// Registers of float64 are two to one of float32.
	halves := func(body func(half int)) {
		body(0)
		body(1)
	}
	eachHalf := func(base Register, half int) Mem { return Mem{Base: base}.Offset(whole * half) }

	top := [2]VecVirtual{s.load(s.number(math.Inf(-1))), s.load(s.number(math.Inf(-1)))}
	row := copyOf(mean)
	overClasses("top", func() {
		halves(func(half int) {
			VMAXPD(top[half], s.load(eachHalf(row, half)), top[half]) // top unless x > top
		})
		ADDQ(stride, row)
	})
	zero := s.zero()
	overClasses("moments", func() {
		halves(func(half int) {
			x := s.sub(s.load(eachHalf(mean, half)), top[half])
			VMAXPD(s.number(-farthest), x, x)
			s.narrow(x, at(logit).Offset(whole/2*half))
			v := s.load(eachHalf(variance, half))
			VMINPD(s.number(widest), v, v)
			s.narrow(v, at(sd).Offset(whole/2*half))
		})
		VMOVUPS(zero, at(sum))
		ADDQ(stride, mean)
		ADDQ(stride, variance)
	})
	overClasses("roots", func() {
		root := s.register()
		VSQRTPS(at(sd), root)
		VMOVUPS(root, at(sd))
	})

	dots := s.zero()
	loop("samples", argument("samples"), 1, func() {
		most := s.loadf(s.single(float32(math.Inf(-1))))
		overClasses("logits", func() {
			noise := s.register()
			VBROADCASTSS(Mem{Base: normals}, noise)
			ADDQ(U8(4), normals)
			x := s.addf(s.mulf(noise, at(sd)), at(logit))
			VMOVUPS(x, at(exponential))
			VMAXPS(most, x, most) // most unless x > most
		})
		inAll, dot := s.zero(), s.zero()
		overClasses("exponentials", func() {
			x := s.maxf(s.subf(s.loadf(at(exponential)), most), s.single(-least))
			y := s.expf(x)
			VMOVUPS(y, at(exponential))
			VADDPS(y, inAll, inAll)
			VADDPS(s.mulf(y, x), dot, dot)
		})
		inverse := s.register()
		VDIVPS(inAll, s.loadf(s.single(1)), inverse)
		VADDPS(s.mulf(dot, inverse), dots, dots)
		overClasses("sums", func() {
			VMOVUPS(s.addf(s.mulf(inverse, at(exponential)), at(sum)), at(sum))
		})
		// p is behind the last class.
		VMOVUPS(inAll, at(0))
		halves(func(half int) {
			VMOVUPD(s.widen(at(0).Offset(whole/2*half)), eachHalf(total, half))
		})
		ADDQ(stride, total)
	})

	VMOVUPS(dots, at(1))
	dot := argument("dot")
	halves(func(half int) {
		VMOVUPD(s.add(s.widen(at(1).Offset(whole/2*half)), eachHalf(dot, half)), eachHalf(dot, half))
	})
	overClasses("averages", func() {
		halves(func(half int) {
			VMOVUPD(s.add(s.widen(at(sum).Offset(whole/2*half)), eachHalf(average, half)), eachHalf(average, half))
		})
		ADDQ(stride, average)
	})
	end()
}

// narrow writes a register of float64s to memory as float32s.
func (s isa) narrow(x VecVirtual, to Mem) {
	if s.lanes == 8 {
		y := YMM()
		VCVTPD2PS(x, y)
		VMOVUPS(y, to)
		return
	}
	y := XMM()
	VCVTPD2PSY(x, y)
	VMOVUPS(y, to)
}

// widen returns float32s from memory as a register of float64s.
func (s isa) widen(from Mem) VecVirtual {
	r := s.register()
	VCVTPS2PD(from, r)
	return r
}

// The bounds of average.go.
const (
	farthest = 1e30
	widest   = 1e38
	least    = 80
)
