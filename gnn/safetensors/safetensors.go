// Package safetensors reads and writes safetensors files
// (https://github.com/huggingface/safetensors, "Format"): named arrays and
// string metadata, which Python's safetensors package opens too.
//
// A file is the length of the header (8 bytes, little-endian), the header (a
// JSON object that names each tensor's type, shape and place, padded with
// spaces), and the tensors' bytes. Every length is checked against the file
// before memory is taken for it, so a hostile file costs no more than a small
// multiple of its size.
//
// A [File] is held in memory. What is too large for that is written by a
// [Stream], which adds checksums, and read by a [Reader].
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxHeader is the length in bytes above which a header is refused, by this
// package as by the format's first implementation.
const MaxHeader = 100_000_000

// The longest name and the most dimensions of a tensor that are read, so that an
// error that tells of one is a line that can be read too.
const (
	maxName = 512
	maxDims = 16
)

// DType is a tensor's element type as the format names it.
type DType string

// The element types this package reads and writes; a file with another one is
// refused.
const (
	U8   DType = "U8"
	BF16 DType = "BF16" // the upper half of an F32
	I32  DType = "I32"
	F32  DType = "F32"
	F64  DType = "F64"
	I64  DType = "I64"
)

// dtypes lists the element types in the order in which the tensors of a file
// are stored, the reverse of the first implementation's enumeration. Sizes
// fall, so every tensor is aligned to its element.
var dtypes = []DType{I64, F64, F32, I32, BF16, U8}

// size is the number of bytes of an element, 0 for an unknown type.
func (d DType) size() int {
	switch d {
	case U8:
		return 1
	case BF16:
		return 2
	case I32, F32:
		return 4
	case I64, F64:
		return 8
	}
	return 0
}

// Tensor is an array: its elements in row-major order, little-endian, in Data.
// An empty Shape is a scalar, of one element.
type Tensor struct {
	DType DType
	Shape []int
	Data  []byte
}

// bytes returns the length that Data must have for the type and shape.
func (t Tensor) bytes() (int, error) {
	size := t.DType.size()
	if size == 0 {
		return 0, fmt.Errorf("element type %q is not one of %v", t.DType, dtypes)
	}
	n := uint64(size)
	for _, dim := range t.Shape {
		if dim < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", t.Shape)
		}
		var high uint64
		if high, n = bits.Mul64(n, uint64(dim)); high != 0 || n > math.MaxInt {
			return 0, fmt.Errorf("shape %v is too large", t.Shape)
		}
	}
	return int(n), nil
}

// Element is a Go type that a tensor's elements may have: uint16 is the bits of
// a BF16.
type Element interface {
	uint8 | uint16 | int32 | int64 | float32 | float64
}

// dtypeOf returns the element type that stands for T.
func dtypeOf[T Element]() DType {
	switch any(T(0)).(type) {
	case uint8:
		return U8
	case uint16:
		return BF16
	case int32:
		return I32
	case int64:
		return I64
	case float32:
		return F32
	default:
		return F64
	}
}

// Of returns a tensor of the given values and shape. It panics when the shape
// asks for another number of values.
func Of[T Element](values []T, shape ...int) Tensor {
	t := Tensor{DType: dtypeOf[T](), Shape: slices.Clone(shape)}
	if n, err := t.bytes(); err != nil || n != len(values)*t.DType.size() {
		panic(fmt.Sprintf("safetensors: %d values for shape %v", len(values), shape))
	}
	t.Data = make([]byte, 0, len(values)*t.DType.size())
	t.Data, _ = binary.Append(t.Data, binary.LittleEndian, values) // fails for types without a size only
	return t
}

// Values returns a copy of the elements of t. It is an error when T is not
// their type, or Data not as long as the shape says.
func Values[T Element](t Tensor) ([]T, error) {
	if want := dtypeOf[T](); t.DType != want {
		return nil, fmt.Errorf("elements are %s, want %s", t.DType, want)
	}
	n, err := t.bytes()
	if err != nil {
		return nil, err
	}
	if n != len(t.Data) {
		return nil, fmt.Errorf("%d bytes, want %d for shape %v", len(t.Data), n, t.Shape)
	}
	values := make([]T, n/t.DType.size())
	if _, err := binary.Decode(t.Data, binary.LittleEndian, values); err != nil {
		return nil, err
	}
	return values, nil
}

// File is what a safetensors file holds.
type File struct {
	Metadata map[string]string
	Tensors  map[string]Tensor
}

// metadataKey is the one key of the header that names no tensor.
const metadataKey = "__metadata__"

// Decode reads a file. The tensors' Data are parts of b, not copies. It
// returns an error for whatever is not exactly a safetensors file: a header
// that is too long or is no JSON of the format's form, a key that stands
// twice, a name or a shape that is very long, an unknown element type, a shape
// that does not agree with the place, and places that overlap, leave gaps, or
// do not end where the file does.
func Decode(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes, want at least 8", len(b))
	}
	length := binary.LittleEndian.Uint64(b)
	if length > MaxHeader {
		return nil, fmt.Errorf("safetensors: header of %d bytes, want at most %d", length, MaxHeader)
	}
	if length > uint64(len(b)-8) {
		return nil, fmt.Errorf("safetensors: header of %d bytes in a file of %d", length, len(b))
	}
	header, data := b[8:8+length], b[8+length:]
	f, places, err := parseHeader(header)
	if err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}

	if err := f.arrange(places, len(data)); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	for _, p := range places {
		t := f.Tensors[p.name]
		t.Data = data[p.begin:p.end:p.end]
		f.Tensors[p.name] = t
	}
	return f, nil
}

// arrange sorts the places by where they stand. It is an error when they are
// not as long as the tensors' shapes say, overlap, leave gaps, or do not end
// where the data do, so many bytes from the first.
func (f *File) arrange(places []place, data int) error {
	slices.SortFunc(places, func(p, q place) int {
		// The first by end among equal begins: empty tensors come before the
		// one that fills the place.
		if p.begin != q.begin {
			return p.begin - q.begin
		}
		return p.end - q.end
	})
	at := 0
	for _, p := range places {
		if p.begin != at || p.end < p.begin || p.end > data {
			return fmt.Errorf("tensor %q stands at bytes %d to %d, want it to begin at %d and end by %d", p.name, p.begin, p.end, at, data)
		}
		t := f.Tensors[p.name]
		want, err := t.bytes()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", p.name, err)
		}
		if want != p.end-p.begin {
			return fmt.Errorf("tensor %q has %d bytes, want %d for %s %v", p.name, p.end-p.begin, want, t.DType, t.Shape)
		}
		at = p.end
	}
	if at != data {
		return fmt.Errorf("%d bytes after the last tensor", data-at)
	}
	return nil
}

// place is where in the data a tensor stands.
type place struct {
	name       string
	begin, end int
}

func parseHeader(header []byte) (*File, []place, error) {
	// Go's decoder replaces invalid UTF-8, which could make two names one.
	if !utf8.Valid(header) {
		return nil, nil, errors.New("not UTF-8")
	}
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("does not begin with {")
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	f := &File{Tensors: map[string]Tensor{}}
	var places []place
	err := object(dec, func(name string) error {
		if name == metadataKey {
			f.Metadata = map[string]string{}
			return object(dec, func(key string) (err error) {
				f.Metadata[key], err = text(dec)
				return err
			})
		}
		t, p, err := parseTensor(dec)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		p.name = name
		f.Tensors[name] = t
		places = append(places, p)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nil, errors.New("something follows the object")
	}
	return f, places, nil
}

func parseTensor(dec *json.Decoder) (t Tensor, p place, err error) {
	seen := 0
	err = object(dec, func(key string) error {
		seen++
		switch key {
		case "dtype":
			name, err := text(dec)
			t.DType = DType(name)
			return err
		case "shape":
			t.Shape, err = integers(dec)
			if err == nil && len(t.Shape) > maxDims {
				err = fmt.Errorf("shape of %d dimensions, at most %d are read", len(t.Shape), maxDims)
			}
			return err
		case "data_offsets":
			offsets, err := integers(dec)
			if err == nil && len(offsets) != 2 {
				err = fmt.Errorf("%d data_offsets, want 2", len(offsets))
			}
			if err == nil {
				p.begin, p.end = offsets[0], offsets[1]
			}
			return err
		}
		return fmt.Errorf("unknown key %q", key)
	})
	if err == nil && seen != 3 {
		err = errors.New("want dtype, shape and data_offsets")
	}
	return t, p, err
}

// object reads a JSON object; value is called to read the value of each key.
// A key that stands twice is an error.
func object(dec *json.Decoder, value func(key string) error) error {
	if err := delimiter(dec, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := text(dec)
		if err != nil {
			return err
		}
		if len(key) > maxName {
			return fmt.Errorf("a name of %d bytes, at most %d are read", len(key), maxName)
		}
		if seen[key] {
			return fmt.Errorf("key %q stands twice", key)
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	return delimiter(dec, '}')
}

func delimiter(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%s, want %v", shown(token), want)
	}
	return nil
}

// shown is a token on one line of bounded length.
func shown(token json.Token) string {
	return fmt.Sprintf("%.80q", fmt.Sprint(token))
}

func text(dec *json.Decoder) (string, error) {
	token, err := dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%s, want a string", shown(token))
	}
	return s, nil
}

func integers(dec *json.Decoder) ([]int, error) {
	if err := delimiter(dec, '['); err != nil {
		return nil, err
	}
	var list []int
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		number, ok := token.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s, want an integer", shown(token))
		}
		n, err := strconv.ParseUint(number.String(), 10, strconv.IntSize-1)
		if err != nil {
			return nil, fmt.Errorf("%s, want an integer from 0 to %d", shown(number), math.MaxInt)
		}
		list = append(list, int(n))
	}
	return list, delimiter(dec, ']')
}

// Encode returns the bytes of f. Equal files give equal bytes: metadata is
// sorted by key, tensors by element type (the largest first, so that each is
// aligned) and name. For one metadata key or none these are the bytes that the
// Python package writes. It returns an error when a tensor's Data is not as
// long as its shape says, a string is not UTF-8, or the header gets longer
// than [MaxHeader].
func (f *File) Encode() ([]byte, error) {
	names := slices.SortedFunc(maps.Keys(f.Tensors), func(a, b string) int {
		if d := slices.Index(dtypes, f.Tensors[a].DType) - slices.Index(dtypes, f.Tensors[b].DType); d != 0 {
			return d
		}
		return bytes.Compare([]byte(a), []byte(b))
	})

	for _, name := range names {
		t := f.Tensors[name]
		if n, err := t.bytes(); err == nil && n != len(t.Data) {
			return nil, fmt.Errorf("safetensors: tensor %q: %d bytes, want %d for %s %v", name, len(t.Data), n, t.DType, t.Shape)
		}
	}
	header, length, err := encodeHeader(f.Metadata, names, f.Tensors)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	out := slices.Grow(header, length)
	for _, name := range names {
		out = append(out, f.Tensors[name].Data...)
	}
	return out, nil
}

// encodeHeader returns what stands before the tensors, which follow in the
// order of the names, and how many bytes they are.
func encodeHeader(metadata map[string]string, names []string, tensors map[string]Tensor) (header []byte, length int, err error) {
	w := headerWriter{buf: make([]byte, 8)}
	w.raw("{")
	if len(metadata) > 0 {
		w.string(metadataKey)
		w.raw(":{")
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				w.raw(",")
			}
			w.string(key)
			w.raw(":")
			w.string(metadata[key])
		}
		w.raw("}")
	}
	at := 0
	for i, name := range names {
		t := tensors[name]
		n, err := t.bytes()
		if err == nil && name == metadataKey {
			err = errors.New("the name is reserved")
		}
		if err == nil && n > math.MaxInt-at {
			err = errors.New("the tensors are too large")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("tensor %q: %w", name, err)
		}
		if i > 0 || len(metadata) > 0 {
			w.raw(",")
		}
		w.string(name)
		w.raw(`:{"dtype":"` + string(t.DType) + `","shape":`)
		w.integers(t.Shape)
		w.raw(`,"data_offsets":`)
		w.integers([]int{at, at + n})
		w.raw("}")
		at += n
	}
	w.raw("}")
	if w.err != nil {
		return nil, 0, w.err
	}
	for len(w.buf)%8 != 0 {
		w.raw(" ")
	}
	if n := len(w.buf) - 8; n > MaxHeader {
		return nil, 0, fmt.Errorf("header of %d bytes, want at most %d", n, MaxHeader)
	}
	binary.LittleEndian.PutUint64(w.buf, uint64(len(w.buf)-8))
	return w.buf, at, nil
}

// headerWriter collects the header; err is the first error.
type headerWriter struct {
	buf []byte
	err error
}

func (w *headerWriter) raw(s string) { w.buf = append(w.buf, s...) }

func (w *headerWriter) string(s string) {
	if !utf8.ValidString(s) && w.err == nil {
		w.err = fmt.Errorf("%q is not UTF-8", s)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil && w.err == nil {
		w.err = err
	}
	w.buf = append(w.buf, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

func (w *headerWriter) integers(list []int) {
	w.raw("[")
	for i, n := range list {
		if i > 0 {
			w.raw(",")
		}
		w.buf = strconv.AppendInt(w.buf, int64(n), 10)
	}
	w.raw("]")
}
