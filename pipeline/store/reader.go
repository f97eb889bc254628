package store

import "encoding/binary"

// AppendString appends a string after its length.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendBytes appends bytes after 1 + their length; nil bytes are 0.
func AppendBytes(b, s []byte) []byte {
	if s == nil {
		return binary.AppendUvarint(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

// Reader decodes integers, strings and bytes that were appended one after the other. If bad is
// set, the bytes were something else, and the last results are invalid.
type Reader struct {
	Rest []byte // not yet read
	Bad  bool
}

// Uint reads an unsigned varint.
func (r *Reader) Uint() uint64 {
	x, n := binary.Uvarint(r.Rest)
	r.skip(n)
	return x
}

// Int reads a varint.
func (r *Reader) Int() int64 {
	x, n := binary.Varint(r.Rest)
	r.skip(n)
	return x
}

// Int32 reads a varint of 32 bits.
func (r *Reader) Int32() int32 {
	x := r.Int()
	r.Bad = r.Bad || x != int64(int32(x))
	return int32(x)
}

// skip skips a varint of n bytes. If there was none, package binary returns n ≤ 0.
func (r *Reader) skip(n int) {
	if n <= 0 {
		r.Bad, r.Rest = true, nil
		return
	}
	r.Rest = r.Rest[n:]
}

// String reads what AppendString appended.
func (r *Reader) String() string { return string(r.Next(r.Uint())) }

// Bytes reads what AppendBytes appended, into memory of its own.
func (r *Reader) Bytes() []byte {
	n := r.Uint()
	if n == 0 {
		return nil
	}
	return append([]byte{}, r.Next(n-1)...)
}

// Next returns the next n bytes.
func (r *Reader) Next(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Bad, r.Rest = true, nil
		return nil
	}
	next := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return next
}
