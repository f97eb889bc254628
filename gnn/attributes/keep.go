package attributes

import (
	"encoding/binary"
	"math"
)

// latest bounds times in milliseconds, so that sums of two fit an int64.
const latest = 1 << 60

// Keep appends what [Encoder.Resume] needs of the current row, which has ended: some ten
// bytes for each value that was given.
func (e *Encoder) Keep(dst []byte) []byte {
	for i, g := range e.given {
		if g == nothing {
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(i)<<1|uint64(g-value))
		if e.schema.Attributes[i].Kind == Time { // its age is another one at every event
			dst = binary.AppendVarint(dst, e.when[i])
			continue
		}
		x, n := e.row[e.from[i]:e.from[i+1]], 0
		for _, v := range x {
			if math.Float32bits(v) != 0 { // a negative zero is one, too
				n++
			}
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for j, v := range x {
			if math.Float32bits(v) != 0 {
				dst = binary.LittleEndian.AppendUint32(binary.AppendUvarint(dst, uint64(j)), math.Float32bits(v))
			}
		}
	}
	return dst
}

// Resume begins a row as Begin does, with the values of one that was kept, so that those given
// next replace theirs: the result has the bits of a row with all of them. It reports whether
// kept is what Keep wrote for this schema.
func (e *Encoder) Resume(at int64, kept []byte) (ok bool) {
	e.Begin(at)
	ok = true
	uvarint := func() uint64 {
		v, n := binary.Uvarint(kept)
		kept, ok = kept[max(n, 0):], ok && n > 0
		return v
	}
	for ok && len(kept) > 0 {
		v := uvarint()
		i := int(min(v>>1, uint64(len(e.given))))
		if i == len(e.given) || e.given[i] != nothing {
			return false
		}
		e.given[i] = value + given(v&1)
		a, x := &e.schema.Attributes[i], e.row[e.from[i]:e.from[i+1]]
		if a.Kind == Time {
			when, n := binary.Varint(kept)
			if n <= 0 || when <= -latest || when >= latest {
				return false
			}
			kept = kept[n:]
			e.moment(i, x, when)
			continue
		}
		for range min(uvarint(), uint64(len(x)+1)) {
			j := uvarint()
			if j >= uint64(len(x)) || len(kept) < 4 {
				return false
			}
			x[j] = math.Float32frombits(binary.LittleEndian.Uint32(kept))
			kept, ok = kept[4:], ok && math.Abs(float64(x[j])) <= math.MaxFloat32
		}
	}
	return ok
}
