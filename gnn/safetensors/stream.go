package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"unsafe"
)

// checksums is the last tensor of a [Stream]: k×4 bytes, the CRC-32C,
// little-endian, of each span of what stands before it, the header too. The
// last span may be shorter.
const checksums = "checksums"

// span is how many bytes a checksum stands for.
const span = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Part is a tensor of a [Stream], whose bytes are made when they are read.
type Part struct {
	Name  string
	DType DType
	Shape []int
	// Next appends the tensor's next bytes to b, as many as are easily made at
	// once. It is called as long as there are fewer than the shape asks for.
	Next func(b []byte) []byte
}

// NewPart returns the part of elements of type T that next makes.
func NewPart[T Element](name string, next func(b []byte) []byte, shape ...int) Part {
	return Part{Name: name, DType: dtypeOf[T](), Shape: shape, Next: next}
}

// PartOf returns the part of the given values and shape. The values may not
// change before they were read. It panics when the shape asks for another
// number of values.
func PartOf[T Element](name string, values []T, shape ...int) Part {
	t := Tensor{DType: dtypeOf[T](), Shape: shape}
	if n, err := t.bytes(); err != nil || n != len(values)*t.DType.size() {
		panic(fmt.Sprintf("safetensors: %d values for shape %v", len(values), shape))
	}
	return NewPart[T](name, func(b []byte) []byte {
		n := min(len(values), piece/t.DType.size())
		b = Append(b, values[:n]...)
		values = values[n:]
		return b
	}, shape...)
}

// Append appends values as a tensor holds them.
func Append[T Element](b []byte, values ...T) []byte {
	at := len(b)
	b = append(b, bytesOf(values)...)
	turn[T](b[at:])
	return b
}

// bytesOf returns the memory of values.
func bytesOf[T Element](values []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(T(0))))
}

// Stream is the bytes of a safetensors file that are made as they are read,
// with checksums at the end. The last tensor stands for them; its name,
// "checksums", is taken.
type Stream struct {
	parts  []Part // the first is being read
	left   int    // bytes to come of it
	length int64

	made []byte // and not yet read,
	room []byte // in this
	sums []byte
	sum  uint32 // of the span so far
	in   int    // bytes of it
}

// piece is about how many bytes a Stream makes at once at most.
const piece = 1 << 16

// NewStream returns the stream of the given metadata and parts. The tensors
// stand in the order of their types, as in [File.Encode], and those of one type
// in the order of the parts. It returns an error when a name stands twice or is
// taken, a type is unknown, a string is not UTF-8, or the header gets longer
// than [MaxHeader].
func NewStream(metadata map[string]string, parts []Part) (*Stream, error) {
	parts = slices.SortedStableFunc(slices.Values(parts), func(a, b Part) int {
		return slices.Index(dtypes, a.DType) - slices.Index(dtypes, b.DType)
	})
	var names []string
	tensors := map[string]Tensor{}
	for _, p := range parts {
		names = append(names, p.Name)
		tensors[p.Name] = Tensor{DType: p.DType, Shape: p.Shape}
	}
	names = append(names, checksums)
	tensors[checksums] = Tensor{DType: U8, Shape: []int{0, 4}}
	if len(tensors) != len(names) {
		return nil, errors.New("safetensors: two tensors have the same name")
	}
	s := &Stream{parts: parts}
	for {
		header, length, err := encodeHeader(metadata, names, tensors)
		if err != nil {
			return nil, fmt.Errorf("safetensors: %w", err)
		}
		s.length = int64(len(header)) + int64(length)
		k := tensors[checksums].Shape[0]
		if spans := (s.length - int64(4*k) + span - 1) / span; int64(k) < spans {
			// A longer number makes the header longer, if at all.
			tensors[checksums] = Tensor{DType: U8, Shape: []int{int(spans), 4}}
			continue
		}
		s.made = header
		break
	}
	s.cover(s.made)
	s.enter()
	return s, nil
}

// Len is the length of the stream from its beginning.
func (s *Stream) Len() int64 { return s.length }

// Read fills p, except at the end. Bytes are not made long before they are
// read.
func (s *Stream) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(s.made) == 0 && !s.more(len(p)-n) {
			if n == 0 {
				return 0, io.EOF
			}
			break
		}
		c := copy(p[n:], s.made)
		s.made = s.made[c:]
		n += c
	}
	return n, nil
}

// enter begins with the first part that has any bytes.
func (s *Stream) enter() {
	for ; len(s.parts) > 0; s.parts = s.parts[1:] {
		t := Tensor{DType: s.parts[0].DType, Shape: s.parts[0].Shape}
		if s.left, _ = t.bytes(); s.left > 0 {
			return
		}
	}
}

// more makes the next bytes, as many as are wanted or a piece, and reports
// whether there are any.
func (s *Stream) more(want int) bool {
	b := s.room[:0]
	for len(b) < min(want, piece) && len(s.parts) > 0 {
		before := len(b)
		b = s.parts[0].Next(b)
		s.left -= len(b) - before
		if s.left < 0 {
			panic(fmt.Sprintf("safetensors: tensor %q is longer than its shape %v", s.parts[0].Name, s.parts[0].Shape))
		}
		if s.left == 0 {
			s.parts = s.parts[1:]
			s.enter()
		}
	}
	s.cover(b)
	if len(s.parts) == 0 {
		if s.in > 0 {
			s.seal()
		}
		b = append(b, s.sums...)
		s.sums = nil
	}
	s.room, s.made = b, b
	return len(b) > 0
}

// cover adds bytes to the checksums.
func (s *Stream) cover(b []byte) {
	for len(b) > 0 {
		n := min(len(b), span-s.in)
		s.sum = crc32.Update(s.sum, castagnoli, b[:n])
		s.in += n
		if s.in == span {
			s.seal()
		}
		b = b[n:]
	}
}

func (s *Stream) seal() {
	s.sums = binary.LittleEndian.AppendUint32(s.sums, s.sum)
	s.sum, s.in = 0, 0
}
