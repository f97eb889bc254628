package wire

import (
	"strings"
	"unsafe"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Memory is where a decoder puts the lists and texts of the events that it
// decodes, so that a stream of them takes no memory of its own. The zero value
// is ready for use.
type Memory struct {
	numbers slab[float32]
	indices slab[uint32]
	ids     slab[event.ID]
	texts   strings.Builder
	written int // bytes of texts since the last Reset
}

// Reset takes the memory back: the lists of events decoded before are no longer
// valid. Their strings are.
func (m *Memory) Reset() {
	m.numbers.reset()
	m.indices.reset()
	m.ids.reset()
	m.written = 0
}

// Bytes is how much the events take that were decoded since the last Reset,
// beside their records.
func (m *Memory) Bytes() int {
	return m.numbers.bytes() + m.indices.bytes() + m.ids.bytes() + m.written
}

// slab is a block from which lists are cut. A block that is too short is left
// to the lists cut from it.
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

// cut returns a list of n items whose content is arbitrary.
func (s *slab[T]) cut(n int) []T {
	if n == 0 {
		return []T{} // not nil, which would mean that there is no list
	}
	if len(s.block)-s.used < n {
		s.block, s.used = make([]T, max(n, 2*len(s.block), 256)), 0
	}
	s.used += n
	s.total += n
	return s.block[s.used-n : s.used : s.used]
}

// textBlock is how much text is taken from the allocator at once. Whoever keeps
// one of the strings keeps its block, so blocks are short.
const textBlock = 4 << 10

func (m *Memory) text(b []byte) string {
	if m.texts.Cap()-m.texts.Len() < len(b) {
		m.texts = strings.Builder{}
		m.texts.Grow(max(len(b), textBlock))
	}
	at := m.texts.Len()
	m.texts.Write(b)
	m.written += len(b)
	return m.texts.String()[at:]
}

// The input's lists come from its memory, or from the allocator without one.

func (in *input) newNumbers(n int) []float32 {
	if in.memory == nil {
		return make([]float32, n)
	}
	return in.memory.numbers.cut(n)
}

func (in *input) newIndices(n int) []uint32 {
	if in.memory == nil {
		return make([]uint32, n)
	}
	return in.memory.indices.cut(n)
}

func (in *input) newIDs(n int) []event.ID {
	if in.memory == nil {
		return make([]event.ID, n)
	}
	return in.memory.ids.cut(n)
}

func (in *input) newText(b []byte) string {
	if in.memory == nil {
		return string(b)
	}
	return in.memory.text(b)
}
