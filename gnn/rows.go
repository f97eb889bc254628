package gnn

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// rowTable holds the rows of a graph's nodes: the self term, then the
// aggregate. Either whole is set and a row is one slice of float32, or half is
// and self terms are rounded to bfloat16.
//
// Aggregates are float32 in both cases: bfloat16 has 8 significant bits, so a sum
// would stop growing at about 256 neighbours, where a term is below half a unit in
// its last place.
type rowTable struct {
	selfLen, aggregateLen int

	whole *kernel.Table[float32] // selfLen+aggregateLen wide

	// Instead of whole:
	half *kernel.Table[uint16]  // self terms
	sums *kernel.Table[float32] // aggregates; nil if aggregateLen is 0

	frozen frozenRows // for Graph.State
}

func newRowTable(selfLen, aggregateLen int) *rowTable {
	return &rowTable{selfLen: selfLen, aggregateLen: aggregateLen, whole: kernel.NewTable[float32](selfLen + aggregateLen)}
}

// aggregates reports whether rows have an aggregate; those of [GCN] have none.
func (t *rowTable) aggregates() bool { return t.aggregateLen > 0 }

// useBFloat16 makes the table, which must be empty, keep self terms as bfloat16.
func (t *rowTable) useBFloat16() {
	t.whole, t.half = nil, kernel.NewTable[uint16](t.selfLen)
	if t.aggregateLen > 0 {
		t.sums = kernel.NewTable[float32](t.aggregateLen)
	}
}

func (t *rowTable) grow(n int)    { t.eachTable(func(table growing) { table.Grow(n) }) }
func (t *rowTable) reserve(n int) { t.eachTable(func(table growing) { table.Reserve(n) }) }
func (t *rowTable) shrink(n int)  { t.eachTable(func(table growing) { table.Shrink(n) }) }

// growing is a [kernel.Table] of any element type.
type growing interface {
	Grow(rows int)
	Reserve(rows int)
	Shrink(rows int)
}

// eachTable calls do with every table that is set.
func (t *rowTable) eachTable(do func(growing)) {
	if t.whole != nil {
		do(t.whole)
	}
	if t.sums != nil {
		do(t.sums)
	}
	if t.half != nil {
		do(t.half)
	}
}

// row returns v's row. If the table is whole that is the table's own storage.
// Otherwise it is a copy in *buf, which grows to hold it, and changes must be
// written back with putSelf and putAggregate.
func (t *rowTable) row(v int32, buf *[]float32) []float32 {
	if t.whole != nil {
		return t.whole.Row(v)
	}
	row := kernel.Resize(*buf, t.selfLen+t.aggregateLen)
	*buf = row
	kernel.Widen(row[:t.selfLen], t.half.Row(v))
	if t.sums != nil {
		copy(row[t.selfLen:], t.sums.Row(v))
	}
	return row
}

// each calls do with the rows of nodes, which are far apart in memory, some of them prefetched at a time. buf is that of row.
func (t *rowTable) each(nodes []int32, buf *[]float32, do func(row []float32)) {
	for some := range slices.Chunk(nodes, prefetchedRows) {
		if t.whole != nil {
			kernel.Prefetch(t.whole, some, 0, t.aggregateLen)
		}
		for _, v := range some {
			do(t.row(v, buf))
		}
	}
}

// putAggregate stores the aggregate of a row that row returned. In a whole table
// the row is the storage itself, and there is nothing to do.
func (t *rowTable) putAggregate(v int32, row []float32) {
	if t.sums != nil {
		copy(t.sums.Row(v), row[t.selfLen:])
	}
}

// putSelf stores v's self term.
func (t *rowTable) putSelf(v int32, self []float32) {
	if t.whole != nil {
		copy(t.whole.Row(v), self)
	} else {
		kernel.Narrow(t.half.Row(v), self)
	}
}

// round rounds a self term to the precision in which it is stored.
func (t *rowTable) round(self []float32, buf *[]uint16) {
	if t.half != nil {
		*buf = kernel.Resize(*buf, len(self))
		kernel.Narrow(*buf, self)
		kernel.Widen(self, *buf)
	}
}

// fill sets the rows of nodes without edges, numbered from v on.
func (t *rowTable) fill(e Encoder, p projection, w *workspace, v int32, x []Vector) {
	length := t.selfLen + t.aggregateLen
	for len(x) > 0 {
		n := min(len(x), blockRows)
		var rows []float32
		if t.whole != nil {
			rows = t.whole.From(v)
			n = min(len(rows)/length, n)
		} else {
			rows = kernel.Resize(w.rows, n*length)
			w.rows = rows
			clear(rows)
		}
		w.dense = p.rows(rows, length, x[:n], w.dense)
		for i := range n {
			row := rows[i*length:][:length]
			e.finishSelf(row[:t.selfLen])
			t.round(row[:t.selfLen], &w.half)
			if t.aggregates() {
				e.resetAggregate(row)
			}
			if t.whole == nil {
				t.putSelf(v+int32(i), row[:t.selfLen])
				t.putAggregate(v+int32(i), row)
			}
		}
		x, v = x[n:], v+int32(n)
	}
}
