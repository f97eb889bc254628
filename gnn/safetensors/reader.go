package safetensors

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// ErrDamaged is wrapped by the error for a file that is not as a [Stream] wrote it.
var ErrDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// Reader reads a file that a [Stream] wrote, tensor by tensor. It returns
// nothing whose checksum it has not verified. It is not safe for concurrent
// use.
type Reader struct {
	file    *File // without the tensors' Data
	in      io.ReaderAt
	places  map[string]place // counted from the beginning of the file
	covered int              // bytes covered by checksums: all before the tensor of checksums
	sums    []byte
	buffers [][]uint64      // one for each goroutine, a span long; of words for alignment
	unread  map[string]bool // tensors that were not read
}

// NewReader reads the header of a file of the given size in bytes. It returns
// an error that wraps [ErrDamaged] when it is not a Stream's, and r's own error
// when r fails.
func NewReader(r io.ReaderAt, size int64) (*Reader, error) {
	if size < 8 || size > math.MaxInt {
		return nil, damaged("%d bytes, want at least 8", size)
	}
	begin := make([]byte, 8)
	if err := readAt(r, begin, 0); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(begin)
	if length > maxHeader || int64(length) > size-8 || length%8 != 0 {
		return nil, damaged("header of %d bytes in a file of %d", length, size)
	}
	header := make([]byte, length)
	if err := readAt(r, header, 8); err != nil {
		return nil, err
	}
	data := 8 + int(length)
	f, places, err := parse(header, int(size)-data)
	if err != nil {
		return nil, damaged("%v", err)
	}
	d := &Reader{file: f, in: r, places: make(map[string]place, len(places)), unread: make(map[string]bool, len(places))}
	for _, p := range places {
		p.begin, p.end = p.begin+data, p.end+data
		if p.begin%f.Tensors[p.name].DType.size() != 0 {
			return nil, damaged("tensor %q is not aligned", p.name)
		}
		d.places[p.name] = p
		d.unread[p.name] = true
	}
	delete(d.unread, checksums)
	return d, d.loadSums(data)
}

// loadSums reads the checksums and verifies those of the spans that contain the
// first header bytes of the file.
func (d *Reader) loadSums(header int) error {
	p, ok := d.places[checksums]
	if !ok {
		return damaged("no checksums")
	}
	t := d.file.Tensors[checksums]
	spans := (p.begin + spanBytes - 1) / spanBytes
	if t.DType != u8 || !slices.Equal(t.Shape, []int{spans, 4}) {
		return damaged("checksums %s %v after %d bytes, want %s %v", t.DType, t.Shape, p.begin, u8, []int{spans, 4})
	}
	for name, other := range d.places {
		if other.begin >= p.end && name != checksums && other.end > other.begin {
			return damaged("tensor %q follows the checksums", name)
		}
	}
	d.covered = p.begin
	d.sums = make([]byte, p.end-p.begin)
	if err := readAt(d.in, d.sums, int64(p.begin)); err != nil {
		return err
	}
	return d.spans(0, (header+spanBytes-1)/spanBytes, func(buffer, i int) error {
		_, err := d.span(buffer, i)
		return err
	})
}

// Metadata returns the file's strings. The map is the reader's own and must not
// be modified.
func (d *Reader) Metadata() map[string]string { return d.file.Metadata }

// Len is the length of the tensor's first dimension; 0 if there is no such
// tensor or it is a scalar.
func (d *Reader) Len(name string) int {
	if shape := d.file.Tensors[name].Shape; len(shape) > 0 {
		return shape[0]
	}
	return 0
}

// find returns where the tensor of the given name, type and shape is, or an error that wraps [ErrDamaged] if there is none.
// If there is, all of its bytes are in the file, so memory may be taken for it.
func find[T Element](d *Reader, name string, shape []int) (place, error) {
	t, ok := d.file.Tensors[name]
	if !ok {
		return place{}, damaged("no tensor %q", name)
	}
	if dtype := dtypeOf[T](); t.DType != dtype || !slices.Equal(t.Shape, shape) {
		return place{}, damaged("tensor %q is %s %v, want %s %v", name, t.DType, t.Shape, dtype, shape)
	}
	return d.places[name], nil
}

// Read returns a tensor's values. It returns an error that wraps [ErrDamaged]
// when there is no tensor of the given name, type and shape or a checksum is
// wrong, and the file's error when that cannot be read.
func Read[T Element](d *Reader, name string, shape ...int) ([]T, error) {
	p, err := find[T](d, name, shape)
	if err != nil {
		return nil, err
	}
	values := make([]T, (p.end-p.begin)/int(unsafe.Sizeof(T(0))))
	return values, each(d, name, func(at int, part []T) error {
		copy(values[at:], part)
		return nil
	}, shape...)
}

// each calls visit with a tensor's values in parts; at is the index of a part's
// first value. Several goroutines call it at once, with parts that do not
// overlap; the values are valid until it returns. each stops at an error of
// visit and returns it. Its other errors are those of [Read].
func each[T Element](d *Reader, name string, visit func(at int, values []T) error, shape ...int) error {
	p, err := find[T](d, name, shape)
	if err != nil {
		return err
	}
	delete(d.unread, name)
	if p.begin == p.end {
		return nil
	}
	size := int(unsafe.Sizeof(T(0)))
	return d.spans(p.begin/spanBytes, (p.end-1)/spanBytes+1, func(buffer, i int) error {
		b, err := d.span(buffer, i)
		if err != nil {
			return err
		}
		begin, end := max(p.begin, i*spanBytes), min(p.end, i*spanBytes+len(b))
		b = b[begin-i*spanBytes : end-i*spanBytes]
		swapBytes[T](b)
		return visit((begin-p.begin)/size, unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/size))
	})
}

// ReadRows reads a tensor of n rows, each of the given shape, into the rows of
// an empty table: it calls Grow(n), and writes to From(i), the rows from i on that
// are stored together. Unless check is nil, it is called with each part before
// the part is written, by several goroutines at once. The errors are those of
// [Read] and check.
func ReadRows[T Element](d *Reader, name string, into interface {
	Grow(n int)
	From(i int32) []T
}, check func([]T) error, n int, shape ...int,
) error {
	width := 1
	for _, dim := range shape {
		width *= dim
	}
	shape = append([]int{n}, shape...)
	if _, err := find[T](d, name, shape); err != nil {
		return err
	}
	into.Grow(n)
	return each(d, name, func(at int, values []T) error {
		if check != nil {
			if err := check(values); err != nil {
				return err
			}
		}
		for len(values) > 0 {
			some := copy(into.From(int32(at / width))[at%width:], values)
			values, at = values[some:], at+some
		}
		return nil
	}, shape...)
}

// Under returns a reader of the tensors whose names begin with the prefix, which
// it removes from the names, and removes these tensors from d. The two readers
// must not be used concurrently.
func (d *Reader) Under(prefix string) *Reader {
	under := *d
	under.file = &File{Metadata: d.file.Metadata, Tensors: make(map[string]Tensor)}
	under.places, under.unread = make(map[string]place), make(map[string]bool)
	for name, t := range d.file.Tensors {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		under.file.Tensors[rest], under.places[rest], under.unread[rest] = t, d.places[name], true
		delete(d.file.Tensors, name)
		delete(d.places, name)
		delete(d.unread, name)
	}
	under.buffers = nil
	return &under
}

// Done returns an error that wraps [ErrDamaged] if a tensor of the file was never
// read.
func (d *Reader) Done() error {
	if rest := slices.Sorted(maps.Keys(d.unread)); len(rest) > 0 {
		return damaged("tensor %q is not known", rest[0])
	}
	return nil
}

// spans calls do for the spans from ≤ i < to on several goroutines, with the
// number of the buffer that is each goroutine's own, and returns the first
// error in the order of the buffers.
func (d *Reader) spans(from, to int, do func(buffer, i int) error) error {
	workers := min(runtime.GOMAXPROCS(0), to-from)
	d.buffers = append(d.buffers, make([][]uint64, max(workers-len(d.buffers), 0))...)
	var (
		next   atomic.Int64
		failed atomic.Bool
		errs   = make([]error, workers)
		others sync.WaitGroup
	)
	work := func(buffer int) {
		for !failed.Load() {
			i := from + int(next.Add(1)) - 1
			if i >= to {
				return
			}
			if err := do(buffer, i); err != nil {
				errs[buffer] = err
				failed.Store(true)
			}
		}
	}
	for buffer := 1; buffer < workers; buffer++ {
		others.Go(func() { work(buffer) })
	}
	work(0)
	others.Wait()
	return cmp.Or(errs...)
}

// span reads span i into a buffer and verifies its checksum. The bytes are
// valid until the next call with that buffer and may be written to.
func (d *Reader) span(buffer, i int) ([]byte, error) {
	if d.buffers[buffer] == nil {
		d.buffers[buffer] = make([]uint64, (min(spanBytes, d.covered)+7)/8)
	}
	words := d.buffers[buffer]
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))[:min(spanBytes, d.covered-i*spanBytes)]
	if err := readAt(d.in, b, int64(i)*spanBytes); err != nil {
		return nil, err
	}
	if got, want := crc32.Checksum(b, castagnoli), binary.LittleEndian.Uint32(d.sums[4*i:]); got != want {
		return nil, damaged("bytes %d to %d have the checksum %08x, want %08x", i*spanBytes, i*spanBytes+len(b), got, want)
	}
	return b, nil
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return damaged("it ends at byte %d", at+int64(n))
	}
	return err
}

// swapBytes converts between little-endian, the byte order of files, and the
// machine's: on big-endian machines it reverses the bytes of each element.
func swapBytes[T Element](b []byte) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return
	}
	size := int(unsafe.Sizeof(T(0)))
	for ; len(b) >= size; b = b[size:] {
		slices.Reverse(b[:size])
	}
}
