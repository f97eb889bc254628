package pipeline

import (
	"encoding/binary"

	"github.com/gvbll/gvbll/pipeline/event"
)

// appendLabel encodes a label without its node: its class by name and by index, its
// time, and its origin. Integers are varints. A string is preceded by its length, bytes
// by 1 + their length; nil bytes are 0.
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

// recordReader decodes consecutive records of appendLabel. If bad is set, the bytes were
// not a record, and the last results are invalid.
type recordReader struct {
	b   []byte // not yet read
	bad bool
}

func (r *recordReader) label() (l event.Label) {
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

func (r *recordReader) uint() uint64 {
	x, n := binary.Uvarint(r.b)
	r.skip(n)
	return x
}

func (r *recordReader) int() int64 {
	x, n := binary.Varint(r.b)
	r.skip(n)
	return x
}

func (r *recordReader) int32() int32 {
	x := r.int()
	r.bad = r.bad || x != int64(int32(x))
	return int32(x)
}

// skip skips a varint of n bytes. If there was none, package binary returns n ≤ 0.
func (r *recordReader) skip(n int) {
	if n <= 0 {
		r.bad, r.b = true, nil
		return
	}
	r.b = r.b[n:]
}

func (r *recordReader) string() string { return string(r.next(r.uint())) }

func (r *recordReader) bytes() []byte {
	n := r.uint()
	if n == 0 {
		return nil
	}
	return append([]byte{}, r.next(n-1)...)
}

// next returns the next n bytes.
func (r *recordReader) next(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	next := r.b[:n]
	r.b = r.b[n:]
	return next
}
