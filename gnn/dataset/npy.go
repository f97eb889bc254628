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
	"strconv"
	"strings"

	"github.com/sbinet/npyio/npy"
)

// array is a member of an .npz archive, an .npy file, read once from its first
// number to its last.
type array struct {
	shape   []int
	fortran bool // a matrix is stored column after column

	// width is the length of a text in bytes, and decode is nil; of numbers it is 0.
	width int
	order binary.ByteOrder // of the characters of a text; nil where each is a byte

	name   string
	member io.Closer
	body   *bufio.Reader
	npy    *npy.Reader
	kind   reflect.Kind
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
	if a.npy, err = npy.NewReader(filled{a.body}); err != nil {
		return err
	}
	d := a.npy.Header.Descr
	a.shape, a.fortran = d.Shape, d.Fortran
	width, err := a.element(d.Type)
	if err != nil {
		return err
	}
	a.left = 1
	for _, n := range a.shape {
		if n > 0 && a.left > math.MaxInt64/width/n {
			return fmt.Errorf("shape %v is more than can be counted", a.shape)
		}
		a.left *= n
	}
	if want := uint64(at + length + a.left*width); size != want {
		return fmt.Errorf("shape %v of type %s makes %d bytes, the archive says %d", a.shape, d.Type, want, size)
	}
	return nil
}

// textType matches numpy's types of texts: the order of bytes, four bytes a character or
// one, and the number of characters.
var textType = regexp.MustCompile(`^([<>|=]?)([US])([1-9][0-9]{0,2})$`)

// element sets how an element of a type is read, and returns its width in bytes.
func (a *array) element(kind string) (width int, err error) {
	if m := textType.FindStringSubmatch(kind); m != nil {
		a.width, _ = strconv.Atoi(m[3])
		if m[2] == "U" {
			a.width *= 4
			a.order = binary.LittleEndian
			if m[1] == ">" {
				a.order = binary.BigEndian
			}
		}
		return a.width, nil
	}
	element := npy.TypeFrom(kind) // nil for an unknown type
	if element != nil {
		a.kind = element.Kind()
		a.decode = decoders[a.kind]
	}
	if a.decode == nil {
		return 0, fmt.Errorf("numbers of type %.20q, want f4, f8, i1 to i8, u1 to u8 or b1: convert with astype", kind)
	}
	return int(element.Size()), nil
}

const npyMagic = "\x93NUMPY"

// filled fills the slice it is given or fails. npyio takes the end of a file for
// zeros, and a part of a number for a number.
type filled struct{ r io.Reader }

func (f filled) Read(p []byte) (int, error) {
	n, err := io.ReadFull(f.r, p)
	if err == io.EOF && len(p) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// decoders read numbers of numpy's types as float64.
var decoders = map[reflect.Kind]func(*npy.Reader, []float64) error{
	reflect.Float32: decode[float32, float64], reflect.Float64: decode[float64, float64],
	reflect.Int8: decode[int8, float64], reflect.Int16: decode[int16, float64], reflect.Int32: decode[int32, float64], reflect.Int64: decode[int64, float64],
	reflect.Uint8: decode[uint8, float64], reflect.Uint16: decode[uint16, float64], reflect.Uint32: decode[uint32, float64], reflect.Uint64: decode[uint64, float64],
	reflect.Bool: decodeBool,
}

// wholeDecoders are decoders that round no integer.
var wholeDecoders = map[reflect.Kind]func(*npy.Reader, []int64) error{
	reflect.Int8: decode[int8, int64], reflect.Int16: decode[int16, int64], reflect.Int32: decode[int32, int64], reflect.Int64: decode[int64, int64],
	reflect.Uint8: decode[uint8, int64], reflect.Uint16: decode[uint16, int64], reflect.Uint32: decode[uint32, int64],
}

// decode reads len(dst) numbers. As float64, integers beyond 2⁵³ are rounded; those that
// are accepted are far smaller.
func decode[T float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64, D float64 | int64](r *npy.Reader, dst []D) error {
	raw := make([]T, len(dst))
	if err := r.Read(&raw); err != nil {
		return err
	}
	for i, v := range raw {
		dst[i] = D(v)
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
	return whole(v, low, high)
}

// whole returns a number that must be an integer from low to high.
func whole(v float64, low, high int) (int, error) {
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

// integers returns n integers of any size.
func (a *array) integers(n int, memory *budget) ([]int64, error) {
	decode := wholeDecoders[a.kind]
	if decode == nil {
		return nil, fmt.Errorf("%s has the type %v, want integers or texts: convert with astype(int) or astype(str)", a.name, a.kind)
	}
	if err := memory.claim(24 * n); err != nil { // with what a map takes that looks for repeated ones
		return nil, err
	}
	var out []int64
	var buf [1024]int64
	for len(out) < n {
		part := buf[:min(n-len(out), len(buf))]
		if err := decode(a.npy, part); err != nil {
			return nil, fmt.Errorf("%s, shape %v: %w", a.name, a.shape, err)
		}
		out = append(out, part...)
	}
	return out, nil
}

// texts returns n texts.
func (a *array) texts(n int, memory *budget) ([]string, error) {
	if err := memory.claim((64 + a.width) * n); err != nil {
		return nil, err
	}
	var out []string
	raw := make([]byte, a.width)
	for range n {
		if _, err := io.ReadFull(a.body, raw); err != nil {
			return nil, fmt.Errorf("%s, shape %v: %w", a.name, a.shape, err)
		}
		out = append(out, a.text(raw))
	}
	return out, nil
}

// text returns a text, which zeros fill up to its width.
func (a *array) text(raw []byte) string {
	if a.order == nil {
		return string(bytes.TrimRight(raw, "\x00"))
	}
	var runes []rune
	for ; len(raw) >= 4; raw = raw[4:] {
		runes = append(runes, rune(a.order.Uint32(raw)))
	}
	return strings.TrimRight(string(runes), "\x00")
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
