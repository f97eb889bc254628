package safetensors

import (
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

// ErrDamaged is what an error wraps when a file is not as a [Stream] wrote it.
var ErrDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// Reader reads a file that a [Stream] wrote, tensor by tensor. Nothing comes
// out of it whose checksum was not found right. It may not be used by two
// goroutines at once.
type Reader struct {
	file    *File // without the tensors' data
	in      io.ReaderAt
	places  map[string]place // from the beginning of the file
	covered int              // bytes that have a checksum
	sums    []byte
	rooms   [][]uint64 // one a goroutine, as long as a span
	rest    map[string]bool
}

// NewReader reads the header of a file of the given size in bytes. It returns
// an error that wraps [ErrDamaged] when it is not a Stream's, and r's own error
// when that cannot be read.
func NewReader(r io.ReaderAt, size int64) (*Reader, error) {
	if size < 8 || size > math.MaxInt {
		return nil, damaged("%d bytes, want at least 8", size)
	}
	begin := make([]byte, 8)
	if err := readAt(r, begin, 0); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(begin)
	if length > MaxHeader || int64(length) > size-8 || length%8 != 0 {
		return nil, damaged("header of %d bytes in a file of %d", length, size)
	}
	header := make([]byte, length)
	if err := readAt(r, header, 8); err != nil {
		return nil, err
	}
	f, places, err := parseHeader(header)
	if err != nil {
		return nil, damaged("header: %v", err)
	}
	data := 8 + int(length)
	if err := f.arrange(places, int(size)-data); err != nil {
		return nil, damaged("%v", err)
	}
	d := &Reader{file: f, in: r, places: make(map[string]place, len(places)), rest: make(map[string]bool, len(places))}
	for _, p := range places {
		p.begin, p.end = p.begin+data, p.end+data
		if p.begin%f.Tensors[p.name].DType.size() != 0 {
			return nil, damaged("tensor %q is not aligned", p.name)
		}
		d.places[p.name] = p
		d.rest[p.name] = true
	}
	delete(d.rest, checksums)
	return d, d.loadSums(data)
}

// loadSums reads the checksums, and holds the header, so many bytes, to them.
func (d *Reader) loadSums(header int) error {
	p, ok := d.places[checksums]
	if !ok {
		return damaged("no checksums")
	}
	t := d.file.Tensors[checksums]
	spans := (p.begin + span - 1) / span
	if t.DType != U8 || !slices.Equal(t.Shape, []int{spans, 4}) {
		return damaged("checksums %s %v after %d bytes, want %s %v", t.DType, t.Shape, p.begin, U8, []int{spans, 4})
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
	for i := 0; i*span < header; i++ {
		if _, err := d.span(0, i); err != nil {
			return err
		}
	}
	return nil
}

// Metadata returns the file's strings. The map is the reader's own.
func (d *Reader) Metadata() map[string]string { return d.file.Metadata }

// Len is the length of the tensor's first dimension, 0 if there is no such
// tensor or it has none.
func (d *Reader) Len(name string) int {
	if shape := d.file.Tensors[name].Shape; len(shape) > 0 {
		return shape[0]
	}
	return 0
}

// Expect returns an error that wraps [ErrDamaged] when there is no tensor of the
// given name, type and shape. If there is, all of its bytes are in the file.
func Expect[T Element](d *Reader, name string, shape ...int) error {
	_, err := find[T](d, name, shape)
	return err
}

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

// Read returns a tensor's values. Its errors are those of [Expect] and [Each].
func Read[T Element](d *Reader, name string, shape ...int) ([]T, error) {
	p, err := find[T](d, name, shape)
	if err != nil {
		return nil, err
	}
	values := make([]T, (p.end-p.begin)/int(unsafe.Sizeof(T(0))))
	return values, Each(d, name, func(at int, part []T) error {
		copy(values[at:], part)
		return nil
	}, shape...)
}

// Each gives take a tensor's values in parts, at being the number of a part's
// first. Several goroutines call it at once, and none of the parts overlap; the
// values hold until it returns. Each stops at an error that take returns, and
// returns it. Its errors are those of [Expect], one that wraps [ErrDamaged] when
// a checksum is not right, and that of the file.
func Each[T Element](d *Reader, name string, take func(at int, values []T) error, shape ...int) error {
	p, err := find[T](d, name, shape)
	if err != nil {
		return err
	}
	delete(d.rest, name)
	if p.begin == p.end {
		return nil
	}
	size := int(unsafe.Sizeof(T(0)))
	return d.spans(p.begin/span, (p.end-1)/span+1, func(room, i int) error {
		b, err := d.span(room, i)
		if err != nil {
			return err
		}
		begin, end := max(p.begin, i*span), min(p.end, i*span+len(b))
		b = b[begin-i*span : end-i*span]
		turn[T](b)
		return take((begin-p.begin)/size, unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/size))
	})
}

// ReadRows reads a tensor of n rows, each of the given shape, into the rows of a
// table that has none: it grows by n, and From returns those from i on, as many
// as stand together. Each part goes through check before, unless that is nil. Its errors are those
// of [Expect] and [Each], with check's for take's.
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
	if err := Expect[T](d, name, shape...); err != nil {
		return err
	}
	into.Grow(n)
	return Each(d, name, func(at int, values []T) error {
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

// Under returns a reader of the tensors whose names begin with the prefix, by the
// rest of their names. They are no longer d's. The two readers may not be used by
// two goroutines at once.
func (d *Reader) Under(prefix string) *Reader {
	under := *d
	under.file = &File{Metadata: d.file.Metadata, Tensors: make(map[string]Tensor)}
	under.places, under.rest = make(map[string]place), make(map[string]bool)
	for name, t := range d.file.Tensors {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		under.file.Tensors[rest], under.places[rest], under.rest[rest] = t, d.places[name], true
		delete(d.file.Tensors, name)
		delete(d.places, name)
		delete(d.rest, name)
	}
	under.rooms = nil
	return &under
}

// Done returns an error that wraps [ErrDamaged] when there is a tensor that was
// not read.
func (d *Reader) Done() error {
	if rest := slices.Sorted(maps.Keys(d.rest)); len(rest) > 0 {
		return damaged("tensor %q is not known", rest[0])
	}
	return nil
}

// spans calls do for each of some spans, with the number of the room that is
// the caller's own, and returns an error of those calls.
func (d *Reader) spans(from, to int, do func(room, i int) error) error {
	workers := min(runtime.GOMAXPROCS(0), to-from)
	for len(d.rooms) < workers {
		d.rooms = append(d.rooms, nil)
	}
	var (
		next   atomic.Int64
		failed atomic.Bool
		errs   = make([]error, workers)
		others sync.WaitGroup
	)
	work := func(room int) {
		for !failed.Load() {
			i := from + int(next.Add(1)) - 1
			if i >= to {
				return
			}
			if err := do(room, i); err != nil {
				errs[room] = err
				failed.Store(true)
			}
		}
	}
	for room := 1; room < workers; room++ {
		others.Go(func() { work(room) })
	}
	work(0)
	others.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// span reads a span and holds it to its checksum. What it returns is the room's
// and holds until its next call; it may be written to.
func (d *Reader) span(room, i int) ([]byte, error) {
	for len(d.rooms) <= room {
		d.rooms = append(d.rooms, nil)
	}
	if d.rooms[room] == nil {
		d.rooms[room] = make([]uint64, (min(span, d.covered)+7)/8)
	}
	words := d.rooms[room]
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))[:min(span, d.covered-i*span)]
	if err := readAt(d.in, b, int64(i)*span); err != nil {
		return nil, err
	}
	if got, want := crc32.Checksum(b, castagnoli), binary.LittleEndian.Uint32(d.sums[4*i:]); got != want {
		return nil, damaged("bytes %d to %d have the checksum %08x, want %08x", i*span, i*span+len(b), got, want)
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

// turn reverses the bytes of each element on machines that keep numbers the
// other way round than files.
func turn[T Element](b []byte) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return
	}
	size := int(unsafe.Sizeof(T(0)))
	for ; len(b) >= size; b = b[size:] {
		slices.Reverse(b[:size])
	}
}
