package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/gvbll/gvbll/pipeline/event"
)

// output appends msgpack to a byte slice, or JSON.
type output struct {
	b    []byte
	to   *msgpack.Encoder // appends to b
	n    int              // keys of the map that is being written
	json bool             // fields, texts, integers, singles and booleans are in JSON
}

// spare is kept for the next who appends, since the encoder escapes to the heap.
var spare atomic.Pointer[output]

func appendTo(dst []byte, e Encoding) *output {
	o := spare.Swap(nil)
	if o == nil {
		o = new(output)
		o.to = msgpack.NewEncoder(o)
	}
	o.b, o.n, o.json = dst, 0, e == JSON
	return o
}

func (o *output) done() []byte {
	b := o.b
	o.b = nil
	spare.Store(o)
	return b
}

// Write implements [io.Writer] for the encoder. Neither it nor the encoder fails.
func (o *output) Write(p []byte) (int, error) { o.b = append(o.b, p...); return len(p), nil }

// WriteByte implements [io.ByteWriter].
func (o *output) WriteByte(c byte) error { o.b = append(o.b, c); return nil }

type mapping struct{ at, outer int }

func (o *output) begin() mapping {
	m := mapping{len(o.b), o.n}
	if o.b = append(o.b, msgpcode.FixedMapLow); o.json {
		o.b[m.at] = '{'
	}
	o.n = 0
	return m
}

func (o *output) end(m mapping) {
	switch {
	case o.json:
		o.b = append(o.b, '}')
	case o.n < 16:
		o.b[m.at] |= byte(o.n)
	default: // no more than fit 16 bits: see maxNamed
		o.b[m.at] = msgpcode.Map16
		o.b = slices.Insert(o.b, m.at+1, byte(o.n>>8), byte(o.n))
	}
	o.n = m.outer
}

func (o *output) key(name string) {
	if o.json && o.n > 0 {
		o.b = append(o.b, ',')
	}
	switch n := len(name); {
	case o.json:
		o.text(name)
		o.b = append(o.b, ':')
	case n < 32: // a third of a prediction's time by the encoder
		o.b = append(append(o.b, msgpcode.FixedStrLow|byte(n)), name...)
	default:
		o.text(name)
	}
	o.n++
}

func (o *output) text(s string) {
	switch {
	case !o.json:
		o.to.EncodeString(s)
	case isPlain(s):
		o.b = append(append(append(o.b, '"'), s...), '"')
	default:
		o.b = appendJSON(o.b, s)
	}
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
	if o.json {
		o.b = strconv.AppendInt(o.b, n, 10)
		return
	}
	o.to.EncodeInt(n)
}

func (o *output) single(x float32) {
	if o.json {
		o.b = appendJSON(o.b, x)
		return
	}
	o.to.EncodeFloat32(x)
}

// numbers writes them itself: by the encoder, one by one, those of 40 classes take three times as long as all else of a prediction.
func (o *output) numbers(x []float32) {
	o.to.EncodeArrayLen(len(x))
	o.b = slices.Grow(o.b, 5*len(x))
	for _, v := range x {
		o.b = binary.BigEndian.AppendUint32(append(o.b, msgpcode.Float), math.Float32bits(v))
	}
}

func (o *output) singles(x []float32) {
	if o.json {
		o.b = appendJSON(o.b, x)
		return
	}
	o.to.EncodeBytesLen(4 * len(x))
	if littleEndian {
		o.b = append(o.b, memory(x)...)
		return
	}
	for _, v := range x {
		o.b = binary.LittleEndian.AppendUint32(o.b, math.Float32bits(v))
	}
}

func (o *output) indices(x []uint32) {
	o.to.EncodeBytesLen(4 * len(x))
	for _, v := range x {
		o.b = binary.LittleEndian.AppendUint32(o.b, v)
	}
}

func (o *output) boolean(b bool) {
	if o.json {
		o.b = strconv.AppendBool(o.b, b)
		return
	}
	o.to.EncodeBool(b)
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
