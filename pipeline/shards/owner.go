package shards

import "github.com/gvbll/gvbll/pipeline/event"

// division says which slice of a graph this is, of how many. The structure of the graph is the
// same in all: ids, edges, labels, which predictions wait, and what is refused. Each keeps
// its columns of the encoder's rows. What one slice suffices for is divided: each arrival
// is predicted, and each refusal reported, by the slice that its hash selects. The whole
// graph is slice 0 of 1.
type division struct{ slice, of int }

// owner returns the slice that predicts a node: FNV-1a of the bytes of its id, a number's
// being 8 in little-endian order, modulo the number of slices.
func (s division) owner(id event.ID) int {
	h := fnv(offset64, id.Str)
	if id.Str == "" {
		h = fnvNumber(h, uint64(id.Num), 8)
	}
	return int(h % uint64(s.of))
}

// reports reports whether this slice reports the refusal of a record: by its topic,
// partition and offset.
func (s division) reports(o *event.Origin) bool {
	h := fnvNumber(fnv(offset64, o.Topic), uint64(uint32(o.Partition)), 4)
	return int(fnvNumber(h, uint64(o.Offset), 8)%uint64(s.of)) == s.slice
}

// FNV-1a of 64 bits. Package hash/fnv has it for byte slices, and allocates.
const (
	offset64 = 14695981039346656037
	prime64  = 1099511628211
)

func fnv(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime64
	}
	return h
}

// fnvNumber hashes the low bytes of x, the lowest first.
func fnvNumber(h, x uint64, bytes int) uint64 {
	for range bytes {
		h = (h ^ x&0xff) * prime64
		x >>= 8
	}
	return h
}
