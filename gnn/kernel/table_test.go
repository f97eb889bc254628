package kernel

import (
	"fmt"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// TestShrink: rows that are removed and added again are zeros, also across the end of a
// block, and other rows do not change. Removing more rows than there are panics.
func TestShrink(t *testing.T) {
	const width = 1 << 20 // a block has a few rows
	table := NewTable[float32](width)
	for range 3 {
		for table.Len() < 9 {
			table.Grow(1)
			v := int32(table.Len() - 1)
			row := table.Row(v)
			if row[0] != 0 || row[width-1] != 0 {
				t.Fatalf("new row %d has %v and %v, want zeros", v, row[0], row[width-1])
			}
			row[0], row[width-1] = float32(v)+1, float32(v)+1
		}
		table.Shrink(7)
	}
	table.Shrink(0)
	if table.Len() != 2 || *table.At(0) != 1 || *table.At(1) != 2 {
		t.Errorf("%d rows are left, with %v and %v, want 2 with 1 and 2", table.Len(), *table.At(0), *table.At(1))
	}
	for _, rows := range []int{-1, 3} {
		kerneltest.WantPanic(t, fmt.Sprintf("Shrink(%d) of 2 rows", rows), func() { table.Shrink(rows) })
	}
}

// TestReserve: the first rows are in the reserved memory, which is zero, and further rows
// follow when it is used up.
func TestReserve(t *testing.T) {
	const width = 1 << 18 // a block has four rows
	table := NewTable[float32](width)
	table.Reserve(5)
	var own []*float32
	for _, block := range table.reserved {
		own = append(own, &block[0])
	}
	for v := range int32(13) {
		table.Grow(1)
		row := table.Row(v)
		if row[0] != 0 || row[width-1] != 0 {
			t.Fatalf("new row %d has %v and %v, want zeros", v, row[0], row[width-1])
		}
		row[0], row[width-1] = float32(v)+1, float32(v)+1
	}
	for i, p := range own {
		if table.At(int32(4*i)) != p {
			t.Errorf("row %d is not in the reserved memory", 4*i)
		}
	}
	for v := range int32(13) {
		if *table.At(v) != float32(v)+1 {
			t.Errorf("row %d begins with %v, want %v", v, *table.At(v), v+1)
		}
	}
	if len(own) != 2 || len(table.reserved) != 0 {
		t.Errorf("%d blocks were reserved and %d are left, want 2 and 0", len(own), len(table.reserved))
	}
}
