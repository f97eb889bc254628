package dataset

import "fmt"

// Limits of input, far above any data set that fits in memory. They keep sums and
// products of counts within an int, and errors within a line. The limits on features
// and edges hold for generated graphs too.
const (
	maxNodes   = 100_000_000
	maxEdges   = 2_000_000_000
	maxDim     = 1 << 20
	maxClasses = 1<<16 + 1 // labels 0 to 65536
	maxLine    = 16 << 20  // bytes: maxDim features of 16 bytes
	maxNumbers = 1 << 31   // features of all nodes together: 8 GiB of float32
)

// A data set may take maxRatio·size + freeBytes bytes of memory, with size the size
// of its files. The ratio is enough for bags of words, which are kept sparse; the
// constant is enough for small files of any content.
const (
	maxRatio  = 64
	freeBytes = 16 << 20
)

// nodeBytes is the memory of a node besides its features: the vector's slice
// headers, label and time, and room to grow.
const nodeBytes = 128

// edgeBytes is the memory of an edge, with room to grow.
const edgeBytes = 16

// budget is the memory that a data set may still take. A gzipped byte can stand for
// a thousand, and a line of two bytes for a node: with limits on counts alone, a
// small file could take all memory.
type budget struct{ limit, left int64 }

func newBudget(size int64) *budget {
	limit := maxRatio*size + freeBytes
	return &budget{limit: limit, left: limit}
}

// grow adds what a further file of a data set may take.
func (b *budget) grow(size int64) { b.limit, b.left = b.limit+maxRatio*size, b.left+maxRatio*size }

// claim takes bytes from the budget, or returns an error. Call it before
// allocating.
func (b *budget) claim(bytes int) error {
	if b.left -= int64(bytes); b.left < 0 {
		return fmt.Errorf("unpacks to more than %d MiB, %d times the size of its files and %d MiB: if that is right, "+
			"give it unpacked (gunzip; numpy.savez in place of savez_compressed)",
			b.limit>>20, maxRatio, freeBytes>>20)
	}
	return nil
}
