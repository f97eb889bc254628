package dataset

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"

	"github.com/sbinet/npyio/npy"
)

// array is a member of an .npz archive, an .npy file, read once from its first
// number to its last.
type array struct {
	shape   []int
	fortran bool // a matrix is stored column after column

	name   string
	member io.Closer
	body   *bufio.Reader
	npy    *npy.Reader
	decode func(*npy.Reader, []float64) error
	left   int       // numbers not decoded yet
	ready  []float64 // numbers decoded and not returned yet, in buf
	buf    [4096]float64
}

// openArray opens a member. It is an error when the member's header does not agree
// with the archive's directory. Both are untrusted, so no memory is allocated for
// the numbers before they are read.
func openArray(name string, f *zip.File) (*array, error) {
	member, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a := &array{name: name, member: member, body: bufio.NewReader(member)}
	if err := a.header(f.UncompressedSize64); err != nil {
		member.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// plainHeader matches the header dictionary of an array of plain numbers as
// numpy writes it. npyio slices its headers without checking, so nothing else
// may reach it.
var plainHeader = regexp.MustCompile(`^\{'descr': '[<>|=]?[a-zA-Z]+[0-9]{0,3}', 'fortran_order': (True|False), 'shape': \(([0-9]{1,18}, ?)*([0-9]{1,18})?\), \} *\n$`)

// maxHeader is the longest header accepted. For plain numbers numpy writes 128
// bytes.
const maxHeader = 4096

func (a *array) header(size uint64) error {
	// 6 bytes of magic, 2 of version, and the dictionary's length: 2 bytes in
	// version 1, 4 in version 2.
	start, err := a.body.Peek(10)
	if err != nil || string(start[:6]) != npyMagic {
		return fmt.Errorf("not an array: it begins with %.10q", start)
	}
	length, at := int(binary.LittleEndian.Uint16(start[8:])), 10
	if start[6] != 1 { // npyio refuses versions other than 1 and 2
		if start, err = a.body.Peek(12); err != nil {
			return errors.New("not an array: its header is cut short")
		}
		length, at = int(binary.LittleEndian.Uint32(start[8:])), 12
	}
	if length > maxHeader-at {
		return fmt.Errorf("its header has %d bytes, want at most %d", length, maxHeader-at)
	}
	head, err := a.body.Peek(at + length)
	if err != nil {
		return errors.New("not an array: its header is cut short")
	}
	if !plainHeader.Match(head[at:]) {
		return fmt.Errorf("not an array of plain numbers: its header is %.100q", bytes.TrimSpace(head[at:]))
	}
	if a.npy, err = npy.NewReader(whole{a.body}); err != nil {
		return err
	}
	d := a.npy.Header.Descr
	a.shape, a.fortran = d.Shape, d.Fortran
	element := npy.TypeFrom(d.Type) // nil for an unknown type
	if element != nil {
		a.decode = decoders[element.Kind()]
	}
	if a.decode == nil {
		return fmt.Errorf("numbers of type %.20q, want f4, f8, i1 to i8, u1 to u8 or b1: convert with astype", d.Type)
	}
	a.left = 1
	for _, n := range a.shape {
		if n > 0 && a.left > math.MaxInt64/8/n {
			return fmt.Errorf("shape %v is more than can be counted", a.shape)
		}
		a.left *= n
	}
	if want := uint64(at + length + a.left*int(element.Size())); size != want {
		return fmt.Errorf("shape %v of type %s makes %d bytes, the archive says %d", a.shape, d.Type, want, size)
	}
	return nil
}

const npyMagic = "\x93NUMPY"

// whole fills the slice it is given or fails. npyio takes the end of a file for
// zeros, and a part of a number for a number.
type whole struct{ r io.Reader }

func (w whole) Read(p []byte) (int, error) {
	n, err := io.ReadFull(w.r, p)
	if err == io.EOF && len(p) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// decoders read numbers of numpy's types as float64.
var decoders = map[reflect.Kind]func(*npy.Reader, []float64) error{
	reflect.Float32: decode[float32], reflect.Float64: decode[float64],
	reflect.Int8: decode[int8], reflect.Int16: decode[int16], reflect.Int32: decode[int32], reflect.Int64: decode[int64],
	reflect.Uint8: decode[uint8], reflect.Uint16: decode[uint16], reflect.Uint32: decode[uint32], reflect.Uint64: decode[uint64],
	reflect.Bool: decodeBool,
}

// decode reads len(dst) numbers. Integers beyond 2⁵³ are rounded; those that are
// accepted are far smaller.
func decode[T float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](r *npy.Reader, dst []float64) error {
	raw := make([]T, len(dst))
	if err := r.Read(&raw); err != nil {
		return err
	}
	for i, v := range raw {
		dst[i] = float64(v)
	}
	return nil
}

func decodeBool(r *npy.Reader, dst []float64) error {
	raw := make([]bool, len(dst))
	if err := r.Read(&raw); err != nil {
		return err
	}
	for i, v := range raw {
		dst[i] = 0
		if v {
			dst[i] = 1
		}
	}
	return nil
}

// next returns the next number, in the order of the file. It panics after the last.
func (a *array) next() (float64, error) {
	if len(a.ready) == 0 {
		n := min(a.left, len(a.buf))
		a.ready = a.buf[:n]
		if err := a.decode(a.npy, a.ready); err != nil {
			return 0, fmt.Errorf("%s, shape %v: %w", a.name, a.shape, err)
		}
		a.left -= n
	}
	v := a.ready[0]
	a.ready = a.ready[1:]
	return v, nil
}

// feature returns the next number, which must be finite as a float32.
func (a *array) feature() (float32, error) {
	v, err := a.next()
	if err != nil {
		return 0, err
	}
	w := float32(v)
	if math.IsNaN(v) || math.IsInf(float64(w), 0) {
		return 0, fmt.Errorf("%v is not a finite number", v)
	}
	return w, nil
}

// integer returns the next number, which must be an integer from low to high.
func (a *array) integer(low, high int) (int, error) {
	v, err := a.next()
	if err != nil {
		return 0, err
	}
	if v != math.Trunc(v) || !(v >= float64(low) && v <= float64(high)) {
		return 0, fmt.Errorf("%v, want a whole number from %d to %d", v, low, high)
	}
	return int(v), nil
}

// rest returns the numbers that are left, as integer does, and ends the array.
func (a *array) rest(low, high int, memory *budget) ([]int32, error) {
	n := len(a.ready) + a.left
	if err := memory.claim(4 * n); err != nil {
		return nil, err
	}
	var out []int32
	for i := range n {
		v, err := a.integer(low, high)
		if err != nil {
			return nil, fmt.Errorf("%s, entry %d: %w", a.name, i, err)
		}
		out = append(out, int32(v))
	}
	return out, a.end()
}

// end returns an error unless all numbers were read and the archive's checksum,
// which is compared at the end of the member, is right.
func (a *array) end() error {
	if _, err := a.body.ReadByte(); err == nil {
		return fmt.Errorf("%s has more bytes than its shape %v", a.name, a.shape)
	} else if err != io.EOF {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	return nil
}

func (a *array) close() { a.member.Close() }
