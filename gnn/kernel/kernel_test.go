package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// levels returns the kernel levels of this machine, the plain one first.
func levels() (list []level.Level) {
	for l := level.Plain; l <= level.Best(); l++ {
		list = append(list, l)
	}
	return list
}

// at runs f at a level.
func at(l level.Level, f func()) {
	defer func(old level.Level) { level.Active = old }(level.Active)
	level.Active = l
	f()
}

// numbers draws n numbers, in a slice that is not aligned. If nasty, a quarter of them are
// zeros, infinite, NaN, subnormal or huge.
func numbers(rng *rand.Rand, n int, nasty bool) []float32 {
	s := make([]float32, n+3)[3:]
	for i := range s {
		s[i] = float32(rng.NormFloat64())
		if nasty && rng.IntN(4) == 0 {
			s[i] = []float32{
				0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
				math.SmallestNonzeroFloat32, -1e-40, math.MaxFloat32, -math.MaxFloat32,
			}[rng.IntN(9)]
		}
	}
	return s
}

// same returns an error unless a and b have the same bits. Any NaN equals any other.
func same(a, b []float32) error {
	for i := range a {
		x, y := a[i], b[i]
		if math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
			return fmt.Errorf("entry %d of %d is %v (%#x), want %v (%#x)", i, len(a), x, math.Float32bits(x), y, math.Float32bits(y))
		}
	}
	return nil
}

// TestLevelsAgree: every kernel has the same bits at every level and width, and writes
// nothing beyond its destination.
func TestLevelsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for width := range 300 {
		for _, nasty := range []bool{false, true} {
			n, in := rng.IntN(10), rng.IntN(40)
			stride := width + rng.IntN(5)
			rows := numbers(rng, 30*stride+width, nasty)
			index := make([]int32, rng.IntN(25))
			for i := range index {
				index[i] = rng.Int32N(30)
			}
			value := numbers(rng, len(index), nasty)
			x, y, z, w := numbers(rng, width, nasty), numbers(rng, width, nasty), numbers(rng, width, nasty), numbers(rng, in*width, nasty)
			many, row := numbers(rng, n*in, nasty), numbers(rng, in, nasty)
			a := numbers(rng, 1, nasty)[0]
			apart := width + rng.IntN(3)
			tableWidth := 3*width + 1
			table := numbers(rng, 30*tableWidth, nasty)
			step := AdamStep{Size: .01, Root: 1.5, Decay: 5e-4, Beta1: .9, Beta2: .999, Epsilon: 1e-8}
			draws := make([]uint16, Draws(width))
			for i := range draws {
				draws[i] = uint16(rng.Uint32())
			}
			square := numbers(rng, width, false)
			for i := range square {
				square[i] *= square[i]
			}
			for name, f := range map[string]func(dst []float32){
				"Gather":           func(d []float32) { Gather(d[:width], index, value, rows, stride) },
				"GatherSum":        func(d []float32) { GatherSum(d[:width], index, rows, stride) },
				"Product":          func(d []float32) { Product(d[:width], row, w) },
				"ProductRows":      func(d []float32) { ProductRows(d[:n*width], many, w, n, in, width) },
				"ProductRowsApart": func(d []float32) { ProductRowsApart(d, apart, many, w, n, in, width) },
				"GatherRectified": func(d []float32) {
					GatherRectified(d[:width], tableOf(table, tableWidth), index, numbers(rand.New(rand.NewPCG(1, 1)), len(index), nasty), 1, 2*width+1)
				},
				"Axpy":         func(d []float32) { Axpy(d[:width], a, x) },
				"Add":          func(d []float32) { Add(d[:width], x) },
				"Scale":        func(d []float32) { Scale(d[:width], a) },
				"Combine":      func(d []float32) { Combine(d[:width], x, y, a) },
				"Rectify":      func(d []float32) { Rectify(d[:width], x) },
				"AddRectified": func(d []float32) { AddRectified(d[:width], x, y, a) },
				"Gate":         func(d []float32) { Gate(d[:width], x, a) },
				"Dropout":      func(d []float32) { Dropout(d[:width], x, draws, 1<<15, a) },
				"Adam": func(d []float32) {
					first, second := d[width:2*width], d[2*width:3*width]
					copy(second, square)
					Adam(d[:width], z, first, second, step)
				},
			} {
				before := numbers(rng, (n+3)*width+20, nasty)
				var want []float32
				for _, l := range levels() {
					got := append(make([]float32, 0, len(before)), before...)
					at(l, func() { f(got) })
					if want == nil {
						want = got
					}
					if err := same(got, want); err != nil {
						t.Fatalf("%s of width %d (%d terms, %d×%d) with %s: %v", name, width, len(index), n, in, l, err)
					}
				}
			}
		}
	}
}

// tableOf returns a table, of blocks of 8 rows, with a copy of the given rows.
func tableOf(x []float32, width int) *Table[float32] {
	t := &Table[float32]{width: width, shift: 3}
	for ; len(x) > 0; x = x[width:] {
		t.Grow(1)
		copy(t.Row(int32(t.Len()-1)), x[:width])
	}
	return t
}

// TestExchange: at every level, Exchange gives the result of plain additions and changes no
// other number.
func TestExchange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for width := range 150 {
		for _, nasty := range []bool{false, true} {
			tableWidth := max(2*width+rng.IntN(3), 1)
			x := numbers(rng, 30*tableWidth, nasty)
			order := rng.Perm(30)[:1+rng.IntN(20)]
			index := make([]int32, len(order))
			for i, u := range order {
				index[i] = int32(u)
			}
			v, index := index[0], index[1:]
			from, to := tableWidth-width, 0
			want := tableOf(x, tableWidth)
			for _, u := range index {
				for j := range width {
					want.Row(v)[to+j] += want.Row(u)[from+j]
					want.Row(u)[to+j] += want.Row(v)[from+j]
				}
			}
			for _, l := range levels() {
				got := tableOf(x, tableWidth)
				at(l, func() { Exchange(got, v, index, from, to, width) })
				for i := range int32(30) {
					if err := same(got.Row(i), want.Row(i)); err != nil {
						t.Fatalf("%s, width %d, row %d: %v", l, width, i, err)
					}
				}
			}
		}
	}
}

// TestTable grows tables by one row and by many: existing rows do not change, new rows are
// zero, and From ends at the end of a block.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table := &Table[int32]{width: 3, shift: 7}
	for table.Len() < 2000 {
		n := table.Len()
		table.Grow(rng.IntN(2) * rng.IntN(300))
		table.Grow(1)
		for i := n; i < table.Len(); i++ {
			for j, v := range table.Row(int32(i)) {
				if v != 0 {
					t.Fatalf("new row %d has %v, want zeros", i, table.Row(int32(i)))
				}
				table.Row(int32(i))[j] = int32(3*i + j)
			}
		}
	}
	for i := 0; i < table.Len(); {
		run := table.From(int32(i))
		if len(run) == 0 || len(run)%3 != 0 || *table.At(int32(i)) != run[0] {
			t.Fatalf("From(%d) has %d elements, want whole rows from that row on", i, len(run))
		}
		for j, v := range run {
			if v != int32(3*i+j) {
				t.Fatalf("element %d of From(%d) is %d, want %d", j, i, v, 3*i+j)
			}
		}
		i += len(run) / 3
	}
	if wide := NewTable[float32](1 << 30); wide.Len() != 0 {
		t.Error("a new table has rows")
	}
}

// TestRectify: the result is never -0, and NaN stays NaN.
func TestRectify(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, l := range levels() {
		x := []float32{float32(math.Copysign(0, -1)), -1, 2, nan, inf, -inf, 0}
		at(l, func() { Rectify(x, x) })
		if err := same(x, []float32{0, 0, 2, nan, inf, 0, 0}); err != nil {
			t.Errorf("%s: %v", l, err)
		}
	}
}

// TestBounds: indices and shapes that do not fit panic, before a kernel accesses memory
// outside its slices.
func TestBounds(t *testing.T) {
	row, table := make([]float32, 4), make([]float32, 12)
	for name, f := range map[string]func(){
		"index past the end":       func() { GatherSum(row, []int32{0, 3}, table, 4) },
		"negative index":           func() { GatherSum(row, []int32{-1}, table, 4) },
		"negative index, stride 0": func() { GatherSum(row, []int32{-1}, table, 0) },
		"last row too short":       func() { Gather(row, []int32{2}, []float32{1}, table[:11], 4) },
		"no rows":                  func() { Gather(row, []int32{0}, []float32{1}, nil, 4) },
		"negative stride":          func() { Gather(row, []int32{1}, []float32{1}, table, -4) },
		"too few values":           func() { Gather(row, []int32{0, 1}, []float32{1}, table, 4) },
		"row after the table's":    func() { GatherRectified(row, tableOf(table, 4), []int32{3}, []float32{1}, 0, 0) },
		"scales too few":           func() { GatherRectified(row, tableOf(table, 4), []int32{0, 1}, []float32{1}, 0, 0) },
		"columns after the rows'":  func() { GatherRectified(row, tableOf(table, 4), []int32{0}, []float32{1}, 0, 1) },
		"negative row":             func() { Exchange(tableOf(table, 4), 0, []int32{-1}, 0, 2, 2) },
		"exchange with no row":     func() { Exchange(tableOf(table, 4), 3, []int32{1}, 0, 2, 2) },
		"exchange too wide":        func() { Exchange(tableOf(table, 4), 0, []int32{1}, 0, 2, 3) },
		"rows overlap":             func() { ProductRowsApart(table, 3, table[:2], row, 2, 1, 4) },
		"matrix too small":         func() { Product(row, []float32{1, 2}, table[:7]) },
		"rows too few":             func() { ProductRows(row, table, table, 3, 4, 3) },
		"x too short":              func() { Add(row, table[:3:3]) },
	} {
		kerneltest.WantPanic(t, name, f)
	}
}

// FuzzGather: Gather has the same bits at every level for any shape.
func FuzzGather(f *testing.F) {
	f.Add(uint16(1), uint16(0), []byte{0})
	f.Add(uint16(33), uint16(40), []byte{1, 2, 3, 200})
	f.Fuzz(func(t *testing.T, width, stride uint16, raw []byte) {
		w, s := int(width%600), int(stride%700)
		rng := rand.New(rand.NewPCG(uint64(width), uint64(stride)))
		rows := numbers(rng, 256*s+w, true)
		index := make([]int32, len(raw))
		for i, b := range raw {
			index[i] = int32(b)
		}
		value := numbers(rng, len(raw), true)
		var want []float32
		for _, l := range levels() {
			got := make([]float32, w)
			at(l, func() { Gather(got, index, value, rows, s) })
			if want == nil {
				want = got
			}
			if err := same(got, want); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
		}
	})
}

// The benchmarks report billions of multiplications and additions a second for each
// level. Compare the levels: the absolute numbers depend on the machine.

func BenchmarkProductRows(b *testing.B) {
	for _, shape := range [][3]int{{16, 128, 128}, {128, 128, 128}, {128, 64, 32}, {128, 32, 7}, {32, 1433, 128}} {
		n, in, out := shape[0], shape[1], shape[2]
		rng := rand.New(rand.NewPCG(1, 1))
		x, w, dst := numbers(rng, n*in, false), numbers(rng, in*out, false), make([]float32, n*out)
		for _, l := range levels() {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", n, in, out, l), func(b *testing.B) {
				at(l, func() {
					for b.Loop() {
						ProductRows(dst, x, w, n, in, out)
					}
				})
				b.ReportMetric(2*float64(n*in*out)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
			})
		}
	}
}

// BenchmarkGather gathers a sparse row of Cora, 19 of 1433 features, and ten rows of 128
// numbers from a table of 100 MB.
func BenchmarkGather(b *testing.B) {
	for _, c := range []struct {
		name                string
		rows, width, gather int
	}{{"cora", 1433, 128, 19}, {"far", 200_000, 128, 10}, {"narrow", 1433, 32, 19}} {
		rng := rand.New(rand.NewPCG(1, 1))
		rows, value, dst := numbers(rng, c.rows*c.width, false), numbers(rng, c.gather, false), make([]float32, c.width)
		index := make([][]int32, 1024)
		for i := range index {
			for range c.gather {
				index[i] = append(index[i], rng.Int32N(int32(c.rows)))
			}
		}
		for _, l := range levels() {
			b.Run(c.name+"/"+l.String(), func(b *testing.B) {
				i := 0
				at(l, func() {
					for b.Loop() {
						Gather(dst, index[i%1024], value, rows, c.width)
						i++
					}
				})
				b.ReportMetric(2*float64(c.gather*c.width)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
			})
		}
	}
}
