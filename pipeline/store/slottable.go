package store

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// SlotTable has a row of numbers for each slot of a queue, or of another set of numbers
// that are used again. A row stays until its slot is reused.
type SlotTable[T safetensors.Element] struct {
	table  *kernel.Table[T]
	frozen snapshot.Freeze[T]
}

// NewSlotTable returns an empty table of rows of width numbers.
func NewSlotTable[T safetensors.Element](width int) SlotTable[T] {
	return SlotTable[T]{table: kernel.NewTable[T](width)}
}

// Len returns the number of rows, and width that of the numbers in one.
func (t *SlotTable[T]) Len() int   { return t.table.Len() }
func (t *SlotTable[T]) Width() int { return t.table.Width() }

// Reserve makes room for this many rows of an empty table.
func (t *SlotTable[T]) Reserve(rows int) { t.table.Reserve(rows) }

// Row returns a slot's row, for reading.
func (t *SlotTable[T]) Row(slot int32) []T { return t.table.Row(slot) }

// Set copies row to a slot's row, and grows the table if the slot is beyond it.
func (t *SlotTable[T]) Set(slot int32, row []T) {
	if more := int(slot) + 1 - t.table.Len(); more > 0 {
		t.table.Grow(more)
	} else {
		t.frozen.Keep(slot, t.table.Row(slot))
	}
	copy(t.table.Row(slot), row)
}

// DeclareRows declares n rows, each of the given shape, in the order of their slots that
// next returns. They are restored to slots 0 to n-1. If valid is not nil, it must hold for
// every restored element.
func DeclareRows[T safetensors.Element](s *snapshot.Schema, name string, t *SlotTable[T], next func() (slot int32), n int,
	valid func(T) bool, shape ...int,
) {
	s.Freeze(&t.frozen, t.table.Len())
	now := t.table.Row
	snapshot.GatherRows(s, name, t.table, func() []T {
		return t.frozen.At(next(), now)
	}, func(elements []T) error {
		for _, x := range elements {
			if valid != nil && !valid(x) {
				return snapshot.Damaged("%s: one element is %v", name, x)
			}
		}
		return nil
	}, n, shape...)
}
