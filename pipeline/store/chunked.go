package store

// Chunked is a list that grows without moving its elements. Appending to a slice of all
// nodes would now and then copy all of it, which takes longer than most windows.
type Chunked[T any] struct {
	chunks [][]T
	n      int
}

const (
	chunkShift = 12
	chunkLen   = 1 << chunkShift
	firstChunk = 64 // initial capacity of the first chunk, which does grow by copying
)

func (c *Chunked[T]) Len() int { return c.n }

// At returns the i-th element, to read or to change in place until the next add.
func (c *Chunked[T]) At(i int32) *T { return &c.chunks[i>>chunkShift][i&(chunkLen-1)] }

// slice returns the i-th element as a slice of one, until the next add.
func (c *Chunked[T]) slice(i int32) []T {
	return c.chunks[i>>chunkShift][i&(chunkLen-1):][:1:1]
}

// Add appends x.
func (c *Chunked[T]) Add(x T) {
	switch {
	case c.n < chunkLen:
		if c.n == 0 {
			c.chunks = [][]T{make([]T, 0, firstChunk)}
		}
		c.chunks[0] = append(c.chunks[0], x)
	case c.n&(chunkLen-1) == 0:
		c.chunks = append(c.chunks, make([]T, 0, chunkLen))
		fallthrough
	default:
		last := &c.chunks[len(c.chunks)-1]
		*last = append(*last, x)
	}
	c.n++
}
