package kernel

import "testing"

// TestShrink: rows that are removed and added again are zeros, also across the end of
// a block, and other rows do not change.
func TestShrink(t *testing.T) {
	const width = 1 << 20 // a few rows a block
	table := NewTable[float32](width)
	for range 3 {
		for table.Len() < 9 {
			table.Grow(1)
			v := int32(table.Len() - 1)
			row := table.Row(v)
			if row[0] != 0 || row[width-1] != 0 {
				t.Fatalf("row %d comes with %v and %v", v, row[0], row[width-1])
			}
			row[0], row[width-1] = float32(v)+1, float32(v)+1
		}
		table.Shrink(7)
	}
	table.Shrink(0)
	if table.Len() != 2 || *table.At(0) != 1 || *table.At(1) != 2 {
		t.Errorf("%d rows are left, with %v and %v", table.Len(), *table.At(0), *table.At(1))
	}
	for _, rows := range []int{-1, 3} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d of 2 rows are taken away", rows)
				}
			}()
			table.Shrink(rows)
		}()
	}
}

// TestReserve: the first rows are zeros in the reserved memory, and further rows
// follow when it is used up.
func TestReserve(t *testing.T) {
	const width = 1 << 18 // four rows a block
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
			t.Fatalf("row %d comes with %v and %v", v, row[0], row[width-1])
		}
		row[0], row[width-1] = float32(v)+1, float32(v)+1
	}
	for i, p := range own {
		if table.At(int32(4*i)) != p {
			t.Errorf("row %d is outside the reserved memory", 4*i)
		}
	}
	for v := range int32(13) {
		if *table.At(v) != float32(v)+1 {
			t.Errorf("row %d is %v", v, *table.At(v))
		}
	}
	if len(own) != 2 || len(table.reserved) != 0 {
		t.Errorf("%d blocks were reserved, %d are left", len(own), len(table.reserved))
	}
}
