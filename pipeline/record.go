package pipeline

import (
	"encoding/binary"

	"github.com/gvbll/gvbll/pipeline/event"
)

// appendLabel appends the record of a label but for its node: its class by name
// and by index, its time, and its origin. Integers are varints, strings have
// their length before them, and bytes their length and 1, or 0 for nil.
func appendLabel(b []byte, l *event.Label) []byte {
	o := l.Origin
	b = appendString(b, l.Class)
	b = binary.AppendVarint(b, int64(l.Index))
	b = binary.AppendVarint(b, l.Time)
	b = appendString(b, o.Topic)
	b = binary.AppendVarint(b, int64(o.Partition))
	b = binary.AppendVarint(b, o.Offset)
	b = binary.AppendVarint(b, o.Time)
	b = appendBytes(b, o.Key)
	b = appendBytes(b, o.Value)
	b = binary.AppendUvarint(b, uint64(len(o.Headers)))
	for _, h := range o.Headers {
		b = appendString(b, h.Key)
		b = appendBytes(b, h.Value)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBytes(b, s []byte) []byte {
	if s == nil {
		return binary.AppendUvarint(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

// record reads what appendLabel wrote, from its beginning on. After bytes that
// are no such record it is bad, and what was read means nothing.
type record struct {
	b   []byte
	bad bool
}

func (r *record) label() (l event.Label) {
	o := &event.Origin{}
	l.Origin = o
	l.Class = r.string()
	l.Index = r.int32()
	l.Time = r.int()
	o.Topic = r.string()
	o.Partition = r.int32()
	o.Offset = r.int()
	o.Time = r.int()
	o.Key = r.bytes()
	o.Value = r.bytes()
	for headers := r.uint(); headers > 0 && !r.bad; headers-- {
		o.Headers = append(o.Headers, event.Header{Key: r.string(), Value: r.bytes()})
	}
	return l
}

func (r *record) uint() uint64 {
	x, n := binary.Uvarint(r.b)
	r.skip(n)
	return x
}

func (r *record) int() int64 {
	x, n := binary.Varint(r.b)
	r.skip(n)
	return x
}

func (r *record) int32() int32 {
	x := r.int()
	r.bad = r.bad || x != int64(int32(x))
	return int32(x)
}

// skip leaves out the bytes of a varint, of which there are none or fewer when
// it is not one.
func (r *record) skip(n int) {
	if n <= 0 {
		r.bad, r.b = true, nil
		return
	}
	r.b = r.b[n:]
}

func (r *record) string() string { return string(r.next(r.uint())) }

func (r *record) bytes() []byte {
	n := r.uint()
	if n == 0 {
		return nil
	}
	return append([]byte{}, r.next(n-1)...)
}

func (r *record) next(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	next := r.b[:n]
	r.b = r.b[n:]
	return next
}
