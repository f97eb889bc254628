package dataset

import "fmt"

// Limits of what is read: a file comes from outside like everything else. Those
// of numbers and edges hold for generated graphs too.
const (
	maxNodes   = 100_000_000
	maxEdges   = 2_000_000_000
	maxDim     = 1 << 20
	maxClasses = 1<<16 + 1
	maxLine    = 16 << 20 // bytes
	maxNumbers = 1 << 31  // kept of all features together: 8 GiB of float32
)

// What files may unpack to: enough for bags of words, of which hardly more than
// the numbers that are not zero are kept, and for small files whatever they are.
const (
	maxRatio  = 64
	freeBytes = 16 << 20
)

// nodeBytes is what a node takes beside its numbers: its vector's slices, label
// and year, and room to grow.
const nodeBytes = 128

// edgeBytes is what an edge takes, with room to grow.
const edgeBytes = 16

// budget is the memory that a data set may take, by the size of its files. A
// packed byte can stand for a thousand, and a line of two bytes for a node: so
// limits of counts alone would let a small file take all memory.
type budget struct{ limit, left int64 }

func newBudget(size int64) *budget {
	limit := maxRatio*size + freeBytes
	return &budget{limit: limit, left: limit}
}

// take must come before the memory is taken.
func (b *budget) take(bytes int) error {
	if b.left -= int64(bytes); b.left < 0 {
		return fmt.Errorf("unpacks to more than %d MiB, %d times the size of its files and %d MiB: if that is right, give it unpacked (gunzip; numpy.savez in place of savez_compressed)",
			b.limit>>20, maxRatio, freeBytes>>20)
	}
	return nil
}
