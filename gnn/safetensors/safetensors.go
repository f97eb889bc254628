// Package safetensors reads and writes safetensors files
// (https://github.com/huggingface/safetensors, "Format"): named arrays and
// string metadata, which Python's safetensors package opens too.
//
// A file is the length of the header (8 bytes, little-endian); the header, a
// JSON object padded with spaces that maps each tensor's name to its type,
// shape and place; and the tensors' bytes, without gaps. Every length is
// checked against the file before memory is taken for it, so a hostile file
// costs no more than a small multiple of its size.
//
// A [File] is held in memory; model files are. Checkpoints are too large for that:
// a [Stream] writes them, producing bytes as they are read and adding checksums,
// and a [Reader] reads them. Both kinds are valid safetensors files.
//
// The goroutines of a Reader check and copy disjoint spans of the file, so they
// do not affect the values read. Only file.go opens files.
package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// DType is a tensor's element type as the format names it.
type DType string

// The element types that this package reads and writes; a file with another one
// is refused.
const (
	u8   DType = "U8"
	bf16 DType = "BF16" // the upper half of an F32
	i32  DType = "I32"
	F32  DType = "F32"
	f64  DType = "F64"
	i64  DType = "I64"
)

// dtypes lists the element types in the order in which a file's tensors are
// stored: the reverse of the reference implementation's enumeration. Sizes
// fall, so every tensor is aligned to its elements.
var dtypes = []DType{i64, f64, F32, i32, bf16, u8}

// size is the number of bytes of an element; 0 for an unknown type.
func (d DType) size() int {
	switch d {
	case u8:
		return 1
	case bf16:
		return 2
	case i32, F32:
		return 4
	case i64, f64:
		return 8
	}
	return 0
}

// Tensor is an array: its elements in row-major order, little-endian, in Data.
// An empty Shape is a scalar, one element.
type Tensor struct {
	DType DType
	Shape []int
	Data  []byte
}

// bytes returns the length that Data must have for type and shape.
func (t Tensor) bytes() (int, error) {
	size := t.DType.size()
	if size == 0 {
		return 0, fmt.Errorf("element type %q is not one of %v", t.DType, dtypes)
	}
	n, empty := uint64(size), false
	for _, dim := range t.Shape {
		if dim < 0 {
			return 0, fmt.Errorf("negative dimension in shape %v", t.Shape)
		}
		// With a dimension of 0 the others must still be lengths of something.
		var high uint64
		if high, n = bits.Mul64(n, uint64(max(dim, 1))); high != 0 || n > math.MaxInt {
			return 0, fmt.Errorf("shape %v is too large", t.Shape)
		}
		empty = empty || dim == 0
	}
	if empty {
		return 0, nil
	}
	return int(n), nil
}

// Element is a Go type that a tensor's elements may have. uint16 holds the bits
// of a BF16.
type Element interface {
	uint8 | uint16 | int32 | int64 | float32 | float64
}

func dtypeOf[T Element]() DType {
	switch any(T(0)).(type) {
	case uint8:
		return u8
	case uint16:
		return bf16
	case int32:
		return i32
	case int64:
		return i64
	case float32:
		return F32
	default:
		return f64
	}
}

// Of returns a tensor of the given values and shape. It panics when the shape
// has another number of elements.
func Of[T Element](values []T, shape ...int) Tensor {
	t := tensorOf(values, shape)
	t.Data = Append([]byte{}, values...)
	return t
}

func tensorOf[T Element](values []T, shape []int) Tensor {
	t := Tensor{DType: dtypeOf[T](), Shape: slices.Clone(shape)}
	if n, err := t.bytes(); err != nil || n != len(values)*t.DType.size() {
		panic(fmt.Sprintf("safetensors: %d values for shape %v", len(values), shape))
	}
	return t
}

// Values returns a copy of the elements of t. It is an error when T is not
// their type or Data is not as long as the shape says.
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
	Fill(values, t.Data)
	return values, nil
}

// File is the content of a safetensors file.
type File struct {
	Metadata map[string]string
	Tensors  map[string]Tensor
}

// Decode reads a file. The tensors' Data are parts of b, not copies. It returns
// an error for anything that is not exactly a safetensors file: a header that
// is too long or not JSON of the format's form, a key that occurs twice, a very
// long name or shape, an unknown element type, a shape that does not agree with
// the place, and places that overlap, leave gaps, or do not end where the file
// does.
func Decode(b []byte) (*File, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("safetensors: %d bytes, want at least 8", len(b))
	}
	length := binary.LittleEndian.Uint64(b)
	if length > maxHeader {
		return nil, fmt.Errorf("safetensors: header of %d bytes, want at most %d", length, maxHeader)
	}
	if length > uint64(len(b)-8) {
		return nil, fmt.Errorf("safetensors: header of %d bytes in a file of %d", length, len(b))
	}
	header, data := b[8:8+length], b[8+length:]
	f, places, err := parse(header, len(data))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	for _, p := range places {
		t := f.Tensors[p.name]
		t.Data = data[p.begin:p.end:p.end]
		f.Tensors[p.name] = t
	}
	return f, nil
}

// Encode returns the bytes of f. Equal files give equal bytes: metadata are
// sorted by key, tensors by element type (the largest first, so that each is
// aligned) and name. With at most one metadata key these are the bytes that the
// Python package writes. It returns an error when a tensor's Data is not as
// long as its shape says, a string is not UTF-8, or the header is longer than
// 100 MB.
func (f *File) Encode() ([]byte, error) {
	names := slices.SortedFunc(maps.Keys(f.Tensors), func(a, b string) int {
		return cmp.Or(slices.Index(dtypes, f.Tensors[a].DType)-slices.Index(dtypes, f.Tensors[b].DType), strings.Compare(a, b))
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

// parse returns the file of a header, without the tensors' Data, and their places by where they begin. It is an error when
// these do not have the lengths of the shapes, overlap, leave gaps, or do not end after the given number of bytes of data.
func parse(header []byte, data int) (*File, []place, error) {
	f, places, err := parseHeader(header)
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	slices.SortFunc(places, func(p, q place) int {
		// Empty tensors come before the one that fills the place.
		return cmp.Or(p.begin-q.begin, p.end-q.end)
	})
	at := 0
	for _, p := range places {
		if p.begin != at || p.end < p.begin || p.end > data {
			return nil, nil, fmt.Errorf("tensor %q is at bytes %d to %d, want it to begin at %d and end by %d", p.name,
				p.begin, p.end, at, data)
		}
		t := f.Tensors[p.name]
		want, err := t.bytes()
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", p.name, err)
		}
		if want != p.end-p.begin {
			return nil, nil, fmt.Errorf("tensor %q has %d bytes, want %d for %s %v", p.name, p.end-p.begin, want, t.DType, t.Shape)
		}
		at = p.end
	}
	if at != data {
		return nil, nil, fmt.Errorf("%d bytes after the last tensor", data-at)
	}
	return f, places, nil
}
