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

// checksums is the last tensor of a [Stream]: k×4 bytes, the CRC-32C
// (little-endian) of each span of the bytes before it, the header included.
// The last span may be shorter.
const checksums = "checksums"

// spanBytes is the length that one checksum covers: long enough that checksums
// are a 262144th of the file, short enough to be read by goroutines in
// parallel.
const spanBytes = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Part is a tensor of a [Stream], whose bytes are produced as they are read.
type Part struct {
	Name  string
	DType DType
	Shape []int
	// Next appends the tensor's next bytes to b, as many as is convenient. It
	// is called until there are as many as the shape asks for.
	Next func(b []byte) []byte
}

// NewPart returns a part with elements of type T that next produces.
func NewPart[T Element](name string, next func(b []byte) []byte, shape ...int) Part {
	return Part{Name: name, DType: dtypeOf[T](), Shape: shape, Next: next}
}

// PartOf returns a part of the given values and shape. The values may not
// change before they are read. It panics when the shape has another number of
// elements.
func PartOf[T Element](name string, values []T, shape ...int) Part {
	t := tensorOf(values, shape)
	return NewPart[T](name, func(b []byte) []byte {
		n := min(len(values), pieceBytes/t.DType.size())
		b = Append(b, values[:n]...)
		values = values[n:]
		return b
	}, shape...)
}

// Append appends values to b as a tensor holds them.
func Append[T Element](b []byte, values ...T) []byte {
	at := len(b)
	b = append(b, bytesOf(values)...)
	swapBytes[T](b[at:])
	return b
}

// Fill sets values from bytes that [Append] wrote. It panics if there are fewer.
func Fill[T Element](values []T, b []byte) {
	own := bytesOf(values)
	copy(own, b[:len(own)])
	swapBytes[T](own)
}

func bytesOf[T Element](values []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(T(0))))
}

// Stream produces a safetensors file as it is read, with checksums at the end.
// The name of the tensor that holds them, "checksums", is reserved.
type Stream struct {
	parts  []Part // not finished; the first is being read
	left   int    // bytes of the first part not produced yet
	length int64  // of the file

	ready   []byte // bytes produced and not read yet, part of storage or the header
	storage []byte
	sums    []byte // of the spans that are complete
	sum     uint32 // of the span in progress
	inSpan  int    // bytes in it
}

// pieceBytes is about how many bytes a Stream produces at a time.
const pieceBytes = 1 << 16

// NewStream returns the stream of the given metadata and parts. Tensors are
// stored in the order of their types, as in [File.Encode], and those of one
// type in the order of the parts. It returns an error when a name occurs twice
// or is reserved, a type is unknown, a string is not UTF-8, or the header is
// too long.
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
	tensors[checksums] = Tensor{DType: u8, Shape: []int{0, 4}}
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
		if spans := (s.length - int64(4*k) + spanBytes - 1) / spanBytes; int64(k) < spans {
			// The header grows with the digits of the length, if at all: try again.
			tensors[checksums] = Tensor{DType: u8, Shape: []int{int(spans), 4}}
			continue
		}
		s.ready = header
		break
	}
	s.checksum(s.ready)
	s.nextPart()
	return s, nil
}

// Len is the length in bytes of the whole stream.
func (s *Stream) Len() int64 { return s.length }

// Read fills p, except at the end. Bytes are produced shortly before they are read.
func (s *Stream) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(s.ready) == 0 && !s.produce(len(p)-n) {
			if n == 0 {
				return 0, io.EOF
			}
			break
		}
		c := copy(p[n:], s.ready)
		s.ready = s.ready[c:]
		n += c
	}
	return n, nil
}

// nextPart skips parts without bytes.
func (s *Stream) nextPart() {
	for ; len(s.parts) > 0; s.parts = s.parts[1:] {
		t := Tensor{DType: s.parts[0].DType, Shape: s.parts[0].Shape}
		if s.left, _ = t.bytes(); s.left > 0 {
			return
		}
	}
}

// produce makes ready the next bytes, as many as are wanted or a piece, and
// reports whether there are any.
func (s *Stream) produce(want int) bool {
	b := s.storage[:0]
	for len(b) < min(want, pieceBytes) && len(s.parts) > 0 {
		before := len(b)
		b = s.parts[0].Next(b)
		s.left -= len(b) - before
		if s.left < 0 {
			panic(fmt.Sprintf("safetensors: tensor %q is longer than its shape %v", s.parts[0].Name, s.parts[0].Shape))
		}
		if s.left == 0 {
			s.parts = s.parts[1:]
			s.nextPart()
		}
	}
	s.checksum(b)
	if len(s.parts) == 0 {
		if s.inSpan > 0 {
			s.endSpan()
		}
		b = append(b, s.sums...)
		s.sums = nil
	}
	s.storage, s.ready = b, b
	return len(b) > 0
}

func (s *Stream) checksum(b []byte) {
	for len(b) > 0 {
		n := min(len(b), spanBytes-s.inSpan)
		s.sum = crc32.Update(s.sum, castagnoli, b[:n])
		s.inSpan += n
		if s.inSpan == spanBytes {
			s.endSpan()
		}
		b = b[n:]
	}
}

func (s *Stream) endSpan() {
	s.sums = binary.LittleEndian.AppendUint32(s.sums, s.sum)
	s.sum, s.inSpan = 0, 0
}
