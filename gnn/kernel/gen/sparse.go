//go:build ignore

package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The kernels of sparse.go, newton.go and RowExponentials, in which a register holds
// classes. A call of a sparse kernel is for one row; it goes through the row's entries
// once for every sparseLanes classes.
const sparseLanes = 8

// layers writes these kernels.
func (s isa) layers() {
	s.sparseProduct()
	s.sparseTransposed()
	s.sparseSquares()
	s.sparseAdd()
	s.exponentialEach()
	s.raise()
	s.newton()
	s.stride()
	s.addCentred()
	s.rowExponentials()
}

// registers returns the number of registers of sparseLanes classes.
func (s isa) registers() int { return sparseLanes / s.lanes }

func (s isa) eachRegister(make func(i int) VecVirtual) (r []VecVirtual) {
	for i := range s.registers() {
		r = append(r, make(i))
	}
	return r
}

// broadcast returns the number at a in all lanes.
func (s isa) broadcast(a Mem) VecVirtual {
	r := s.register()
	VBROADCASTSD(a, r)
	return r
}

// rowOf returns the address of a row of the matrix at base with rows of stride bytes. The
// row's number is at index.
func rowOf(index Mem, stride, base Register) Mem {
	at := GP64()
	MOVLQSX(index, at)
	IMULQ(stride, at)
	return Mem{Base: base, Index: at, Scale: 1}
}

// sparseProduct computes sparseLanes classes of a row of n ≥ 0 entries, summed as four
// sums of every fourth entry.
func (s isa) sparseProduct() {
	s.text("sparseProduct", "(dst *float64, column *int32, value *float64, n int, m *float64, stride int)")
	column, value, n, m, stride := argument("column"), argument("value"), argument("n"), argument("m"), step("stride")
	const sums = 4
	var sum [sums][]VecVirtual
	for k := range sum {
		sum[k] = s.eachRegister(func(int) VecVirtual { return s.zero() })
	}
	add := func(k, to int) {
		x := s.broadcast(Mem{Base: value, Disp: 8 * k})
		row := rowOf(Mem{Base: column, Disp: 4 * k}, stride, m)
		for i, t := range sum[to] {
			VADDPD(s.mul(x, row.Offset(i*s.bytes())), t, t)
		}
	}
	Label("four")
	CMPQ(n, U8(sums))
	JLT(LabelRef("rest"))
	for k := range sums {
		add(k, k)
	}
	ADDQ(U8(8*sums), value)
	ADDQ(U8(4*sums), column)
	SUBQ(U8(sums), n)
	JMP(LabelRef("four"))
	Label("rest")
	for k := range sums - 1 { // the entries that are left go on with their sums
		CMPQ(n, U8(k))
		JLE(LabelRef("end"))
		add(k, k)
	}
	Label("end")
	dst := argument("dst")
	for i := range s.registers() {
		VMOVUPD(s.add(s.add(sum[0][i], sum[1][i]), s.add(sum[2][i], sum[3][i])), Mem{Base: dst, Disp: i * s.bytes()})
	}
	end()
}

// sparseTransposed adds x·r to g and |x|·w to h, for each of n > 0 entries x.
func (s isa) sparseTransposed() {
	s.text("sparseTransposed", "(gradient, h *float64, column *int32, value, r, w *float64, n, stride int)")
	g, h, column, value, stride := argument("gradient"), argument("h"), argument("column"), argument("value"), step("stride")
	r, w := argument("r"), argument("w")
	from := s.eachRegister(func(i int) VecVirtual { return s.load(Mem{Base: r, Disp: i * s.bytes()}) })
	bound := s.eachRegister(func(i int) VecVirtual { return s.load(Mem{Base: w, Disp: i * s.bytes()}) })
	positive := s.load(s.bits(1<<63 - 1))
	loop("entries", argument("n"), 1, func() {
		x := s.broadcast(Mem{Base: value})
		y := s.and(x, positive)
		to := rowOf(Mem{Base: column}, stride, g)
		too := Mem{Base: h, Index: to.Index, Scale: 1}
		for i := range from {
			at, also := to.Offset(i*s.bytes()), too.Offset(i*s.bytes())
			VMOVUPD(s.add(s.mul(from[i], x), at), at)
			VMOVUPD(s.add(s.mul(bound[i], y), also), also)
		}
		ADDQ(U8(8), value)
		ADDQ(U8(4), column)
	})
	end()
}

// sparseSquares adds x²·w to t, for each of n > 0 entries x.
func (s isa) sparseSquares() {
	s.text("sparseSquares", "(t *float64, column *int32, value, w *float64, n, stride int)")
	s.sparseSums("t", "w", func(x VecVirtual) VecVirtual { return s.mul(x, x) })
}

// sparseAdd adds x·by to m, for each of n > 0 entries x.
func (s isa) sparseAdd() {
	s.text("sparseAdd", "(m *float64, column *int32, value, by *float64, n, stride int)")
	s.sparseSums("m", "by", func(x VecVirtual) VecVirtual { return x })
}

// sparseSums adds f(x) times a row to the row of sums of each entry x.
func (s isa) sparseSums(sums, row string, f func(x VecVirtual) VecVirtual) {
	to, column, value, stride, w := argument(sums), argument("column"), argument("value"), step("stride"), argument(row)
	from := s.eachRegister(func(i int) VecVirtual { return s.load(Mem{Base: w, Disp: i * s.bytes()}) })
	loop("entries", argument("n"), 1, func() {
		x := f(s.broadcast(Mem{Base: value}))
		to := rowOf(Mem{Base: column}, stride, to)
		for i := range from {
			at := to.Offset(i * s.bytes())
			VMOVUPD(s.add(s.mul(from[i], x), at), at)
		}
		ADDQ(U8(8), value)
		ADDQ(U8(4), column)
	})
	end()
}

func (s isa) exponentialEach() {
	s.text("exponentialEach", "(a *float64, n int)")
	a := argument("a")
	s.each(func() {
		VMOVUPD(s.exp(s.load(Mem{Base: a})), Mem{Base: a})
	}, a)
}

func (s isa) raise() {
	s.text("raise", "(dst *float64, src *float32, least float64, n int)")
	dst, src := argument("dst"), argument("src")
	least := s.register()
	VBROADCASTSD(NewParamAddr("least", 2*8), least)
	loop("loop", argument("n"), s.lanes, func() {
		x := s.widen(Mem{Base: src})
		VMAXPD(x, least, x) // x unless least > x
		VMOVUPD(x, Mem{Base: dst})
		ADDQ(U8(s.bytes()), dst)
		ADDQ(U8(s.bytes()/2), src)
	})
	end()
}

func (s isa) newton() {
	s.text("newton", "(step, m, start, t, gradient, h *float64, n int)")
	step, m, start, t, g, h := argument("step"), argument("m"), argument("start"), argument("t"), argument("gradient"), argument("h")
	s.each(func() {
		from := s.load(Mem{Base: t})
		off := s.sub(s.load(Mem{Base: m}), Mem{Base: start})
		x := s.sub(s.load(Mem{Base: g}), s.mul(off, from))
		VMOVUPD(s.div(x, s.add(from, Mem{Base: h})), Mem{Base: step})
	}, step, m, start, t, g, h)
}

func (s isa) stride() {
	s.text("stride", "(m, held, step, start, t, sum *float64, n int)")
	m, held, step, start, t, sum := argument("m"), argument("held"), argument("step"), argument("start"), argument("t"), argument("sum")
	total := s.eachRegister(func(int) VecVirtual { return s.zero() })
	loop("loop", argument("n"), sparseLanes, func() {
		for i, to := range total {
			at := func(p Register) Mem { return Mem{Base: p, Disp: i * s.bytes()} }
			x := s.add(s.load(at(held)), at(step))
			VMOVUPD(x, at(m))
			off := s.sub(x, at(start))
			VADDPD(s.mul(s.mul(off, at(t)), off), to, to)
		}
		for _, p := range []Register{m, held, step, start, t} {
			ADDQ(U8(8*sparseLanes), p)
		}
	})
	for i, x := range total {
		VMOVUPD(x, Mem{Base: sum, Disp: i * s.bytes()})
	}
	end()
}

func (s isa) addCentred() {
	s.text("addCentred", "(sum, dst, a, by, mean *float64, classes, lanes int)")
	sum, dst, a, by := argument("sum"), argument("dst"), argument("a"), argument("by")
	loop("classes", argument("classes"), 1, func() {
		p, mean := s.broadcast(Mem{Base: by}), argument("mean")
		loop("lanes", argument("lanes"), s.lanes, func() {
			x := s.mul(s.sub(s.load(Mem{Base: a}), Mem{Base: mean}), p)
			VMOVUPD(x, Mem{Base: dst})
			VMOVUPD(s.add(x, Mem{Base: sum}), Mem{Base: sum})
			s.next(sum, dst, a, mean)
		})
		ADDQ(U8(8), by)
	})
	end()
}

// rowExponentials sums across lanes, unlike the others. Its definition fixes the eight sums
// of a row and the order in which they are added, whatever the width of a register.
func (s isa) rowExponentials() {
	s.text("rowExponentials", "(a, most, total *float64, rows, n int)")
	a, most, total := argument("a"), argument("most"), argument("total")
	loop("rows", argument("rows"), 1, func() {
		p, n := copyOf(a), argument("n")
		top := s.eachRegister(func(int) VecVirtual { return s.load(s.number(math.Inf(-1))) })
		loop("most", n, sparseLanes, func() {
			for i, t := range top {
				x := s.load(Mem{Base: p, Disp: i * s.bytes()})
				VMAXPD(t, x, t)
			}
			ADDQ(U8(8*sparseLanes), p)
		})
		highest := s.across(top, VMAXPD)
		VMOVSD(highest, Mem{Base: most})
		all := s.register()
		VBROADCASTSD(highest, all)

		n = argument("n")
		sum := s.eachRegister(func(int) VecVirtual { return s.zero() })
		loop("numbers", n, sparseLanes, func() {
			for i, t := range sum {
				at := Mem{Base: a, Disp: i * s.bytes()}
				y := s.exp(s.sub(s.load(at), all))
				VMOVUPD(y, at)
				VADDPD(y, t, t)
			}
			ADDQ(U8(8*sparseLanes), a)
		})
		VMOVSD(s.across(sum, VADDPD), Mem{Base: total})
		ADDQ(U8(8), most)
		ADDQ(U8(8), total)
	})
	end()
}

// across reduces eight lanes to one: each with the lane four further on, then two further
// on, then one.
func (s isa) across(x []VecVirtual, with func(...Op)) VecVirtual {
	four := YMM()
	if s.lanes == 8 {
		VEXTRACTF64X4(U8(1), x[0], four)
		with(four, x[0].AsY(), four)
	} else {
		with(x[1], x[0], four)
	}
	two := XMM()
	VEXTRACTF128(U8(1), four, two)
	with(two, four.AsX(), two)
	one := XMM()
	VPERMILPD(U8(1), two, one)
	with(one, two, one)
	return one
}
