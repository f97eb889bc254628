package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Bounds on fields, known or not.
const (
	maxDepth  = 16 // nesting of a value under an unknown key
	maxFields = 64 // keys in a map, so that the search for duplicates stays cheap
	maxKey    = 64 // bytes in a key
	maxNames  = 23 // fields of a record that are known
)

// input reads msgpack from a byte slice. The library's decoding is not used: it trusts declared lengths, so that five bytes
// can ask for 4 GB, and makes a call through an interface for every byte or two. Here a length is compared with the bytes
// that remain.
type input struct {
	cursor  cursor
	json    field             // the value in JSON, which is not read by the cursor
	keys    [][]byte          // keys of the current map
	members [maxNames]field   // of an event in JSON
	memory  *Memory           // of the lists and texts
	report  func(name []byte) // see Decoder.Unknown
	reads   reading
}

type reading struct {
	first  bool  // see Decoder.First
	record field // of which a list's items are read, nil for none
	frames func(schema uint32, payload []byte) ([]byte, error)
}

type cursor struct {
	buf []byte
	at  int // how many bytes of buf are read
}

// kind is what a value is. The zero kind is that of the code that msgpack does not use, and of no value.
type kind uint8

const (
	aNull kind = 1 + iota
	aBoolean
	anInteger
	aSingle
	aDouble
	aString
	aBlock // of bytes
	aList
	aMap
	anExtension
)

// form is how a value begins: with a code, and width bytes behind it that say how long the value is or, of a number, what
// it is. If there are none, that is n.
type form struct {
	kind  kind
	width uint8
	n     uint64
}

var forms = func() (f [256]form) {
	for i := range f {
		switch x, c := &f[i], byte(i); {
		case msgpcode.IsFixedNum(c):
			x.kind, x.n = anInteger, uint64(int8(c))
		case msgpcode.IsFixedMap(c):
			x.kind, x.n = aMap, uint64(c&msgpcode.FixedMapMask)
		case msgpcode.IsFixedArray(c):
			x.kind, x.n = aList, uint64(c&msgpcode.FixedArrayMask)
		case msgpcode.IsFixedString(c):
			x.kind, x.n = aString, uint64(c&msgpcode.FixedStrMask)
		case msgpcode.IsFixedExt(c):
			x.kind, x.n = anExtension, 1<<(c-msgpcode.FixExt1)
		}
	}
	set := func(code byte, k kind, widths ...uint8) {
		for i, w := range widths {
			f[int(code)+i].kind, f[int(code)+i].width = k, w
		}
	}
	set(msgpcode.Nil, aNull, 0)
	set(msgpcode.False, aBoolean, 0, 0)
	f[msgpcode.True].n = 1
	set(msgpcode.Bin8, aBlock, 1, 2, 4)
	set(msgpcode.Ext8, anExtension, 1, 2, 4)
	set(msgpcode.Float, aSingle, 4)
	set(msgpcode.Double, aDouble, 8)
	set(msgpcode.Uint8, anInteger, 1, 2, 4, 8)
	set(msgpcode.Int8, anInteger, 1, 2, 4, 8)
	set(msgpcode.Str8, aString, 1, 2, 4)
	set(msgpcode.Array16, aList, 2, 4)
	set(msgpcode.Map16, aMap, 2, 4)
	return f
}()

func (in *input) reset(b []byte) {
	in.cursor = cursor{buf: b}
	clear(in.keys)
}

// left returns the number of bytes that are not read yet.
func (c *cursor) left() int { return len(c.buf) - c.at }

func (c *cursor) next() kind {
	if c.at == len(c.buf) {
		return 0
	}
	return forms[c.buf[c.at]].kind
}

// wrong returns the error that the next value is not what is needed.
func (c *cursor) wrong(reason event.Reason, needed string) error {
	if c.at == len(c.buf) {
		return io.EOF
	}
	return refusef(reason, "code 0x%02x where %s is needed", c.buf[c.at], needed)
}

// advance moves past n bytes, which are there, and returns them. They are
// part of the record's value, so the caller copies what it keeps.
func (c *cursor) advance(n int) []byte {
	c.at += n
	return c.buf[c.at-n : c.at]
}

// head reads the code of the next value, which must be there, and the number that it has: an integer, the bits of a
// float, or a length.
func (c *cursor) head() (code byte, n uint64, err error) {
	code = c.buf[c.at]
	f := &forms[code]
	if c.left() < 1+int(f.width) {
		return code, 0, io.ErrUnexpectedEOF
	}
	b := c.advance(1 + int(f.width))[1:]
	if len(b) == 0 {
		return code, f.n, nil
	}
	for _, b := range b {
		n = n<<8 | uint64(b)
	}
	if code >= msgpcode.Int8 && code <= msgpcode.Int64 {
		shift := 64 - 8*f.width
		n = uint64(int64(n<<shift) >> shift)
	}
	return code, n, nil
}

// length reads the head of a value of the kind, and its length in items that have at least least bytes each.
func (c *cursor) length(k kind, least int, needed string) (int, error) {
	if c.next() != k {
		return 0, c.wrong(event.Undecodable, needed)
	}
	_, n, err := c.head()
	if err == nil && n > uint64(c.left()/least) {
		err = refusef(event.Undecodable, "%d items are declared, but only %d bytes remain", n, c.left())
	}
	return int(n), err
}

func (c *cursor) end() error {
	if c.left() > 0 {
		return refusef(event.Undecodable, "%d bytes after the map", c.left())
	}
	return nil
}

// fields calls field for each key of a map. field returns false for a key that it
// does not know, whose value is then skipped. A null value is the same as a
// missing key. A duplicate key is refused, because readers differ in which of the
// two values they use.
func (in *input) fields(field func(key []byte) (known bool, err error)) error {
	n, err := in.cursor.mapLen()
	if err != nil {
		return err
	}
	if n > maxFields {
		return refusef(event.Undecodable, "a map of %d keys, the limit is %d", n, maxFields)
	}
	in.keys = in.keys[:0]
	for range n {
		key, err := in.cursor.string(maxKey)
		if err != nil {
			return err
		}
		for _, k := range in.keys {
			if bytes.Equal(k, key) {
				return refusef(event.Undecodable, "key %q comes twice", key)
			}
		}
		in.keys = append(in.keys, key)
		known := false
		if in.cursor.next() != aNull {
			if known, err = field(key); err != nil {
				return err
			}
			if !known {
				in.unknown(key)
			}
		}
		if !known {
			if err := in.cursor.skip(1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (in *input) unknown(name []byte) {
	if in.report != nil {
		in.report(name)
	}
}

func (c *cursor) mapLen() (int, error) { return c.length(aMap, 2, "a map") }

// string reads a string of at most limit bytes without copying it.
func (c *cursor) string(limit int) ([]byte, error) {
	n, err := c.length(aString, 1, "a string")
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, refusef(event.Undecodable, "a string of %d bytes, the limit is %d", n, limit)
	}
	b := c.advance(n)
	if !utf8.Valid(b) {
		return nil, refusef(event.Undecodable, "a string that is not UTF-8")
	}
	return b, nil
}

func (in *input) text(limit int) (string, error) {
	b, err := in.cursor.string(limit)
	if err != nil {
		return "", err
	}
	return in.memory.text(b), nil
}

func (in *input) id(limit int) (event.ID, error) {
	switch in.cursor.next() {
	case aString:
		s, err := in.text(limit)
		if err != nil || s == "" {
			return event.ID{}, refusef(event.BadID, "a string id needs 1 to %d bytes of UTF-8", limit)
		}
		return event.ID{Str: s}, nil
	case anInteger:
		n, err := in.integer()
		if err != nil {
			return event.ID{}, refusef(event.BadID, "an integer id needs to fit 64 bits with sign")
		}
		return event.ID{Num: n}, nil
	}
	return event.ID{}, in.cursor.wrong(event.BadID, "a string or an integer")
}

func (in *input) kind() kind { return in.cursor.next() }

func (in *input) list(least, most int, excess event.Reason) (int, list, error) {
	n, _, err := in.cursor.list(0, least, most, excess)
	return n, in, err
}

func (in *input) item() value { return in }

func (in *input) object(_ *input, _ []string, read func(key []byte, v value) (known bool, err error)) error {
	outer := in.keys
	in.keys = outer[len(outer):]
	err := in.fields(func(key []byte) (bool, error) { return read(key, in) })
	clear(in.keys)
	in.keys = outer
	return err
}

// integer reads an integer of any form and refuses one beyond int64.
func (in *input) integer() (int64, error) {
	if in.cursor.next() != anInteger {
		return 0, in.cursor.wrong(event.Undecodable, "an integer")
	}
	code, n, err := in.cursor.head()
	if code == msgpcode.Uint64 && n > math.MaxInt64 {
		err = refusef(event.Undecodable, "integer %d does not fit 64 bits with sign", n)
	}
	return int64(n), err
}

func (in *input) boolean() (bool, error) {
	if in.cursor.next() != aBoolean {
		return false, in.cursor.wrong(event.Undecodable, "true or false")
	}
	_, n, err := in.cursor.head()
	return n == 1, err
}

// number reads an integer or a float of any form as a float32.
func (in *input) number() (float32, error) {
	k := in.cursor.next()
	if k != anInteger && k != aSingle && k != aDouble {
		return 0, in.cursor.wrong(event.BadFeatures, "a number")
	}
	code, n, err := in.cursor.head()
	switch {
	case k == aSingle:
		return math.Float32frombits(uint32(n)), err
	case k == aDouble:
		return float32(math.Float64frombits(n)), err
	case code == msgpcode.Uint64:
		return float32(n), err
	}
	return float32(int64(n)), err
}

// list reads the length of a list or, if width > 0, of a binary block of items
// of width bytes. A length over the limit is refused with the reason excess. Items of a list have at least least bytes.
func (c *cursor) list(width, least, limit int, excess event.Reason) (n int, block bool, err error) {
	if block = width > 0 && c.next() == aBlock; block {
		if n, err = c.length(aBlock, 1, "a block"); err == nil && n%width != 0 {
			err = refusef(event.BadFeatures, "a block of %d bytes, each number has %d", n, width)
		}
		n /= width
	} else {
		n, err = c.length(aList, 1, "a list")
	}
	if err == nil && n > limit {
		err = refusef(excess, "a list of %d items, the limit is %d", n, limit)
	} else if err == nil && n > c.left()/least && !block {
		err = refusef(event.Undecodable, "%d items are declared, but only %d bytes remain", n, c.left())
	}
	return n, block, err
}

// numbers reads an array of numbers, or a binary block of little-endian
// float32.
func (in *input) numbers(limits Limits) ([]float32, error) {
	n, block, err := in.cursor.list(4, 1, limits.MaxFeatures, event.TooLarge)
	if err != nil {
		return nil, err
	}
	x := in.memory.numbers.cut(n)
	if block {
		readFloats(x, in.cursor.advance(4*n))
		return x, nil
	}
	for i := range x {
		if in.cursor.next() == aNull {
			return nil, refusef(event.PartialFeatures, "number %d is null where all features are needed", i)
		}
		if x[i], err = in.number(); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// indices reads an array of integers, or a binary block of little-endian
// uint32.
func (in *input) indices(limits Limits) ([]uint32, error) {
	n, block, err := in.cursor.list(4, 1, limits.MaxFeatures, event.TooLarge)
	if err != nil {
		return nil, err
	}
	x := in.memory.indices.cut(n)
	if block {
		b := in.cursor.advance(4 * n)
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

// skip moves past one value of any kind.
func (c *cursor) skip(depth int) error {
	if depth > maxDepth {
		return refusef(event.Undecodable, "nested deeper than %d", maxDepth)
	}
	k := c.next()
	if k == 0 {
		return c.wrong(event.Undecodable, "a value")
	}
	_, n, err := c.head()
	if err != nil {
		return err
	}
	bytes, items := uint64(0), uint64(0)
	switch k {
	case aString, aBlock:
		bytes = n
	case anExtension:
		bytes = n + 1 // its type
	case aList:
		items = n
	case aMap:
		items = 2 * n
	}
	if left := uint64(c.left()); bytes > left || items > left {
		return refusef(event.Undecodable, "%d items are declared, but only %d bytes remain", max(bytes, items), left)
	}
	c.advance(int(bytes))
	for range items {
		if err := c.skip(depth + 1); err != nil {
			return err
		}
	}
	return nil
}
