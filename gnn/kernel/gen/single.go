//go:build ignore

package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// clear returns a register of zeros.
func (l isa) clear() VecVirtual {
	v := l.register()
	clearRegister(l, v)
	return v
}

func clearRegister(l isa, v VecVirtual) {
	if l.singles == 16 {
		VPXORD(v, v, v)
	} else {
		VXORPS(v, v, v)
	}
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
		elementwise(l, masks, "axpy", "(dst *float32, n int, a float32, x *float32)", axpy)
		elementwise(l, masks, "add", "(dst *float32, n int, x *float32)", add)
		elementwise(l, masks, "scale", "(dst *float32, n int, a float32)", scale)
		elementwise(l, masks, "combine", "(dst *float32, n int, own *float32, sum *float32, scale float32)", combine)
		elementwise(l, masks, "rectify", "(dst *float32, n int, x *float32)", rectify)
		elementwise(l, masks, "addRectified", "(dst *float32, n int, own *float32, sum *float32, scale float32)", addRectified)
		elementwise(l, masks, "adam", "(param *float32, n int, grad *float32, first *float32, second *float32, c *[8]float32)", adam)
		elementwise(l, masks, "gate", "(dst *float32, n int, x *float32, a float32)", gate)
		dropout(l, masks)
		widen(l)
		narrow(l)
	}
	prefetch()
	prefetchAt()
}

// maskTable is 8 entries of all ones followed by 8 of zero: the 8 entries from
// number 8-n on are AVX2's mask of the first n lanes.
func maskTable() Mem {
	m := GLOBL("tailMask", RODATA|NOPTR)
	for i := range 16 {
		v := U32(0)
		if i < 8 {
			v = 0xffffffff
		}
		DATA(4*i, v)
	}
	return m
}

// tail moves the first n < lanes numbers between memory and registers, by an
// AVX2 mask (ymm) or an AVX-512 mask (k).
type tail struct {
	level isa
	ymm   VecVirtual
	k     OpmaskVirtual
}

func newTail(l isa, masks Mem, n Register) *tail {
	t := &tail{level: l}
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

func (t *tail) load(m Mem, dst VecVirtual) {
	if t.level.singles == 16 {
		VMOVUPS_Z(m, t.k, dst)
		return
	}
	VMASKMOVPS(m, t.ymm, dst)
}

func (t *tail) store(src VecVirtual, m Mem) {
	if t.level.singles == 16 {
		VMOVUPS(src, t.k, m)
		return
	}
	VMASKMOVPS(src, t.ymm, m)
}

// multiplyAdd is acc += m·factor, the product rounded first.
func multiplyAdd(l isa, m Op, factor, acc VecVirtual) {
	p := l.register()
	VMULPS(m, factor, p)
	VADDPS(p, acc, acc)
}

// gather keeps a tile of dst in registers while it goes through the rows.
func gather(l isa, masks Mem, weighted bool) {
	name, signature := "gather"+l.name, "(dst *float32, n int, index *int32, value *float32, count int, rows *float32, stride int)"
	if !weighted {
		name, signature = "gatherSum"+l.name, "(dst *float32, n int, index *int32, count int, rows *float32, stride int)"
	}
	text(name, signature)
	dst, n := argument("dst"), argument("n")
	index, count := argument("index"), argument("count")
	var value Register
	if weighted {
		value = argument("value")
	}
	rows, stride := argument("rows"), argument("stride")
	SHLQ(U8(2), stride)

	// through adds every row's part of the tile to acc.
	through := func(label string, acc []VecVirtual, t *tail) {
		i := GP64()
		XORQ(i, i)
		Label(label)
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
			var m Op = Mem{Base: row}.Offset(4 * l.singles * a)
			if t != nil {
				v := l.register()
				t.load(m.(Mem), v)
				m = v
			}
			if weighted {
				multiplyAdd(l, m, factor, acc[a])
			} else {
				VADDPS(m, acc[a], acc[a])
			}
		}
		INCQ(i)
		CMPQ(i, count)
		JL(LabelRef(label))
	}
	tiles(l, masks, dst, n, []Register{rows}, loaded, through)
}

// product is gather of the rows 0, 1, 2, …
func product(l isa, masks Mem) {
	text("product"+l.name, "(dst *float32, n int, x *float32, count int, w *float32, stride int)")
	dst, n := argument("dst"), argument("n")
	x, count := argument("x"), argument("count")
	w, stride := argument("w"), argument("stride")
	SHLQ(U8(2), stride)
	tiles(l, masks, dst, n, []Register{w}, loaded, func(label string, acc []VecVirtual, t *tail) {
		i, row := GP64(), GP64()
		XORQ(i, i)
		MOVQ(w, row)
		Label(label)
		factor := l.register()
		VBROADCASTSS(Mem{Base: x, Index: i, Scale: 4}, factor)
		for a := range acc {
			var m Op = Mem{Base: row}.Offset(4 * l.singles * a)
			if t != nil {
				v := l.register()
				t.load(m.(Mem), v)
				m = v
			}
			multiplyAdd(l, m, factor, acc[a])
		}
		ADDQ(stride, row)
		INCQ(i)
		CMPQ(i, count)
		JL(LabelRef(label))
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
	for _, width := range []int{8, 4, 2, 1} {
		Label(fmt.Sprintf("tile%d", width))
		next := "tail"
		if width > 1 {
			next = fmt.Sprintf("tile%d", width/2)
		}
		CMPQ(n, U32(width*l.singles))
		JL(LabelRef(next))
		acc := make([]VecVirtual, width)
		for a := range acc {
			acc[a] = l.register()
			if from == zeroed {
				clearRegister(l, acc[a])
			} else {
				VMOVUPS(Mem{Base: dst}.Offset(4*l.singles*a), acc[a])
			}
		}
		through(fmt.Sprintf("rows%d", width), acc, nil)
		for a := range acc {
			VMOVUPS(acc[a], Mem{Base: dst}.Offset(4*l.singles*a))
		}
		ADDQ(U32(4*l.singles*width), dst)
		for _, b := range beside {
			ADDQ(U32(4*l.singles*width), b)
		}
		SUBQ(U32(l.singles*width), n)
		JMP(LabelRef(fmt.Sprintf("tile%d", width)))
	}
	Label("tail")
	CMPQ(n, U32(0))
	JE(LabelRef("done"))
	t := newTail(l, masks, n)
	acc := l.register()
	if from == zeroed {
		clearRegister(l, acc)
	} else {
		t.load(Mem{Base: dst}, acc)
	}
	through("rowsTail", []VecVirtual{acc}, t)
	t.store(acc, Mem{Base: dst})
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
	text("prefetch", "(n int, index *int32, count int, blocks *[]float32, shift int, stride int, from int)")
	n := argument("n")
	index, count := argument("index"), argument("count")
	t := loadTable()
	from := argument("from")
	SHLQ(U8(2), from)
	i := GP64()
	XORQ(i, i)
	Label("rows")
	row, left := t.row(index, i), GP64()
	ADDQ(from, row)
	MOVQ(n, left)
	Label("lines")
	PREFETCHT1(Mem{Base: row})
	const line = 64
	ADDQ(U32(line), row)
	SUBQ(U32(line/4), left)
	JG(LabelRef("lines"))
	INCQ(i)
	CMPQ(i, count)
	JL(LabelRef("rows"))
	RET()
}

// prefetchAt prefetches the cache lines at some addresses.
func prefetchAt() {
	text("prefetchAt", "(address *uintptr, count int)")
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
	text("gatherRectified"+l.name, "(dst *float32, n int, index *int32, scale *float32, count int, blocks *[]float32, shift int, stride int, own int, sum int)")
	dst, n := argument("dst"), argument("n")
	index, scale, count := argument("index"), argument("scale"), argument("count")
	t := loadTable()
	// The distance from the first part to the second is the same in all rows.
	own, gap := argument("own"), argument("sum")
	SUBQ(own, gap)
	SHLQ(U8(2), own)
	SHLQ(U8(2), gap)
	zero := l.clear()
	tiles(l, masks, dst, n, []Register{own}, zeroed, func(label string, acc []VecVirtual, tl *tail) {
		i := GP64()
		XORQ(i, i)
		Label(label)
		row := t.row(index, i)
		ADDQ(own, row)
		factor := l.register()
		VBROADCASTSS(Mem{Base: scale, Index: i, Scale: 4}, factor)
		for a := range acc {
			x, y := Mem{Base: row}.Offset(4*l.singles*a), Mem{Base: row, Index: gap, Scale: 1}.Offset(4*l.singles*a)
			v := l.register()
			if tl != nil {
				w := l.register()
				tl.load(y, v)
				VMULPS(v, factor, v)
				tl.load(x, w)
				VADDPS(w, v, v)
			} else {
				VMULPS(y, factor, v)
				VADDPS(x, v, v)
			}
			VMAXPS(v, zero, v)
			VADDPS(v, acc[a], acc[a])
		}
		INCQ(i)
		CMPQ(i, count)
		JL(LabelRef(label))
	})
}

// exchange keeps a tile of v's sums in registers while it goes through the rows.
func exchange(l isa, masks Mem) {
	text("exchange"+l.name, "(sum *float32, n int, own *float32, index *int32, count int, blocks *[]float32, shift int, stride int, from int, to int)")
	sum, n, own := argument("sum"), argument("n"), argument("own")
	index, count := argument("index"), argument("count")
	t := loadTable()
	from, gap := argument("from"), argument("to")
	SUBQ(from, gap)
	SHLQ(U8(2), from)
	SHLQ(U8(2), gap)
	tiles(l, masks, sum, n, []Register{own, from}, loaded, func(label string, acc []VecVirtual, tl *tail) {
		i := GP64()
		XORQ(i, i)
		Label(label)
		row := t.row(index, i)
		ADDQ(from, row)
		for a := range acc {
			x, y := Mem{Base: row}.Offset(4*l.singles*a), Mem{Base: row, Index: gap, Scale: 1}.Offset(4*l.singles*a)
			mine := Mem{Base: own}.Offset(4 * l.singles * a)
			v := l.register()
			if tl != nil {
				w := l.register()
				tl.load(x, w)
				VADDPS(w, acc[a], acc[a])
				tl.load(y, v)
				tl.load(mine, w)
				VADDPS(w, v, v)
				tl.store(v, y)
				continue
			}
			VADDPS(x, acc[a], acc[a])
			VMOVUPS(y, v)
			VADDPS(mine, v, v)
			VMOVUPS(v, y)
		}
		INCQ(i)
		CMPQ(i, count)
		JL(LabelRef(label))
	})
}

// productRows4 multiplies four rows at once by two registers' columns of w:
// eight sums proceed side by side, and w is loaded a quarter as often; then by one register's. It
// leaves columns that do not fill a register to the caller and returns how
// many are done.
func productRows4(l isa) {
	text("productRows4"+l.name, "(dst *float32, n int, apart int, x *float32, count int, w *float32) (done int)")
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
		eachSum := func(do func(at Mem, sum VecVirtual)) {
			at := copyOf(dst)
			for r := range acc {
				for a, sum := range acc[r] {
					do(Mem{Base: at}.Offset(4*l.singles*a), sum)
				}
				ADDQ(apart, at)
			}
		}
		for r := range acc {
			for range registers {
				acc[r] = append(acc[r], l.register())
			}
		}
		eachSum(func(at Mem, sum VecVirtual) { VMOVUPS(at, sum) })
		i, row := GP64(), copyOf(w)
		XORQ(i, i)
		Label(label("terms"))
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
		INCQ(i)
		CMPQ(i, count)
		JL(LabelRef(label("terms")))
		eachSum(func(at Mem, sum VecVirtual) { VMOVUPS(sum, at) })
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
	level isa
	at    map[string]Register
	konst map[string]VecVirtual
	tail  *tail
}

func (b *block) load(name string) VecVirtual {
	v := b.level.register()
	if b.tail != nil {
		b.tail.load(Mem{Base: b.at[name]}, v)
	} else {
		VMOVUPS(Mem{Base: b.at[name]}, v)
	}
	return v
}

func (b *block) store(v VecVirtual, name string) {
	if b.tail != nil {
		b.tail.store(v, Mem{Base: b.at[name]})
	} else {
		VMOVUPS(v, Mem{Base: b.at[name]})
	}
}

// rectified returns max(v, 0): NaN for NaN, and never -0.
func (b *block) rectified(v VecVirtual) VecVirtual {
	zero, most := b.level.clear(), b.level.register()
	VMAXPS(v, zero, most)
	VADDPS(zero, most, most)
	return most
}

// elementwise writes a kernel that runs body for every register's worth of n
// numbers. The pointers in the signature are slices, the numbers constants.
func elementwise(l isa, masks Mem, name, signature string, body kernel) {
	text(name+l.name, signature)
	b := &block{level: l, at: map[string]Register{}, konst: map[string]VecVirtual{}}
	n := argument("n")
	for _, s := range body.slices {
		b.at[s] = Load(Param(s), GP64())
	}
	if body.constants == nil && body.constant != "" {
		v := l.register()
		x := Load(Param(body.constant), XMM())
		VBROADCASTSS(x, v)
		b.konst[body.constant] = v
	}
	if body.constants != nil {
		c := argument("c")
		for i, k := range body.constants {
			v := l.register()
			VBROADCASTSS(Mem{Base: c}.Offset(4*i), v)
			b.konst[k] = v
		}
	}
	Label("loop")
	CMPQ(n, U32(l.singles))
	JL(LabelRef("tail"))
	body.do(b)
	for _, s := range body.slices {
		ADDQ(U32(4*l.singles), b.at[s])
	}
	SUBQ(U32(l.singles), n)
	JMP(LabelRef("loop"))
	Label("tail")
	CMPQ(n, U32(0))
	JE(LabelRef("done"))
	b.tail = newTail(l, masks, n)
	body.do(b)
	Label("done")
	end()
}

// kernel describes an elementwise kernel: its slices, its constant or the
// constants that it reads from the array c, and what it does.
type kernel struct {
	slices    []string
	constant  string
	constants []string
	do        func(b *block)
}

var axpy = kernel{slices: []string{"dst", "x"}, constant: "a", do: func(b *block) {
	x, d := b.load("x"), b.load("dst")
	VMULPS(b.konst["a"], x, x)
	VADDPS(x, d, d)
	b.store(d, "dst")
}}

var add = kernel{slices: []string{"dst", "x"}, do: func(b *block) {
	x, d := b.load("x"), b.load("dst")
	VADDPS(x, d, d)
	b.store(d, "dst")
}}

var scale = kernel{slices: []string{"dst"}, constant: "a", do: func(b *block) {
	d := b.load("dst")
	VMULPS(b.konst["a"], d, d)
	b.store(d, "dst")
}}

var combine = kernel{slices: []string{"dst", "own", "sum"}, constant: "scale", do: func(b *block) {
	own, sum := b.load("own"), b.load("sum")
	VMULPS(b.konst["scale"], sum, sum)
	VADDPS(sum, own, own)
	b.store(own, "dst")
}}

var rectify = kernel{slices: []string{"dst", "x"}, do: func(b *block) {
	b.store(b.rectified(b.load("x")), "dst")
}}

var addRectified = kernel{slices: []string{"dst", "own", "sum"}, constant: "scale", do: func(b *block) {
	own, sum, d := b.load("own"), b.load("sum"), b.load("dst")
	VMULPS(b.konst["scale"], sum, sum)
	VADDPS(sum, own, own)
	VADDPS(b.rectified(own), d, d)
	b.store(d, "dst")
}}

// adam is one step of Kingma and Ba's Algorithm 1, with the bias corrections in
// size and root.
var adam = kernel{
	slices:    []string{"param", "grad", "first", "second"},
	constants: []string{"size", "root", "decay", "b1", "c1", "b2", "c2", "eps"},
	do: func(b *block) {
		param, g, m, v := b.load("param"), b.load("grad"), b.load("first"), b.load("second")
		t := b.level.register()
		VMULPS(b.konst["decay"], param, t)
		VADDPS(t, g, g)
		VMULPS(b.konst["b1"], m, m)
		VMULPS(b.konst["c1"], g, t)
		VADDPS(t, m, m)
		VMULPS(g, g, g)
		VMULPS(b.konst["b2"], v, v)
		VMULPS(b.konst["c2"], g, g)
		VADDPS(g, v, v)
		b.store(m, "first")
		b.store(v, "second")
		VSQRTPS(v, v)
		VMULPS(b.konst["root"], v, v)
		VADDPS(b.konst["eps"], v, v)
		VMULPS(b.konst["size"], m, m)
		VDIVPS(v, m, m)
		VSUBPS(m, param, param)
		b.store(param, "param")
	},
}

// gate scales where x is positive and stores +0 elsewhere.
var gate = kernel{slices: []string{"dst", "x"}, constant: "a", do: func(b *block) {
	x, d, zero := b.load("x"), b.load("dst"), b.level.clear()
	const greater = 0x1e // ordered, quiet
	if b.level.singles == 16 {
		k := K()
		VCMPPS(U8(greater), zero, x, k)
		VMULPS_Z(b.konst["a"], d, k, d)
	} else {
		mask := YMM()
		VCMPPS(U8(greater), zero, x, mask)
		VMULPS(b.konst["a"], d, d)
		VANDPS(mask, d, d)
	}
	b.store(d, "dst")
}}

// dropout scales where the draw is below, and stores +0 elsewhere. It reads a
// whole register's worth of draws for the tail too, see kernel.Draws.
func dropout(l isa, masks Mem) {
	text("dropout"+l.name, "(dst *float32, n int, x *float32, draws *uint16, below uint32, scale float32)")
	b := &block{level: l, at: map[string]Register{}}
	n := argument("n")
	b.at["dst"], b.at["x"] = argument("dst"), argument("x")
	draws := argument("draws")
	below, scale := l.register(), l.register()
	belowX := XMM()
	MOVD(Load(Param("below"), GP32()), belowX)
	VPBROADCASTD(belowX, below)
	VBROADCASTSS(Load(Param("scale"), XMM()), scale)
	do := func() {
		x, d := b.load("x"), l.register()
		VPMOVZXWD(Mem{Base: draws}, d)
		if l.singles == 16 {
			k := K()
			VPCMPGTD(d, below, k)
			VMULPS_Z(scale, x, k, x)
		} else {
			VPCMPGTD(d, below, d)
			VMULPS(scale, x, x)
			VANDPS(d, x, x)
		}
		b.store(x, "dst")
	}
	Label("loop")
	CMPQ(n, U32(l.singles))
	JL(LabelRef("tail"))
	do()
	for _, s := range []string{"dst", "x"} {
		ADDQ(U32(4*l.singles), b.at[s])
	}
	ADDQ(U32(2*l.singles), draws)
	SUBQ(U32(l.singles), n)
	JMP(LabelRef("loop"))
	Label("tail")
	CMPQ(n, U32(0))
	JE(LabelRef("done"))
	b.tail = newTail(l, masks, n)
	do()
	Label("done")
	end()
}

// widen converts whole registers' worth of bfloat16 to float32.
func widen(l isa) {
	text("widen"+l.name, "(dst *float32, n int, src *uint16)")
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
	text("narrow"+l.name, "(dst *uint16, n int, src *float32)")
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
