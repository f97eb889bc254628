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

// maxDepth bounds the nesting of a value that is skipped.
const maxDepth = 16

// input reads msgpack with the library's primitives alone. Its reflective
// decoding believes declared lengths: five bytes can ask for 4 GB. Here every
// length goes through size, which holds it against the bytes that remain.
type input struct {
	bytes bytes.Reader
	dec   *msgpack.Decoder
}

func (in *input) reset(b []byte) {
	in.bytes.Reset(b)
	if in.dec == nil {
		in.dec = msgpack.NewDecoder(&in.bytes)
	}
	in.dec.ResetReader(&in.bytes)
}

func (in *input) left() int { return in.bytes.Len() }

// size checks a declared number of items that take at least min bytes each.
func (in *input) size(n, min int, err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, refusef(event.Undecodable, "null where a value is needed")
	case n > in.left()/min:
		return 0, refusef(event.Undecodable, "%d items are declared and %d bytes remain", n, in.left())
	}
	return n, nil
}

// fields calls field for each key of a map; field returns false for a key it
// does not know, whose value is then skipped. A key that comes twice is
// refused.
func (in *input) fields(field func(key string) (known bool, err error)) error {
	n, err := in.dec.DecodeMapLen()
	if n, err = in.size(n, 2, err); err != nil {
		return err
	}
	seen := make(map[string]bool, min(n, 16))
	for range n {
		key, err := in.text(64)
		if err != nil {
			return err
		}
		if seen[key] {
			return refusef(event.Undecodable, "key %q comes twice", key)
		}
		seen[key] = true
		known, err := field(key)
		if err == nil && !known {
			err = in.skip(0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// text reads a string of at most limit bytes.
func (in *input) text(limit int) (string, error) {
	code, err := in.dec.PeekCode()
	if err != nil {
		return "", err
	}
	if !msgpcode.IsString(code) {
		return "", refusef(event.Undecodable, "code 0x%02x where a string is needed", code)
	}
	n, err := in.dec.DecodeBytesLen()
	if n, err = in.size(n, 1, err); err != nil {
		return "", err
	}
	if n > limit {
		return "", refusef(event.Undecodable, "a string of %d bytes, at most %d are taken", n, limit)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(&in.bytes, b); err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", refusef(event.Undecodable, "a string that is not UTF-8")
	}
	return string(b), nil
}

// id reads a node's id: a string or an integer.
func (in *input) id(limit int) (event.ID, error) {
	code, err := in.dec.PeekCode()
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

func (in *input) integer() (int64, error) {
	code, err := in.dec.PeekCode()
	if err != nil {
		return 0, err
	}
	if !isInteger(code) {
		return 0, refusef(event.Undecodable, "code 0x%02x where an integer is needed", code)
	}
	if code != msgpcode.Uint64 {
		return in.dec.DecodeInt64()
	}
	n, err := in.dec.DecodeUint64()
	if n > math.MaxInt64 {
		return 0, refusef(event.Undecodable, "integer %d does not fit 64 bits with sign", n)
	}
	return int64(n), err
}

func (in *input) boolean() (bool, error) {
	code, err := in.dec.PeekCode()
	if err != nil {
		return false, err
	}
	if code != msgpcode.True && code != msgpcode.False {
		return false, refusef(event.Undecodable, "code 0x%02x where true or false is needed", code)
	}
	return in.dec.DecodeBool()
}

func (in *input) number() (float32, error) {
	code, err := in.dec.PeekCode()
	if err != nil {
		return 0, err
	}
	switch {
	case code == msgpcode.Float:
		return in.dec.DecodeFloat32()
	case code == msgpcode.Double:
		x, err := in.dec.DecodeFloat64()
		return float32(x), err
	case code == msgpcode.Uint64:
		x, err := in.dec.DecodeUint64()
		return float32(x), err
	case isInteger(code):
		x, err := in.dec.DecodeInt64()
		return float32(x), err
	}
	return 0, refusef(event.BadFeatures, "code 0x%02x where a number is needed", code)
}

// list reads the length of an array, or of a binary block of items of width
// bytes.
func (in *input) list(width, limit int, excess event.Reason) (n int, block bool, err error) {
	code, err := in.dec.PeekCode()
	if err != nil {
		return 0, false, err
	}
	switch {
	case msgpcode.IsBin(code) && width > 0:
		n, err = in.dec.DecodeBytesLen()
		if n, err = in.size(n, 1, err); err == nil && n%width != 0 {
			err = refusef(event.BadFeatures, "a block of %d bytes, each number has %d", n, width)
		}
		n, block = n/max(width, 1), true
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		n, err = in.dec.DecodeArrayLen()
		n, err = in.size(n, 1, err)
	default:
		err = refusef(event.Undecodable, "code 0x%02x where a list is needed", code)
	}
	if err == nil && n > limit {
		err = refusef(excess, "a list of %d, at most %d are taken", n, limit)
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
	x := make([]float32, n)
	if !block {
		for i := range x {
			if x[i], err = in.number(); err != nil {
				return nil, err
			}
		}
		return x, nil
	}
	var b [4]byte
	for i := range x {
		if _, err := io.ReadFull(&in.bytes, b[:]); err != nil {
			return nil, err
		}
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
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
	x := make([]uint32, n)
	var b [4]byte
	for i := range x {
		if block {
			if _, err := io.ReadFull(&in.bytes, b[:]); err != nil {
				return nil, err
			}
			x[i] = binary.LittleEndian.Uint32(b[:])
			continue
		}
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

// binaryOrNull reads a binary block that may be null.
func (in *input) binaryOrNull() ([]byte, error) {
	code, err := in.dec.PeekCode()
	if err != nil {
		return nil, err
	}
	if code == msgpcode.Nil {
		return nil, in.dec.DecodeNil()
	}
	if !msgpcode.IsBin(code) {
		return nil, refusef(event.Undecodable, "code 0x%02x where bytes are needed", code)
	}
	n, err := in.dec.DecodeBytesLen()
	if n, err = in.size(n, 1, err); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err = io.ReadFull(&in.bytes, b)
	return b, err
}

// skip passes over one value of any kind.
func (in *input) skip(depth int) error {
	if depth > maxDepth {
		return refusef(event.Undecodable, "nested deeper than %d", maxDepth)
	}
	code, err := in.dec.PeekCode()
	if err != nil {
		return err
	}
	items, n := 0, 0
	switch {
	case msgpcode.IsString(code) || msgpcode.IsBin(code):
		n, err = in.dec.DecodeBytesLen()
		n, err = in.size(n, 1, err)
	case msgpcode.IsExt(code):
		_, n, err = in.dec.DecodeExtHeader()
		n, err = in.size(n, 1, err)
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		items, err = in.dec.DecodeArrayLen()
		items, err = in.size(items, 1, err)
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		items, err = in.dec.DecodeMapLen()
		items, err = in.size(items, 2, err)
		items *= 2
	default:
		return in.dec.Skip() // a number, a boolean or null: no length, no nesting
	}
	if err != nil {
		return err
	}
	if _, err := in.bytes.Seek(int64(n), io.SeekCurrent); err != nil {
		return err
	}
	for range items {
		if err := in.skip(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// appender lets the library's encoder append to a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) { a.b = append(a.b, p...); return len(p), nil }
func (a *appender) WriteByte(c byte) error      { a.b = append(a.b, c); return nil }

// output writes msgpack. Its errors are the appender's, which has none.
type output struct {
	to  appender
	enc *msgpack.Encoder
}

func newOutput(dst []byte) *output {
	o := &output{to: appender{dst}}
	o.enc = msgpack.GetEncoder()
	o.enc.Reset(&o.to)
	o.enc.UseCompactInts(true)
	return o
}

func (o *output) done() []byte {
	msgpack.PutEncoder(o.enc)
	return o.to.b
}

func (o *output) fields(n int)               { must(o.enc.EncodeMapLen(n)) }
func (o *output) list(n int)                 { must(o.enc.EncodeArrayLen(n)) }
func (o *output) text(s string)              { must(o.enc.EncodeString(s)) }
func (o *output) integer(n int64)            { must(o.enc.EncodeInt(n)) }
func (o *output) single(x float32)           { must(o.enc.EncodeFloat32(x)) }
func (o *output) block(b []byte)             { must(o.enc.EncodeBytes(b)) }
func (o *output) boolean(b bool)             { must(o.enc.EncodeBool(b)) }
func (o *output) textField(k, v string)      { o.text(k); o.text(v) }
func (o *output) intField(k string, v int64) { o.text(k); o.integer(v) }

func (o *output) id(id event.ID) {
	if id.Str != "" {
		o.text(id.Str)
		return
	}
	o.integer(id.Num)
}

func (o *output) singles(x []float32) {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	o.block(b)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
