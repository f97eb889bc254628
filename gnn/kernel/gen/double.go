//go:build ignore

package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// writeDouble writes the kernels of float64.
func writeDouble() {
	for _, s := range sets {
		s.product()
		s.exponentials()
		s.averages()
		s.mirror()
		s.gather()
		s.scaleByLane()
		s.logarithms()
		s.normals()
		s.layers()
	}
}

func (s isa) bytes() int { return 8 * s.lanes }

// step loads a distance in float64s, as bytes.
func step(param string) Register {
	r := Load(Param(param), GP64())
	SHLQ(U8(3), r)
	return r
}

// copyOf returns another register with the value of r.
func copyOf(r Register) Register {
	c := GP64()
	MOVQ(r, c)
	return c
}

// loop runs body and lowers n by the given amount, until n is 0.
func loop(label string, n Register, by int, body func()) {
	Label(label)
	body()
	SUBQ(U8(by), n)
	JNZ(LabelRef(label))
}

// each is the rest of a kernel that runs body once for every register of n numbers and moves the
// pointers on by a register.
func (s isa) each(body func(), pointers ...Register) {
	loop("loop", argument("n"), s.lanes, func() {
		body()
		s.next(pointers...)
	})
	end()
}

// next moves pointers on by a register.
func (s isa) next(pointers ...Register) {
	for _, p := range pointers {
		ADDQ(U8(s.bytes()), p)
	}
}

// constants holds every constant once, as 64 bytes: a whole register of either
// kind.
var constants = map[uint64]Mem{}

func (s isa) bits(x uint64) Mem {
	m, ok := constants[x]
	if !ok {
		m = GLOBL(fmt.Sprintf("c%016x", x), RODATA|NOPTR)
		for i := range 8 {
			DATA(8*i, U64(x))
		}
		constants[x] = m
	}
	return m
}

func (s isa) number(x float64) Mem { return s.bits(math.Float64bits(x)) }

func (s isa) load(from Op) VecVirtual {
	r := s.register()
	VMOVUPD(from, r)
	return r
}

func (s isa) zero() VecVirtual {
	r := s.register()
	VXORPD(r, r, r)
	return r
}

// The arithmetic; b may be in memory. They return a new register.

func (s isa) add(a VecVirtual, b Op) VecVirtual { r := s.register(); VADDPD(b, a, r); return r }
func (s isa) sub(a VecVirtual, b Op) VecVirtual { r := s.register(); VSUBPD(b, a, r); return r }
func (s isa) mul(a VecVirtual, b Op) VecVirtual { r := s.register(); VMULPD(b, a, r); return r }
func (s isa) div(a VecVirtual, b Op) VecVirtual { r := s.register(); VDIVPD(b, a, r); return r }
func (s isa) and(a VecVirtual, b Op) VecVirtual { r := s.register(); VANDPD(b, a, r); return r }
func (s isa) or(a VecVirtual, b Op) VecVirtual  { r := s.register(); VORPD(b, a, r); return r }
func (s isa) xor(a VecVirtual, b Op) VecVirtual { r := s.register(); VXORPD(b, a, r); return r }
func (s isa) addInt(a VecVirtual, b Op) VecVirtual {
	r := s.register()
	VPADDQ(b, a, r)
	return r
}

func (s isa) left(a VecVirtual, by uint8) VecVirtual {
	r := s.register()
	VPSLLQ(U8(by), a, r)
	return r
}

func (s isa) right(a VecVirtual, by uint8) VecVirtual {
	r := s.register()
	VPSRLQ(U8(by), a, r)
	return r
}

// horner returns c[0] + t(c[1] + t(c[2] + …)).
func (s isa) horner(t VecVirtual, c ...float64) VecVirtual {
	last := len(c) - 1
	sum := s.mul(t, s.number(c[last]))
	for i := last - 1; i > 0; i-- {
		sum = s.mul(s.add(sum, s.number(c[i])), t)
	}
	return s.add(sum, s.number(c[0]))
}

// exp is Exp of elementary.go for x ≤ 709.
func (s isa) exp(x VecVirtual) VecVirtual {
	const round = 0x1.8p52
	shifted := s.load(s.number(round))
	VFMADD231PD(s.number(math.Log2E), x, shifted)
	k, r := s.sub(shifted, s.number(round)), s.register()
	VMOVAPD(x, r)
	VFNMADD231PD(s.number(6.93147180369123816490e-01), k, r)
	VFNMADD231PD(s.number(1.90821492927058770002e-10), k, r)
	y := s.load(s.number(1. / 6227020800))
	for _, c := range []float64{
		1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1,
	} {
		VFMADD213PD(s.number(c), r, y) // y·r + c
	}
	y = s.mul(y, s.left(s.addInt(shifted, s.bits(1023)), 52))
	// 0 where x < -708; the comparison "not less" keeps NaN.
	const notLess = 5
	if s.lanes == 8 {
		keep := K()
		VCMPPD(U8(notLess), s.number(-708), x, keep)
		VMOVAPD_Z(y, keep, y)
		return y
	}
	keep := s.register()
	VCMPPD(U8(notLess), s.number(-708), x, keep)
	return s.and(y, keep)
}

// log is Log of elementary.go.
func (s isa) log(x VecVirtual) VecVirtual {
	bits := s.register()
	VMAXPD(s.number(0x1p-1022), x, bits)
	bits = s.addInt(bits, s.bits((0x3ff00000-0x3fe6a09e)<<32))
	k := s.sub(s.or(s.right(bits, 52), s.number(0x1p52)), s.number(0x1p52+1023))
	m := s.addInt(s.and(bits, s.bits(1<<52-1)), s.bits(0x3fe6a09e<<32))
	f := s.sub(m, s.number(1))
	half := s.mul(s.mul(f, s.number(0.5)), f)
	q := s.div(f, s.add(f, s.number(2)))
	z := s.mul(q, q)
	w := s.mul(z, z)
	even := s.mul(s.horner(w, 3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01), w)
	odd := s.mul(s.horner(w, 6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01), z)
	rest := s.add(s.mul(s.add(half, s.add(even, odd)), q), s.mul(k, s.number(1.90821492927058770002e-10)))
	return s.sub(s.mul(k, s.number(6.93147180369123816490e-01)), s.sub(s.sub(half, rest), f))
}

// eachLane is the whole of a kernel that runs body once for every register of
// lanes and then moves the pointers on by a register. stride is the distance in
// bytes from one class to the next.
func (s isa) eachLane(body func(stride Register), pointers ...Register) {
	lanes := argument("lanes")
	stride := copyOf(lanes)
	SHLQ(U8(3), stride)
	loop("lanes", lanes, s.lanes, func() {
		body(stride)
		s.next(pointers...)
	})
	end()
}

// product is the product of up to 8 rows, fused as exp is.
func (s isa) product() {
	s.text("product", "(dst *float64, dstStep int, a *float64, aRow, aCol int, b *float64, bStep int, rows, inner, cols int)")
	p := factors{
		dst: argument("dst"), a: argument("a"), b: argument("b"),
		dstStep: step("dstStep"), aRow: step("aRow"), aCol: step("aCol"), bStep: step("bStep"), aRow3: GP64(),
	}
	cols := argument("cols")
	LEAQ(Mem{Base: p.aRow, Index: p.aRow, Scale: 2}, p.aRow3)
	for rows := 8; rows > 1; rows-- {
		CMPQ(NewParamAddr("rows", 7*8), U8(rows))
		JEQ(LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	masks := maskTable()
	for rows := 1; rows <= 8; rows++ {
		label := func(name string) string { return fmt.Sprintf("%s%d", name, rows) }
		Label(label("rows"))
		if s.lanes == 8 {
			// Two registers a row are 16 sums, so that none waits for itself.
			Label(label("wide"))
			CMPQ(cols, U8(2*s.lanes))
			JLT(LabelRef(label("cols")))
			s.productColumns(label("inner2"), rows, 2, nil, p)
			SUBQ(U8(2*s.lanes), cols)
			JG(LabelRef(label("wide")))
			end()
		}
		// One register a row, and at last a part of one.
		Label(label("cols"))
		CMPQ(cols, U8(s.lanes))
		JLT(LabelRef(label("part")))
		s.productColumns(label("inner1"), rows, 1, nil, p)
		SUBQ(U8(s.lanes), cols)
		JG(LabelRef(label("cols")))
		end()
		Label(label("part"))
		singles := copyOf(cols)
		ADDQ(singles, singles)
		s.productColumns(label("inner0"), rows, 1, newTail(s, masks, singles), p)
		end()
	}
}

// factors are the addresses of a product's matrices, and the distances of their rows and
// columns in bytes.
type factors struct{ dst, a, b, dstStep, aRow, aRow3, aCol, bStep Register }

// productColumns computes the product's next registers of columns, or those of the tail, and
// advances dst and b past them.
func (s isa) productColumns(label string, rows, registers int, t *tail, f factors) {
	sum := make([][]VecVirtual, rows)
	p := copyOf(f.dst)
	for i := range sum {
		for r := range registers {
			sum[i] = append(sum[i], t.load(s, Mem{Base: p}.Offset(r*s.bytes())))
		}
		ADDQ(f.dstStep, p)
	}
	p0, p4, pb := copyOf(f.a), GP64(), copyOf(f.b)
	if rows > 4 {
		LEAQ(Mem{Base: f.a, Index: f.aRow, Scale: 4}, p4)
	}
	loop(label, argument("inner"), 1, func() {
		v := make([]VecVirtual, registers)
		for r := range v {
			v[r] = t.load(s, Mem{Base: pb}.Offset(r*s.bytes()))
		}
		for i := range sum {
			at := Mem{Base: p0}
			if i >= 4 {
				at.Base = p4
			}
			switch i % 4 {
			case 1:
				at.Index, at.Scale = f.aRow, 1
			case 2:
				at.Index, at.Scale = f.aRow, 2
			case 3:
				at.Index, at.Scale = f.aRow3, 1
			}
			x := s.broadcast(at)
			for r, to := range sum[i] {
				VFMADD231PD(v[r], x, to)
			}
		}
		ADDQ(f.aCol, p0)
		if rows > 4 {
			ADDQ(f.aCol, p4)
		}
		ADDQ(f.bStep, pb)
	})
	p = copyOf(f.dst)
	for i := range sum {
		for r, x := range sum[i] {
			t.store(s, x, Mem{Base: p}.Offset(r*s.bytes()))
		}
		ADDQ(f.dstStep, p)
	}
	for _, p := range []Register{f.dst, f.b} {
		ADDQ(U32(registers*s.bytes()), p)
	}
}

func (s isa) exponentials() {
	s.text("exponentials", "(a, most, total, inverse, dot *float64, classes, lanes int)")
	a, most, total, inverse, dot := argument("a"), argument("most"), argument("total"), argument("inverse"), argument("dot")
	s.eachLane(func(stride Register) {
		p, n := copyOf(a), argument("classes")
		top := s.load(s.number(math.Inf(-1)))
		loop("most", n, 1, func() {
			x := s.load(Mem{Base: p})
			VMAXPD(top, x, top) // top unless x > top
			ADDQ(stride, p)
		})
		VMOVUPD(top, Mem{Base: most})

		MOVQ(a, p)
		Load(Param("classes"), n)
		sum, product := s.zero(), s.zero()
		loop("classes", n, 1, func() {
			x := s.sub(s.load(Mem{Base: p}), top)
			y := s.exp(x)
			VMOVUPD(y, Mem{Base: p})
			VADDPD(y, sum, sum)
			VADDPD(s.mul(y, x), product, product)
			ADDQ(stride, p)
		})
		VMOVUPD(sum, Mem{Base: total})
		VMOVUPD(s.div(s.load(s.number(1)), sum), Mem{Base: inverse})
		VMOVUPD(product, Mem{Base: dot})
	}, a, most, total, inverse, dot)
}

func (s isa) mirror() {
	s.text("mirror", "(plus, minus, mean, sd, noise *float64, n int)")
	plus, minus, mean, sd, noise := argument("plus"), argument("minus"), argument("mean"), argument("sd"), argument("noise")
	s.each(func() {
		m := s.load(Mem{Base: mean})
		x := s.mul(s.load(Mem{Base: sd}), Mem{Base: noise})
		VMOVUPD(s.add(m, x), Mem{Base: plus})
		VMOVUPD(s.sub(m, x), Mem{Base: minus})
	}, plus, minus, mean, sd, noise)
}

func (s isa) gather() {
	s.text("gather", "(dMean, dSD, plus, minus, invPlus, invMinus, noise *float64, classes, lanes int)")
	dMean, dSD, plus, minus, noise := argument("dMean"), argument("dSD"), argument("plus"), argument("minus"), argument("noise")
	loop("classes", argument("classes"), 1, func() {
		invPlus, invMinus := argument("invPlus"), argument("invMinus")
		loop("lanes", argument("lanes"), s.lanes, func() {
			p := s.mul(s.load(Mem{Base: plus}), Mem{Base: invPlus})
			m := s.mul(s.load(Mem{Base: minus}), Mem{Base: invMinus})
			VMOVUPD(s.add(s.add(p, m), Mem{Base: dMean}), Mem{Base: dMean})
			VMOVUPD(s.add(s.mul(s.sub(p, m), Mem{Base: noise}), Mem{Base: dSD}), Mem{Base: dSD})
			s.next(dMean, dSD, plus, minus, noise, invPlus, invMinus)
		})
	})
	end()
}

func (s isa) scaleByLane() {
	s.text("scaleByLane", "(dst, by *float64, classes, lanes int)")
	dst := argument("dst")
	loop("classes", argument("classes"), 1, func() {
		by := argument("by")
		loop("lanes", argument("lanes"), s.lanes, func() {
			VMOVUPD(s.mul(s.load(Mem{Base: by}), Mem{Base: dst}), Mem{Base: dst})
			s.next(dst, by)
		})
	})
	end()
}

func (s isa) logarithms() {
	s.text("logarithms", "(dst, src *float64, n int)")
	dst, src := argument("dst"), argument("src")
	s.each(func() {
		VMOVUPD(s.log(s.load(Mem{Base: src})), Mem{Base: dst})
	}, dst, src)
}

func (s isa) normals() {
	s.text("boxMuller", "(cos, sin *float64, bits *uint64, n int)")
	cos, sin, bits := argument("cos"), argument("sin"), argument("bits")
	s.each(func() {
		u := s.load(Mem{Base: bits})
		// The upper half is the radius.
		radius := s.sub(s.or(s.right(u, 32), s.number(0x1p52)), s.number(0x1p52-0.5))
		radius = s.mul(s.log(s.mul(radius, s.number(0x1p-32))), s.number(-2))
		VSQRTPD(radius, radius)
		// Of the lower half one bit is a sign, the others the angle.
		sign := s.and(s.left(u, 32), s.bits(1<<63))
		angle := s.sub(s.or(s.and(u, s.bits(1<<31-1)), s.number(0x1p52)), s.number(0x1p52+0x1p30))
		angle = s.mul(angle, s.number(math.Pi*0x1p-31))
		t := s.mul(angle, angle)
		y := s.mul(s.horner(t, 1, -1./6, 1./120, -1./5040, 1./362880, -1./39916800, 1./6227020800, -1./1307674368000), angle)
		x := s.horner(t, 1, -1./2, 1./24, -1./720, 1./40320, -1./3628800, 1./479001600, -1./87178291200, 1./20922789888000)
		VMOVUPD(s.xor(s.mul(x, radius), sign), Mem{Base: cos})
		VMOVUPD(s.mul(y, radius), Mem{Base: sin})
	}, cos, sin, bits)
}
