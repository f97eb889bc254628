package wire

import (
	"strings"
	"unsafe"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Memory holds the lists and texts of decoded events and is reused, so that
// decoding a stream allocates nothing. The zero value is ready for use.
type Memory struct {
	numbers slab[float32]
	indices slab[uint32]
	ids     slab[event.ID]
	edges   slab[event.Edge]
	named   slab[event.Attribute]
	texts   strings.Builder
	written int // bytes of texts since the last Reset
}

// Reset makes the memory available again: the lists of events decoded before are
// no longer valid. Their strings stay valid.
func (m *Memory) Reset() {
	m.numbers.reset()
	m.indices.reset()
	m.ids.reset()
	m.edges.reset()
	m.named.reset()
	m.written = 0
}

// Bytes returns the size of the lists and texts decoded since the last Reset.
func (m *Memory) Bytes() int {
	return m.numbers.bytes() + m.indices.bytes() + m.ids.bytes() + m.edges.bytes() + m.named.bytes() + m.written
}

// slab is a block from which lists are cut. When it is used up a new one is
// begun, and the lists cut before keep the old one alive.
type slab[T any] struct {
	block []T
	used  int
	total int // cut since the last reset
}

func (s *slab[T]) reset() { s.used, s.total = 0, 0 }

func (s *slab[T]) bytes() int {
	var item T
	return s.total * int(unsafe.Sizeof(item))
}

// cut returns a list of n items with arbitrary contents.
func (s *slab[T]) cut(n int) []T {
	if n == 0 {
		return []T{} // not nil, which would mean a missing list
	}
	if len(s.block)-s.used < n {
		s.block, s.used = make([]T, max(n, 2*len(s.block))), 0
	}
	s.used += n
	s.total += n
	return s.block[s.used-n : s.used : s.used]
}

// textBlock is the size that blocks of texts grow to. A string that is kept keeps its
// whole block alive, so blocks are short.
const textBlock = 4 << 10

func (m *Memory) text(b []byte) string {
	if m.texts.Cap()-m.texts.Len() < len(b) {
		more := max(len(b), min(2*m.texts.Cap(), textBlock))
		m.texts = strings.Builder{}
		m.texts.Grow(more)
	}
	at := m.texts.Len()
	m.texts.Write(b)
	m.written += len(b)
	return m.texts.String()[at:]
}
