//go:build ignore

package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// clear returns a register of zeros.
func (l isa) clear() VecVirtual {
	v := l.register()
	VXORPS(v, v, v)
	return v
}

// writeSingle writes the kernels of float32. Strides and column numbers come in elements and
// are turned into bytes by SHLQ(2, …) on entry.
func writeSingle() {
	masks := maskTable()
	for _, l := range sets {
		gather(l, masks, true)
		gather(l, masks, false)
		product(l, masks)
		productRows4(l)
		gatherRectified(l, masks)
		exchange(l, masks)
		vectors(l, masks)
		widen(l)
		narrow(l)
	}
	prefetch()
	prefetchAt()
}

// tailMask is what maskTable returns.
var tailMask Mem

// maskTable is 8 entries of all ones followed by 8 of zero: the 8 entries from
// number 8-n on are AVX2's mask of the first n lanes.
func maskTable() Mem {
	if tailMask.Base != nil {
		return tailMask
	}
	m := GLOBL("tailMask", RODATA|NOPTR)
	for i := range 16 {
		v := U32(0)
		if i < 8 {
			v = 0xffffffff
		}
		DATA(4*i, v)
	}
	tailMask = m
	return m
}

// tail moves the first n < lanes float32s, or half as many float64s, between memory and
// registers, by an AVX2 mask (ymm) or an AVX-512 mask (k). A nil tail moves whole registers.
type tail struct {
	ymm VecVirtual
	k   OpmaskVirtual
}

func newTail(l isa, masks Mem, n Register) *tail {
	t := &tail{}
	if l.singles == 16 {
		shift := GP64()
		MOVQ(n, shift)
		bits := GP64()
		MOVQ(I32(-1), bits)
		SHLXQ(shift, bits, bits)
		NOTQ(bits)
		t.k = K()
		KMOVW(bits.As32(), t.k)
		return t
	}
	at := GP64()
	MOVQ(U32(8), at)
	SUBQ(n, at)
	base := GP64()
	LEAQ(masks, base)
	t.ymm = YMM()
	VMOVUPS(Mem{Base: base, Index: at, Scale: 4}, t.ymm)
	return t
}

func (t *tail) load(l isa, m Mem) VecVirtual {
	v := l.register()
	switch {
	case t == nil:
		VMOVUPS(m, v)
	case l.singles == 16:
		VMOVUPS_Z(m, t.k, v)
	default:
		VMASKMOVPS(m, t.ymm, v)
	}
	return v
}

func (t *tail) store(l isa, v VecVirtual, m Mem) {
	switch {
	case t == nil:
		VMOVUPS(v, m)
	case l.singles == 16:
		VMOVUPS(v, t.k, m)
	default:
		VMASKMOVPS(v, t.ymm, m)
	}
}

// operand returns what instructions read for m: memory if t is nil.
func (t *tail) operand(l isa, m Mem) Op {
	if t == nil {
		return m
	}
	return t.load(l, m)
}

// counted runs body with i from 0 to below n, which is above 0.
func counted(label string, n Register, body func(i Register)) {
	i := GP64()
	XORQ(i, i)
	Label(label)
	body(i)
	INCQ(i)
	CMPQ(i, n)
	JL(LabelRef(label))
}

// multiplyAdd is acc += m·factor, the product rounded first.
func multiplyAdd(l isa, m Op, factor, acc VecVirtual) { VADDPS(l.mulf(factor, m), acc, acc) }

// gather keeps a tile of dst in registers while it goes through the rows.
func gather(l isa, masks Mem, weighted bool) {
	var value Register
	if weighted {
		l.text("gather", "(dst *float32, n int, index *int32, value *float32, count int, rows *float32, stride int)")
		value = argument("value")
	} else {
		l.text("gatherSum", "(dst *float32, n int, index *int32, count int, rows *float32, stride int)")
	}
	dst, n := argument("dst"), argument("n")
	index, count := argument("index"), argument("count")
	rows, stride := argument("rows"), argument("stride")
	SHLQ(U8(2), stride)

	// through adds every row's part of the tile to acc.
	through := func(label string, acc []VecVirtual, t *tail) {
		counted(label, count, func(i Register) {
			row := GP64()
			MOVLQSX(Mem{Base: index, Index: i, Scale: 4}, row)
			IMULQ(stride, row)
			ADDQ(rows, row)
			var factor VecVirtual
			if weighted {
				factor = l.register()
				VBROADCASTSS(Mem{Base: value, Index: i, Scale: 4}, factor)
			}
			for a := range acc {
				m := t.operand(l, Mem{Base: row}.Offset(4*l.singles*a))
				if weighted {
					multiplyAdd(l, m, factor, acc[a])
				} else {
					VADDPS(m, acc[a], acc[a])
				}
			}
		})
	}
	tiles(l, masks, dst, n, []Register{rows}, loaded, through)
}

// product is gather of the rows 0, 1, 2, …
func product(l isa, masks Mem) {
	l.text("product", "(dst *float32, n int, x *float32, count int, w *float32, stride int)")
	dst, n := argument("dst"), argument("n")
	x, count := argument("x"), argument("count")
	w, stride := argument("w"), argument("stride")
	SHLQ(U8(2), stride)
	tiles(l, masks, dst, n, []Register{w}, loaded, func(label string, acc []VecVirtual, t *tail) {
		row := copyOf(w)
		counted(label, count, func(i Register) {
			factor := l.register()
			VBROADCASTSS(Mem{Base: x, Index: i, Scale: 4}, factor)
			for a := range acc {
				multiplyAdd(l, t.operand(l, Mem{Base: row}.Offset(4*l.singles*a)), factor, acc[a])
			}
			ADDQ(stride, row)
		})
	})
}

// start is what the sums of a tile start from: what dst holds, or zero.
type start int

const (
	loaded start = iota
	zeroed
)

// tiles cuts the n columns at dst into tiles of 8, 4, 2 and 1 registers and a
// rest, and has through compute each. The registers in beside advance together
// with dst.
func tiles(l isa, masks Mem, dst, n Register, beside []Register, from start, through func(label string, acc []VecVirtual, t *tail)) {
	tile := func(label string, width int, t *tail) {
		acc := make([]VecVirtual, width)
		for a := range acc {
			if from == zeroed {
				acc[a] = l.clear()
			} else {
				acc[a] = t.load(l, Mem{Base: dst}.Offset(4*l.singles*a))
			}
		}
		through(label, acc, t)
		for a := range acc {
			t.store(l, acc[a], Mem{Base: dst}.Offset(4*l.singles*a))
		}
	}
	for _, width := range []int{8, 4, 2, 1} {
		this, next := fmt.Sprintf("tile%d", width), fmt.Sprintf("tile%d", width/2)
		Label(this)
		CMPQ(n, U32(width*l.singles))
		JL(LabelRef(next))
		tile(fmt.Sprintf("rows%d", width), width, nil)
		for _, p := range append(beside, dst) {
			ADDQ(U32(4*l.singles*width), p)
		}
		SUBQ(U32(l.singles*width), n)
		JMP(LabelRef(this))
	}
	Label("tile0")
	CMPQ(n, U32(0))
	JE(LabelRef("done"))
	tile("rowsTail", 1, newTail(l, masks, n))
	Label("done")
	end()
}

// table is a kernel.Table as the kernels read it: the address of its slice of
// blocks, and the shift and the width of a row.
type table struct{ blocks, shift, stride Register }

func loadTable() table {
	t := table{argument("blocks"), argument("shift"), argument("stride")}
	SHLQ(U8(2), t.stride)
	return t
}

// row returns the address of row index[i]: block number index>>shift, row
// index&(1<<shift-1) in it.
func (t table) row(index, i Register) Register {
	row, block := GP64(), GP64()
	MOVLQSX(Mem{Base: index, Index: i, Scale: 4}, row)
	SHRXQ(t.shift, row, block)
	BZHIQ(t.shift, row, row)
	IMULQ(t.stride, row)
	LEAQ(Mem{Base: block, Index: block, Scale: 2}, block)
	const sliceWords = 8 // a slice header is three words of 8 bytes: LEAQ made 3·block
	ADDQ(Mem{Base: t.blocks, Index: block, Scale: sliceWords}, row)
	return row
}

// prefetch prefetches the cache lines of n columns of each row.
func prefetch() {
	form("prefetch", "(n int, index *int32, count int, blocks *[]float32, shift int, stride int, from int)")
	n := argument("n")
	index, count := argument("index"), argument("count")
	rows := loadTable()
	from := argument("from")
	SHLQ(U8(2), from)
	counted("rows", count, func(i Register) {
		row, left := rows.row(index, i), GP64()
		ADDQ(from, row)
		MOVQ(n, left)
		Label("lines")
		PREFETCHT1(Mem{Base: row})
		const line = 64
		ADDQ(U32(line), row)
		SUBQ(U32(line/4), left)
		JG(LabelRef("lines"))
	})
	RET()
}

// prefetchAt prefetches the cache lines at some addresses.
func prefetchAt() {
	form("prefetchAt", "(address *uintptr, count int)")
	address, count := argument("address"), argument("count")
	Label("lines")
	line := GP64()
	MOVQ(Mem{Base: address}, line)
	PREFETCHT1(Mem{Base: line})
	ADDQ(U32(8), address)
	SUBQ(U32(1), count)
	JG(LabelRef("lines"))
	RET()
}

// gatherRectified is gatherSum of max(x + scale·y, 0), with x and y two parts
// of each row. A maximum of -0 is not turned into +0: added to a sum that
// starts from +0 it makes no difference.
func gatherRectified(l isa, masks Mem) {
	l.text("gatherRectified", "(dst *float32, n int, index *int32, scale *float32, count int, blocks *[]float32, shift "+
		"int, stride int, own int, sum int)")
	dst, n := argument("dst"), argument("n")
	index, scale, count := argument("index"), argument("scale"), argument("count")
	rows := loadTable()
	// The distance from the first part to the second is the same in all rows.
	own, gap := argument("own"), argument("sum")
	SUBQ(own, gap)
	SHLQ(U8(2), own)
	SHLQ(U8(2), gap)
	zero := l.clear()
	tiles(l, masks, dst, n, []Register{own}, zeroed, func(label string, acc []VecVirtual, t *tail) {
		counted(label, count, func(i Register) {
			row := rows.row(index, i)
			ADDQ(own, row)
			factor := l.register()
			VBROADCASTSS(Mem{Base: scale, Index: i, Scale: 4}, factor)
			for a := range acc {
				x, y := Mem{Base: row}.Offset(4*l.singles*a), Mem{Base: row, Index: gap, Scale: 1}.Offset(4*l.singles*a)
				v := l.addf(l.mulf(factor, t.operand(l, y)), t.operand(l, x))
				VMAXPS(v, zero, v)
				VADDPS(v, acc[a], acc[a])
			}
		})
	})
}

// exchange keeps a tile of v's sums in registers while it goes through the rows.
func exchange(l isa, masks Mem) {
	l.text("exchange", "(sum *float32, n int, own *float32, index *int32, count int, blocks *[]float32, shift int, "+
		"stride int, from int, to int)")
	sum, n, own := argument("sum"), argument("n"), argument("own")
	index, count := argument("index"), argument("count")
	rows := loadTable()
	from, gap := argument("from"), argument("to")
	SUBQ(from, gap)
	SHLQ(U8(2), from)
	SHLQ(U8(2), gap)
	tiles(l, masks, sum, n, []Register{own, from}, loaded, func(label string, acc []VecVirtual, t *tail) {
		counted(label, count, func(i Register) {
			row := rows.row(index, i)
			ADDQ(from, row)
			for a := range acc {
				x, y := Mem{Base: row}.Offset(4*l.singles*a), Mem{Base: row, Index: gap, Scale: 1}.Offset(4*l.singles*a)
				mine := Mem{Base: own}.Offset(4 * l.singles * a)
				VADDPS(t.operand(l, x), acc[a], acc[a])
				t.store(l, l.addf(t.load(l, y), t.operand(l, mine)), y)
			}
		})
	})
}

// productRows4 multiplies four rows at once by two registers' columns of w:
// eight sums proceed side by side, and w is loaded a quarter as often; then by one register's. It
// leaves columns that do not fill a register to the caller and returns how
// many are done.
func productRows4(l isa) {
	l.text("productRows4", "(dst *float32, n int, apart int, x *float32, count int, w *float32) (done int)")
	dst, n := argument("dst"), argument("n")
	x, count := argument("x"), argument("count")
	w := argument("w")
	done := GP64()
	XORQ(done, done)
	stride, apart, xStride := GP64(), argument("apart"), GP64()
	MOVQ(n, stride)
	SHLQ(U8(2), stride)
	SHLQ(U8(2), apart)
	MOVQ(count, xStride)
	SHLQ(U8(2), xStride)
	// Row r of x begins at x[r].
	xs := []Register{x, GP64(), GP64(), GP64()}
	for r := 1; r < 4; r++ {
		MOVQ(xs[r-1], xs[r])
		ADDQ(xStride, xs[r])
	}
	for registers := 2; registers > 0; registers-- {
		label := func(name string) string { return fmt.Sprintf("%s%d", name, registers) }
		Label(label("columns"))
		CMPQ(n, U32(registers*l.singles))
		JL(LabelRef(label("done")))
		acc := make([][]VecVirtual, 4)
		at := copyOf(dst)
		for r := range acc {
			for a := range registers {
				acc[r] = append(acc[r], l.loadf(Mem{Base: at}.Offset(4*l.singles*a)))
			}
			ADDQ(apart, at)
		}
		row := copyOf(w)
		counted(label("terms"), count, func(i Register) {
			column := make([]VecVirtual, registers)
			for a := range column {
				column[a] = l.loadf(Mem{Base: row}.Offset(4 * l.singles * a))
			}
			for r := range acc {
				factor := l.register()
				VBROADCASTSS(Mem{Base: xs[r], Index: i, Scale: 4}, factor)
				for a, sum := range acc[r] {
					multiplyAdd(l, column[a], factor, sum)
				}
			}
			ADDQ(stride, row)
		})
		at = copyOf(dst)
		for r := range acc {
			for a, sum := range acc[r] {
				VMOVUPS(sum, Mem{Base: at}.Offset(4*l.singles*a))
			}
			ADDQ(apart, at)
		}
		for _, p := range []Register{dst, w} {
			ADDQ(U32(4*registers*l.singles), p)
		}
		ADDQ(U32(registers*l.singles), done)
		SUBQ(U32(registers*l.singles), n)
		JMP(LabelRef(label("columns")))
		Label(label("done"))
	}
	Store(done, Return("done"))
	end()
}

// block is what an elementwise kernel works on: a register's worth of numbers
// at the same place of every slice.
type block struct {
	isa
	at    map[string]Register   // slices
	konst map[string]VecVirtual // parameters that are numbers
	tail  *tail
}

func (b *block) get(name string) VecVirtual    { return b.tail.load(b.isa, Mem{Base: b.at[name]}) }
func (b *block) put(v VecVirtual, name string) { b.tail.store(b.isa, v, Mem{Base: b.at[name]}) }

// times returns a constant times v.
func (b *block) times(name string, v VecVirtual) VecVirtual { return b.mulf(v, b.konst[name]) }

// rectified returns max(v, 0): NaN for NaN, and never -0.
func (b *block) rectified(v VecVirtual) VecVirtual {
	zero, most := b.clear(), b.register()
	VMAXPS(v, zero, most)
	VADDPS(zero, most, most)
	return most
}

// where returns a constant times v where instruction compares a and b so, and +0 elsewhere.
func (b *block) where(compare func(to Register), name string, v VecVirtual) VecVirtual {
	if b.singles == 16 {
		k, product := K(), b.register()
		compare(k)
		VMULPS_Z(b.konst[name], v, k, product)
		return product
	}
	mask, product := b.register(), b.times(name, v)
	compare(mask)
	VANDPS(mask, product, product)
	return product
}

// elementwise writes a kernel that runs do for every register's worth of n
// numbers. Of the parameters after n, pointers are slices and the rest constants. Of draws,
// a whole register's worth is read for the tail too, see kernel.Draws.
func elementwise(l isa, masks Mem, name, params string, do func(b *block)) {
	l.text(name, "(dst *float32, n int"+params+")")
	b := &block{isa: l, at: map[string]Register{"dst": argument("dst")}, konst: map[string]VecVirtual{}}
	n, size := argument("n"), map[string]int{"dst": 4}
	slices := []string{"dst"}
	for _, param := range strings.Split(params, ", ")[1:] {
		name, kind, _ := strings.Cut(param, " ")
		switch v, x := l.register(), XMM(); kind {
		case "*float32":
			size[name] = 4
		case "*uint16":
			size[name] = 2
		case "uint32":
			MOVD(Load(Param(name), GP32()), x)
			VPBROADCASTD(x, v)
			b.konst[name] = v
		default:
			VBROADCASTSS(Load(Param(name), x), v)
			b.konst[name] = v
		}
		if size[name] > 0 {
			slices, b.at[name] = append(slices, name), argument(name)
		}
	}
	Label("loop")
	CMPQ(n, U32(l.singles))
	JL(LabelRef("tail"))
	do(b)
	for _, s := range slices {
		ADDQ(U32(size[s]*l.singles), b.at[s])
	}
	SUBQ(U32(l.singles), n)
	JMP(LabelRef("loop"))
	Label("tail")
	CMPQ(n, U32(0))
	JE(LabelRef("done"))
	b.tail = newTail(l, masks, n)
	do(b)
	Label("done")
	end()
}

// vectors writes the elementwise kernels.
func vectors(l isa, masks Mem) {
	elementwise(l, masks, "axpy", ", a float32, x *float32", func(b *block) {
		b.put(b.addf(b.get("dst"), b.times("a", b.get("x"))), "dst")
	})
	elementwise(l, masks, "add", ", x *float32", func(b *block) {
		b.put(b.addf(b.get("dst"), b.get("x")), "dst")
	})
	elementwise(l, masks, "scale", ", a float32", func(b *block) {
		b.put(b.times("a", b.get("dst")), "dst")
	})
	elementwise(l, masks, "combine", ", own *float32, sum *float32, scale float32", func(b *block) {
		b.put(b.addf(b.get("own"), b.times("scale", b.get("sum"))), "dst")
	})
	elementwise(l, masks, "rectify", ", x *float32", func(b *block) {
		b.put(b.rectified(b.get("x")), "dst")
	})
	elementwise(l, masks, "addRectified", ", own *float32, sum *float32, scale float32", func(b *block) {
		b.put(b.addf(b.get("dst"), b.rectified(b.addf(b.get("own"), b.times("scale", b.get("sum"))))), "dst")
	})
	elementwise(l, masks, "gate", ", x *float32, a float32", func(b *block) {
		const greater = 0x1e // ordered, quiet
		x := b.get("x")
		b.put(b.where(func(to Register) { VCMPPS(U8(greater), b.clear(), x, to) }, "a", b.get("dst")), "dst")
	})
	elementwise(l, masks, "dropout", ", x *float32, draws *uint16, below uint32, scale float32", func(b *block) {
		draws := b.register()
		VPMOVZXWD(Mem{Base: b.at["draws"]}, draws)
		b.put(b.where(func(to Register) { VPCMPGTD(draws, b.konst["below"], to) }, "scale", b.get("x")), "dst")
	})
	// A step of Kingma and Ba's Algorithm 1, with the bias corrections in size and root.
	elementwise(l, masks, "adam", ", grad *float32, first *float32, second *float32, size float32, root float32, decay "+
		"float32, b1 float32, c1 float32, b2 float32, c2 float32, eps float32", func(b *block) {
		param := b.get("dst")
		g := b.addf(b.get("grad"), b.times("decay", param))
		m := b.addf(b.times("b1", b.get("first")), b.times("c1", g))
		v := b.addf(b.times("b2", b.get("second")), b.times("c2", b.mulf(g, g)))
		b.put(m, "first")
		b.put(v, "second")
		root := b.register()
		VSQRTPS(v, root)
		step, under := b.times("size", m), b.addf(b.times("root", root), b.konst["eps"])
		VDIVPS(under, step, step)
		b.put(b.subf(param, step), "dst")
	})
}

// widen converts whole registers' worth of bfloat16 to float32.
func widen(l isa) {
	l.text("widen", "(dst *float32, n int, src *uint16)")
	dst, n, src := argument("dst"), argument("n"), argument("src")
	Label("loop")
	v := l.register()
	VPMOVZXWD(Mem{Base: src}, v)
	VPSLLD(U8(16), v, v)
	VMOVUPS(v, Mem{Base: dst})
	ADDQ(U32(4*l.singles), dst)
	ADDQ(U32(2*l.singles), src)
	SUBQ(U32(l.singles), n)
	JG(LabelRef("loop"))
	end()
}

// narrow converts whole registers' worth of float32 to bfloat16. Adding 0x7fff,
// or 0x8000 if the number rounded down would be odd, rounds to the nearest,
// half-way cases to even.
func narrow(l isa) {
	l.text("narrow", "(dst *uint16, n int, src *float32)")
	dst, n, src := argument("dst"), argument("n"), argument("src")
	constant := func(c uint32) VecVirtual {
		r, x, v := GP32(), XMM(), l.register()
		MOVL(U32(c), r)
		MOVD(r, x)
		VPBROADCASTD(x, v)
		return v
	}
	one, below := constant(1), constant(0x7fff)
	Label("loop")
	v, odd := l.register(), l.register()
	VMOVUPS(Mem{Base: src}, v)
	VPSRLD(U8(16), v, odd)
	if l.singles == 16 {
		VPANDD(one, odd, odd)
	} else {
		VPAND(one, odd, odd)
	}
	VPADDD(below, v, v)
	VPADDD(odd, v, v)
	VPSRLD(U8(16), v, v)
	if l.singles == 16 {
		VPMOVDW(v, Mem{Base: dst})
	} else {
		high, low := XMM(), XMM()
		VEXTRACTI128(U8(1), v, high)
		VEXTRACTI128(U8(0), v, low)
		VPACKUSDW(high, low, low)
		VMOVDQU(low, Mem{Base: dst})
	}
	ADDQ(U32(2*l.singles), dst)
	ADDQ(U32(4*l.singles), src)
	SUBQ(U32(l.singles), n)
	JG(LabelRef("loop"))
	end()
}
