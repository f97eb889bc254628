package kafka

import "encoding/binary"

// input decodes the numbers, strings and lists of Kafka's protocol from bytes. Once
// something is missing or impossible it is failed, and everything else is zero. No
// length is believed: what it returns lies within the bytes that it has.
type input struct {
	b      []byte
	failed bool
}

func (in *input) fail() {
	in.b, in.failed = nil, true
}

// take returns the next n bytes, and nil if there are not as many.
func (in *input) take(n int64) []byte {
	if n < 0 || n > int64(len(in.b)) {
		in.fail()
		return nil
	}
	b := in.b[:n:n]
	in.b = in.b[n:]
	return b
}

// fixed takes n bytes, at most 8: zeros if there are fewer.
func (in *input) fixed(n int64) []byte {
	if b := in.take(n); b != nil {
		return b
	}
	return make([]byte, n)
}

func (in *input) int8() int8   { return int8(in.fixed(1)[0]) }
func (in *input) int16() int16 { return int16(binary.BigEndian.Uint16(in.fixed(2))) }
func (in *input) int32() int32 { return int32(binary.BigEndian.Uint32(in.fixed(4))) }
func (in *input) int64() int64 { return int64(binary.BigEndian.Uint64(in.fixed(8))) }

// varint reads a signed number in zigzag encoding, as in a record.
func (in *input) varint() int64 {
	v, n := binary.Varint(in.b)
	if n <= 0 {
		in.fail()
		return 0
	}
	in.b = in.b[n:]
	return v
}

// uvarint reads an unsigned number, as in the flexible versions of requests.
func (in *input) uvarint() int64 {
	v, n := binary.Uvarint(in.b)
	if n <= 0 || v > 1<<31 {
		in.fail()
		return 0
	}
	in.b = in.b[n:]
	return int64(v)
}

// bytes reads a length as a varint, and as many bytes; -1 means null.
func (in *input) bytes() []byte {
	n := in.varint()
	if n == -1 {
		return nil
	}
	return in.take(n)
}

// string reads a length in 16 bits, and a string.
func (in *input) string() string { return string(in.take(int64(in.int16()))) }

// list reads the number of a list's elements, each of which has size bytes or more; null
// is an empty list.
func (in *input) list(size int) int {
	n := int(in.int32())
	if n > len(in.b)/size {
		in.fail()
	}
	if in.failed {
		return 0
	}
	return max(n, 0)
}

// The compact forms of the flexible versions: lengths are one more, and 0 is null.

func (in *input) compactString() string {
	n := in.uvarint()
	if n == 0 {
		return ""
	}
	return string(in.take(n - 1))
}

func (in *input) compactList(size int) int {
	n := int(in.uvarint()) - 1
	if n > len(in.b)/size {
		in.fail()
	}
	if in.failed {
		return 0
	}
	return max(n, 0)
}

// tags skips the tagged fields that end a structure of a flexible version.
func (in *input) tags() {
	for n := in.uvarint(); n > 0 && !in.failed; n-- {
		in.uvarint()
		in.take(in.uvarint())
	}
}
