package store

import "testing"

// TestChunked: elements are where they were added, across chunk boundaries, and do not
// move once their chunk is full.
func TestChunked(t *testing.T) {
	var c Chunked[int]
	var places []*int
	for i := range 3*chunkLen + 5 {
		c.Add(i)
		if c.Len() == chunkLen {
			for j := range int32(chunkLen) {
				places = append(places, c.At(j))
			}
		}
	}
	for i := range int32(c.Len()) {
		if *c.At(i) != int(i) {
			t.Fatalf("element %d is %d, want %d", i, *c.At(i), i)
		}
	}
	for i, p := range places {
		if p != c.At(int32(i)) {
			t.Fatalf("element %d moved", i)
		}
	}
}
