package gnn

import "github.com/gvbll/gvbll/gnn/kernel"

// rowTable keeps the rows of a graph's nodes, see incremental: whole, as
// float32, or with the own parts as bfloat16. The heard parts are float32
// either way. As bfloat16 a sum would stop growing where a term is less than
// half of its last place, which is from some 256 neighbours on.
type rowTable struct {
	selfLen, aggregateLen int // lengths of the parts
	whole                 *kernel.Table[float32]

	// Instead of whole:
	half *kernel.Table[uint16]  // own parts
	sums *kernel.Table[float32] // heard parts; nil if they are empty
}

// halve has the table, which is empty, keep own parts as bfloat16.
func (t *rowTable) useBFloat16() {
	t.whole, t.half = nil, kernel.NewTable[uint16](t.selfLen)
	if t.aggregateLen > 0 {
		t.sums = kernel.NewTable[float32](t.aggregateLen)
	}
}

func (t *rowTable) grow(n int)    { t.each(func(table growing) { table.Grow(n) }) }
func (t *rowTable) reserve(n int) { t.each(func(table growing) { table.Reserve(n) }) }
func (t *rowTable) shrink(n int)  { t.each(func(table growing) { table.Shrink(n) }) }

// growing is a table of any numbers.
type growing interface {
	Grow(rows int)
	Reserve(rows int)
	Shrink(rows int)
}

// each does something with every table there is.
func (t *rowTable) each(do func(growing)) {
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

// row returns v's row. It is the table's own if whole, or else made in room,
// which grows to hold it: what is changed there is to be put back.
func (t *rowTable) row(v int32, room *[]float32) []float32 {
	if t.whole != nil {
		return t.whole.Row(v)
	}
	row := kernel.Resize(*room, t.selfLen+t.aggregateLen)
	*room = row
	kernel.Widen(row[:t.selfLen], t.half.Row(v))
	if t.sums != nil {
		copy(row[t.selfLen:], t.sums.Row(v))
	}
	return row
}

// putAggregate keeps the heard part of a row that came from row.
func (t *rowTable) putAggregate(v int32, row []float32) {
	if t.sums != nil {
		copy(t.sums.Row(v), row[t.selfLen:])
	}
}

// putSelf keeps the own part of v's row.
func (t *rowTable) putSelf(v int32, self []float32) {
	if t.whole != nil {
		copy(t.whole.Row(v), self)
	} else {
		kernel.Narrow(t.half.Row(v), self)
	}
}

// round sets an own part to what will be kept of it.
func (t *rowTable) round(self []float32, room *[]uint16) {
	if t.half != nil {
		*room = kernel.Resize(*room, len(self))
		kernel.Narrow(*room, self)
		kernel.Widen(self, *room)
	}
}
