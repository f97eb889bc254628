package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Bounds on fields, known or not.
const (
	maxDepth  = 16 // nesting of a value under an unknown key
	maxFields = 64 // keys in a map, so that the search for duplicates stays cheap
	maxKey    = 64 // bytes in a key
	maxNames  = 17 // fields of an event that are known
)

// input reads msgpack from a byte slice. It uses the library's primitives only,
// because its reflective decoding trusts declared lengths: five bytes can ask for
// 4 GB. Here every length goes through size, which compares it with the bytes
// that remain.
//
// The library makes a call through an interface for every byte or two. What most events
// consist of, short lengths and integers, is read here.
type input struct {
	buf     []byte
	at      int          // how many bytes of buf are read
	bytes   bytes.Reader // what the library reads, see library
	dec     *msgpack.Decoder
	keys    [][]byte          // keys of the current map
	members [maxNames]field   // see object
	memory  *Memory           // nil to allocate each list and text
	report  func(name []byte) // see Decoder.Unknown
}

func (in *input) reset(b []byte) {
	in.buf, in.at = b, 0
	in.bytes.Reset(nil)
	clear(in.keys)
	if in.dec == nil {
		in.dec = msgpack.NewDecoder(&in.bytes)
	}
	in.dec.ResetReader(&in.bytes)
}

// library has one of the library's methods read from the bytes that are not read yet.
func library[T any](in *input, read func(*msgpack.Decoder) (T, error)) (T, error) {
	in.bytes.Reset(in.rest())
	x, err := read(in.dec)
	in.at = len(in.buf) - in.bytes.Len()
	return x, err
}

// left returns the number of bytes that are not read yet.
func (in *input) left() int { return len(in.buf) - in.at }

// rest returns the bytes that are not read yet.
func (in *input) rest() []byte { return in.buf[in.at:] }

// peek returns the next code.
func (in *input) peek() (byte, error) {
	if in.at == len(in.buf) {
		return 0, io.EOF
	}
	return in.buf[in.at], nil
}

// advance moves past n bytes, which size has checked, and returns them. They are
// part of the record's value, so the caller copies what it keeps.
func (in *input) advance(n int) []byte {
	in.at += n
	return in.buf[in.at-n : in.at]
}

// shortLen reads the code of a value and its length, if that has at most 16 bits.
func (in *input) shortLen(code byte) (n int, ok bool) {
	width := 0
	switch {
	case msgpcode.IsFixedString(code):
		n = int(code & msgpcode.FixedStrMask)
	case msgpcode.IsFixedMap(code):
		n = int(code & msgpcode.FixedMapMask)
	case msgpcode.IsFixedArray(code):
		n = int(code & msgpcode.FixedArrayMask)
	case code == msgpcode.Str8 || code == msgpcode.Bin8:
		width = 1
	case code == msgpcode.Str16 || code == msgpcode.Bin16 || code == msgpcode.Array16 || code == msgpcode.Map16:
		width = 2
	default:
		return 0, false
	}
	if in.left() < 1+width {
		return 0, false
	}
	for _, b := range in.advance(1 + width)[1:] {
		n = n<<8 | int(b)
	}
	return n, true
}

// length reads the code of a value and its length, with one of the library's methods if
// it is long.
func (in *input) length(code byte, long func(*msgpack.Decoder) (int, error)) (int, error) {
	if n, ok := in.shortLen(code); ok {
		return n, nil
	}
	return library(in, long)
}

// end refuses bytes after the value that was read.
func (in *input) end() error {
	if in.left() > 0 {
		return refusef(event.Undecodable, "%d bytes after the map", in.left())
	}
	return nil
}

// size checks a declared number n of items that have at least min bytes each.
func (in *input) size(n, min int, err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, refusef(event.Undecodable, "null where a value is needed")
	case n > in.left()/min:
		return 0, refusef(event.Undecodable, "%d items are declared, but only %d bytes remain", n, in.left())
	}
	return n, nil
}

// fields calls field for each key of a map. field returns false for a key that it
// does not know, whose value is then skipped. A null value is the same as a
// missing key. A duplicate key is refused, because readers differ in which of the
// two values they use.
func (in *input) fields(field func(key []byte) (known bool, err error)) error {
	n, err := in.mapLen()
	if err != nil {
		return err
	}
	if n > maxFields {
		return refusef(event.Undecodable, "a map of %d keys, the limit is %d", n, maxFields)
	}
	in.keys = in.keys[:0]
	for range n {
		key, err := in.string(maxKey)
		if err != nil {
			return err
		}
		for _, k := range in.keys {
			if bytes.Equal(k, key) {
				return refusef(event.Undecodable, "key %q comes twice", key)
			}
		}
		in.keys = append(in.keys, key)
		code, err := in.peek()
		if err != nil {
			return err
		}
		known := false
		if code != msgpcode.Nil {
			if known, err = field(key); err != nil {
				return err
			}
			if !known {
				in.unknown(key)
			}
		}
		if !known {
			if err := in.skip(1); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknown reports a field that is ignored.
func (in *input) unknown(name []byte) {
	if in.report != nil {
		in.report(name)
	}
}

// mapLen reads the length of a map. It checks the code first, because the
// library's DecodeMapLen also accepts an extension header before the map.
func (in *input) mapLen() (int, error) {
	code, err := in.peek()
	if err != nil {
		return 0, err
	}
	if !isMap(code) {
		return 0, refusef(event.Undecodable, "code 0x%02x where a map is needed", code)
	}
	n, err := in.length(code, (*msgpack.Decoder).DecodeMapLen)
	return in.size(n, 2, err)
}

func isMap(code byte) bool {
	return msgpcode.IsFixedMap(code) || code == msgpcode.Map16 || code == msgpcode.Map32
}

func isArray(code byte) bool {
	return msgpcode.IsFixedArray(code) || code == msgpcode.Array16 || code == msgpcode.Array32
}

// string reads a string of at most limit bytes without copying it.
func (in *input) string(limit int) ([]byte, error) {
	n, err := in.bytesLen(msgpcode.IsString, "a string is")
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, refusef(event.Undecodable, "a string of %d bytes, the limit is %d", n, limit)
	}
	b := in.advance(n)
	if !utf8.Valid(b) {
		return nil, refusef(event.Undecodable, "a string that is not UTF-8")
	}
	return b, nil
}

// bytesLen reads the length of a block of bytes, whose code must be of a kind.
func (in *input) bytesLen(is func(code byte) bool, what string) (int, error) {
	code, err := in.peek()
	if err != nil {
		return 0, err
	}
	if !is(code) {
		return 0, refusef(event.Undecodable, "code 0x%02x where %s needed", code, what)
	}
	n, err := in.length(code, (*msgpack.Decoder).DecodeBytesLen)
	return in.size(n, 1, err)
}

// text reads a string of at most limit bytes.
func (in *input) text(limit int) (string, error) {
	b, err := in.string(limit)
	if err != nil {
		return "", err
	}
	return in.newText(b), nil
}

// id reads a node's id: a string or an integer.
func (in *input) id(limit int) (event.ID, error) {
	code, err := in.peek()
	if err != nil {
		return event.ID{}, err
	}
	switch {
	case msgpcode.IsString(code):
		s, err := in.text(limit)
		if err != nil || s == "" {
			return event.ID{}, refusef(event.BadID, "a string id needs 1 to %d bytes of UTF-8", limit)
		}
		return event.ID{Str: s}, nil
	case isInteger(code):
		n, err := in.integer()
		if err != nil {
			return event.ID{}, refusef(event.BadID, "an integer id needs to fit 64 bits with sign")
		}
		return event.ID{Num: n}, nil
	}
	return event.ID{}, refusef(event.BadID, "code 0x%02x, an id is a string or an integer", code)
}

func isInteger(code byte) bool {
	return msgpcode.IsFixedNum(code) || code >= msgpcode.Uint8 && code <= msgpcode.Int64
}

// integer reads an integer of any form and refuses one beyond int64.
func (in *input) integer() (int64, error) {
	code, err := in.peek()
	if err != nil {
		return 0, err
	}
	if !isInteger(code) {
		return 0, refusef(event.Undecodable, "code 0x%02x where an integer is needed", code)
	}
	if n, size := short(in.rest()); size > 0 {
		in.advance(size)
		return n, nil
	}
	if code != msgpcode.Uint64 {
		return library(in, (*msgpack.Decoder).DecodeInt64)
	}
	var n uint64
	if in.left() >= 9 {
		n = binary.BigEndian.Uint64(in.advance(9)[1:])
	} else if n, err = library(in, (*msgpack.Decoder).DecodeUint64); err != nil {
		return 0, err
	}
	if n > math.MaxInt64 {
		return 0, refusef(event.Undecodable, "integer %d does not fit 64 bits with sign", n)
	}
	return int64(n), nil
}

// short reads an unsigned or fixed integer of at most 32 bits from the beginning
// of b and returns its size in bytes, 0 if there is another code.
func short(b []byte) (n int64, size int) {
	switch {
	case len(b) >= 1 && msgpcode.IsFixedNum(b[0]):
		return int64(int8(b[0])), 1
	case len(b) >= 2 && b[0] == msgpcode.Uint8:
		return int64(b[1]), 2
	case len(b) >= 3 && b[0] == msgpcode.Uint16:
		return int64(binary.BigEndian.Uint16(b[1:])), 3
	case len(b) >= 5 && b[0] == msgpcode.Uint32:
		return int64(binary.BigEndian.Uint32(b[1:])), 5
	}
	return 0, 0
}

func (in *input) boolean() (bool, error) {
	code, err := in.peek()
	if err != nil {
		return false, err
	}
	if code != msgpcode.True && code != msgpcode.False {
		return false, refusef(event.Undecodable, "code 0x%02x where true or false is needed", code)
	}
	return library(in, (*msgpack.Decoder).DecodeBool)
}

// number reads an integer or a float of any form as a float32.
func (in *input) number() (float32, error) {
	code, err := in.peek()
	if err != nil {
		return 0, err
	}
	switch {
	case code == msgpcode.Float && in.left() >= 5:
		return math.Float32frombits(binary.BigEndian.Uint32(in.advance(5)[1:])), nil
	case code == msgpcode.Float:
		return library(in, (*msgpack.Decoder).DecodeFloat32)
	case code == msgpcode.Double:
		x, err := library(in, (*msgpack.Decoder).DecodeFloat64)
		return float32(x), err
	case code == msgpcode.Uint64:
		x, err := library(in, (*msgpack.Decoder).DecodeUint64)
		return float32(x), err
	case isInteger(code):
		x, err := library(in, (*msgpack.Decoder).DecodeInt64)
		return float32(x), err
	}
	return 0, refusef(event.BadFeatures, "code 0x%02x where a number is needed", code)
}

// finite reads a number and refuses NaN and infinities.
func (in *input) finite() (float32, error) {
	x, err := in.number()
	if a := math.Abs(float64(x)); err == nil && (math.IsNaN(a) || math.IsInf(a, 0)) {
		err = refusef(event.NonFinite, "a number is %v", x)
	}
	return x, err
}

// int32 reads an integer and refuses one that does not fit 32 bits.
func (in *input) int32() (int32, error) {
	n, err := in.integer()
	if err == nil && int64(int32(n)) != n {
		err = refusef(event.Undecodable, "integer %d does not fit 32 bits", n)
	}
	return int32(n), err
}

// list reads the length of an array or, if width > 0, of a binary block of items
// of width bytes. A length over the limit is refused with the reason excess.
func (in *input) list(width, limit int, excess event.Reason) (n int, block bool, err error) {
	code, err := in.peek()
	if err != nil {
		return 0, false, err
	}
	switch {
	case msgpcode.IsBin(code) && width > 0:
		n, err = in.length(code, (*msgpack.Decoder).DecodeBytesLen)
		if n, err = in.size(n, 1, err); err == nil && n%width != 0 {
			err = refusef(event.BadFeatures, "a block of %d bytes, each number has %d", n, width)
		}
		n, block = n/max(width, 1), true
	case isArray(code):
		n, err = in.length(code, (*msgpack.Decoder).DecodeArrayLen)
		n, err = in.size(n, 1, err)
	default:
		err = refusef(event.Undecodable, "code 0x%02x where a list is needed", code)
	}
	if err == nil && n > limit {
		err = refusef(excess, "a list of %d items, the limit is %d", n, limit)
	}
	return n, block, err
}

// numbers reads an array of numbers, or a binary block of little-endian
// float32.
func (in *input) numbers(limits Limits) ([]float32, error) {
	n, block, err := in.list(4, limits.MaxFeatures, event.TooLarge)
	if err != nil {
		return nil, err
	}
	if block {
		x := in.newNumbers(n)
		readFloats(x, in.advance(4*n))
		return x, nil
	}
	x := in.newNumbers(n)
	for i := range x {
		if x[i], err = in.number(); err != nil {
			if code, end := in.peek(); end == nil && code == msgpcode.Nil {
				err = refusef(event.PartialFeatures, "number %d is null where all features are needed", i)
			}
			return nil, err
		}
	}
	return x, nil
}

// indices reads an array of integers, or a binary block of little-endian
// uint32.
func (in *input) indices(limits Limits) ([]uint32, error) {
	n, block, err := in.list(4, limits.MaxFeatures, event.TooLarge)
	if err != nil {
		return nil, err
	}
	x := in.newIndices(n)
	if block {
		b := in.advance(4 * n)
		for i := range x {
			x[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
		return x, nil
	}
	for i := range x {
		v, err := in.integer()
		if err != nil {
			return nil, err
		}
		if v < 0 || v > math.MaxUint32 {
			return nil, refusef(event.BadFeatures, "feature index %d", v)
		}
		x[i] = uint32(v)
	}
	return x, nil
}

// binary reads a binary block.
func (in *input) binary() ([]byte, error) {
	n, err := in.bytesLen(msgpcode.IsBin, "bytes are")
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	copy(b, in.advance(n))
	return b, nil
}

// skip moves past one value of any kind.
func (in *input) skip(depth int) error {
	if depth > maxDepth {
		return refusef(event.Undecodable, "nested deeper than %d", maxDepth)
	}
	code, err := in.peek()
	if err != nil {
		return err
	}
	items, n := 0, 0
	switch {
	case msgpcode.IsString(code) || msgpcode.IsBin(code):
		n, err = in.length(code, (*msgpack.Decoder).DecodeBytesLen)
		n, err = in.size(n, 1, err)
	case msgpcode.IsExt(code):
		n, err = library(in, func(d *msgpack.Decoder) (int, error) {
			_, n, err := d.DecodeExtHeader()
			return n, err
		})
		n, err = in.size(n, 1, err)
	case isArray(code):
		items, err = in.length(code, (*msgpack.Decoder).DecodeArrayLen)
		items, err = in.size(items, 1, err)
	case isMap(code):
		items, err = in.mapLen()
		items *= 2
	default:
		_, err := library(in, func(d *msgpack.Decoder) (struct{}, error) { return struct{}{}, d.Skip() })
		return err // a number, a boolean or null: no length, no nesting
	}
	if err != nil {
		return err
	}
	in.advance(n)
	for range items {
		if err := in.skip(depth + 1); err != nil {
			return err
		}
	}
	return nil
}
