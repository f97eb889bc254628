package pipeline

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// slotTable has a row beside each slot of a queue. A row stays when its entry is
// taken, until the slot is used again.
type slotTable[T safetensors.Element] struct {
	table  *kernel.Table[T]
	frozen snapshot.Freeze[T]
}

func newSlotTable[T safetensors.Element](width int) slotTable[T] {
	return slotTable[T]{table: kernel.NewTable[T](width)}
}

// row returns a slot's row, to be read only.
func (t *slotTable[T]) row(slot int32) []T { return t.table.Row(slot) }

// set sets a slot's row. The slot is one that the table has, or at any distance
// after these.
func (t *slotTable[T]) set(slot int32, row []T) {
	if more := int(slot) + 1 - t.table.Len(); more > 0 {
		t.table.Grow(more)
	} else {
		t.frozen.Keep(slot, t.table.Row(slot))
	}
	copy(t.table.Row(slot), row)
}

// declareRows declares the rows beside a queue's entries, the oldest first, each of
// the given shape. Unless it is nil, valid is asked about every element that is
// restored. The queue's keys are declared.
func declareRows[T safetensors.Element, K comparable, V any](s *snapshot.Schema, name string, t *slotTable[T], q *queue[K, V], valid func(T) bool, shape ...int) {
	s.Freeze(&t.frozen, t.table.Len())
	next, now := q.walk(), t.table.Row
	snapshot.GatherRows(s, name, t.table, func() []T {
		slot, _ := next()
		return t.frozen.At(slot, now)
	}, func(elements []T) error {
		for _, x := range elements {
			if valid != nil && !valid(x) {
				return snapshot.Damaged("%s: one element is %v", name, x)
			}
		}
		return nil
	}, q.len(), shape...)
}
