package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/gvbll/gvbll/pipeline/event"
)

// output appends msgpack to a byte slice, or JSON. The library's encoder is not used,
// because it writes through an interface and so allocates for every event.
type output struct {
	b    []byte
	n    int  // keys of the map that is being written
	json bool // fields, texts, integers, singles and booleans are in JSON
}

func (o *output) code(c byte) { o.b = append(o.b, c) }

// mapping is a map that is being written.
type mapping struct{ at, outer int }

// begin begins a map, of the fields up to its end.
func (o *output) begin() mapping {
	m := mapping{len(o.b), o.n}
	if o.code(msgpcode.FixedMapLow); o.json {
		o.b[m.at] = '{'
	}
	o.n = 0
	return m
}

func (o *output) end(m mapping) {
	switch {
	case o.json:
		o.code('}')
	case o.n < 16:
		o.b[m.at] |= byte(o.n)
	default: // no more than fit 16 bits: see maxNamed
		o.b[m.at] = msgpcode.Map16
		o.b = slices.Insert(o.b, m.at+1, byte(o.n>>8), byte(o.n))
	}
	o.n = m.outer
}

// key begins a field of a map.
func (o *output) key(name string) {
	if o.json && o.n > 0 {
		o.code(',')
	}
	o.text(name)
	if o.json {
		o.code(':')
	}
	o.n++
}

// sized writes n with the first of the codes, of 8, 16 and 32 bits, that holds
// it. A code8 of 0 means that there is no 8-bit form.
func (o *output) sized(n int, code8, code16, code32 byte) {
	switch {
	case n <= math.MaxUint8 && code8 != 0:
		o.b = append(o.b, code8, byte(n))
	case n <= math.MaxUint16:
		o.b = binary.BigEndian.AppendUint16(append(o.b, code16), uint16(n))
	default:
		o.b = binary.BigEndian.AppendUint32(append(o.b, code32), uint32(n))
	}
}

func (o *output) list(n int) {
	if n < 16 {
		o.code(msgpcode.FixedArrayLow | byte(n))
		return
	}
	o.sized(n, 0, msgpcode.Array16, msgpcode.Array32)
}

func (o *output) text(s string) {
	switch {
	case o.json && isPlain(s):
		o.b = append(append(append(o.b, '"'), s...), '"')
		return
	case o.json:
		o.b = appendJSON(o.b, s)
		return
	case len(s) < 32:
		o.code(msgpcode.FixedStrLow | byte(len(s)))
	default:
		o.sized(len(s), msgpcode.Str8, msgpcode.Str16, msgpcode.Str32)
	}
	o.b = append(o.b, s...)
}

// isPlain reports whether a text is the same between quotes in JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// integer writes n in its shortest form.
func (o *output) integer(n int64) {
	switch {
	case o.json:
		o.b = strconv.AppendInt(o.b, n, 10)
	case n >= -32 && n <= math.MaxInt8:
		o.code(byte(n))
	case n > math.MaxUint32:
		o.b = binary.BigEndian.AppendUint64(append(o.b, msgpcode.Uint64), uint64(n))
	case n >= 0:
		o.sized(int(n), msgpcode.Uint8, msgpcode.Uint16, msgpcode.Uint32)
	case n >= math.MinInt8:
		o.b = append(o.b, msgpcode.Int8, byte(n))
	case n >= math.MinInt16:
		o.b = binary.BigEndian.AppendUint16(append(o.b, msgpcode.Int16), uint16(n))
	case n >= math.MinInt32:
		o.b = binary.BigEndian.AppendUint32(append(o.b, msgpcode.Int32), uint32(n))
	default:
		o.b = binary.BigEndian.AppendUint64(append(o.b, msgpcode.Int64), uint64(n))
	}
}

func (o *output) single(x float32) {
	if o.json {
		o.b = appendJSON(o.b, x)
		return
	}
	o.b = binary.BigEndian.AppendUint32(append(o.b, msgpcode.Float), math.Float32bits(x))
}

func (o *output) double(x float64) {
	o.b = binary.BigEndian.AppendUint64(append(o.b, msgpcode.Double), math.Float64bits(x))
}

// numbers writes a list of numbers.
func (o *output) numbers(x []float32) {
	o.list(len(x))
	n := len(o.b)
	o.b = slices.Grow(o.b, 5*len(x))[:n+5*len(x)]
	for i, v := range x {
		to := o.b[n+5*i : n+5*i+5]
		to[0] = msgpcode.Float
		binary.BigEndian.PutUint32(to[1:], math.Float32bits(v))
	}
}

func (o *output) blockLen(n int) { o.sized(n, msgpcode.Bin8, msgpcode.Bin16, msgpcode.Bin32) }

func (o *output) singles(x []float32) {
	if o.json {
		o.b = appendJSON(o.b, x)
		return
	}
	o.blockLen(4 * len(x))
	if littleEndian {
		o.b = append(o.b, memory(x)...)
		return
	}
	for _, v := range x {
		o.b = binary.LittleEndian.AppendUint32(o.b, math.Float32bits(v))
	}
}

func (o *output) indices(x []uint32) {
	o.blockLen(4 * len(x))
	for _, v := range x {
		o.b = binary.LittleEndian.AppendUint32(o.b, v)
	}
}

func (o *output) boolean(b bool) {
	switch {
	case o.json:
		o.b = strconv.AppendBool(o.b, b)
	case b:
		o.code(msgpcode.True)
	default:
		o.code(msgpcode.False)
	}
}

func (o *output) textField(k, v string) { o.key(k); o.text(v) }

func (o *output) intField(k string, v int64) { o.key(k); o.integer(v) }

func (o *output) singleField(k string, v float32) { o.key(k); o.single(v) }

// trueField appends a field that is left out where it is false.
func (o *output) trueField(k string, v bool) {
	if v {
		o.key(k)
		o.boolean(true)
	}
}

func (o *output) id(id event.ID) {
	if id.Str != "" {
		o.text(id.Str)
		return
	}
	o.integer(id.Num)
}
