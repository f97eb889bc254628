package pipeline

import "testing"

// TestChunked: elements are where they were added, across chunk boundaries, and do not
// move once their chunk is full.
func TestChunked(t *testing.T) {
	var c chunked[int]
	var places []*int
	for i := range 3*chunkLen + 5 {
		c.add(i)
		if c.len() == chunkLen {
			for j := range int32(chunkLen) {
				places = append(places, c.at(j))
			}
		}
	}
	for i := range int32(c.len()) {
		if *c.at(i) != int(i) {
			t.Fatalf("element %d is %d, want %d", i, *c.at(i), i)
		}
	}
	for i, p := range places {
		if p != c.at(int32(i)) {
			t.Fatalf("element %d moved", i)
		}
	}
}
