package kafka

import "encoding/binary"

// input decodes the numbers and bytes of records. Once
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

// bytes reads a length as a varint, and as many bytes; -1 means null.
func (in *input) bytes() []byte {
	n := in.varint()
	if n == -1 {
		return nil
	}
	return in.take(n)
}
