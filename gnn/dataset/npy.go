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
	"regexp"
	"strconv"
	"strings"
)

// array is a member of an .npz archive, an .npy file, read once from its first
// number to its last.
type array struct {
	shape   []int
	fortran bool // a matrix is stored column after column
	element element

	name   string
	member io.Closer
	body   *bufio.Reader
	left   int    // numbers not read yet
	ready  []byte // of numbers that were read and not returned yet, in buf
	buf    []byte
}

// element is the type of an array's numbers: f, i, u or b.
type element struct {
	kind  byte
	width int // bytes
	order binary.ByteOrder
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
// numpy writes it: the type, the order and the shape.
var plainHeader = regexp.MustCompile(`^\{'descr': '([<>|=]?[a-zA-Z]+[0-9]{0,3})', 'fortran_order': (True|False), 'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n$`)

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
	switch start[6] {
	case 1:
	case 2:
		if start, err = a.body.Peek(12); err != nil {
			return errors.New("not an array: its header is cut short")
		}
		length, at = int(binary.LittleEndian.Uint32(start[8:])), 12
	default:
		return fmt.Errorf("an array of version %d, want 1 or 2", start[6])
	}
	if length > maxHeader-at {
		return fmt.Errorf("its header has %d bytes, want at most %d", length, maxHeader-at)
	}
	head, err := a.body.Peek(at + length)
	if err != nil {
		return errors.New("not an array: its header is cut short")
	}
	words := plainHeader.FindSubmatch(head[at:])
	if words == nil {
		return fmt.Errorf("not an array of plain numbers: its header is %.100q", bytes.TrimSpace(head[at:]))
	}
	kind := string(words[1])
	a.fortran = string(words[2]) == "True"
	for _, n := range strings.FieldsFunc(string(words[3]), func(r rune) bool { return r == ',' || r == ' ' }) {
		size, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		a.shape = append(a.shape, size)
	}
	if _, err := a.body.Discard(at + length); err != nil {
		return err
	}
	if a.element, err = elementOf(kind); err != nil {
		return err
	}
	width := a.element.width
	a.left = 1
	for _, n := range a.shape {
		if n > 0 && a.left > math.MaxInt64/width/n {
			return fmt.Errorf("shape %v is more than can be counted", a.shape)
		}
		a.left *= n
	}
	if want := uint64(at + length + a.left*width); size != want {
		return fmt.Errorf("shape %v of type %s makes %d bytes, the archive says %d", a.shape, kind, want, size)
	}
	return nil
}

// elementType matches numpy's types: the order of bytes, the kind, and the bytes of a number.
var elementType = regexp.MustCompile(`^([<>|=]?)([fiub])([1248])$`)

// elementOf returns the type of that name.
func elementOf(name string) (element, error) {
	m := elementType.FindStringSubmatch(name)
	if m == nil || m[2] == "f" && m[3] < "4" || m[2] == "b" && m[3] != "1" {
		return element{}, fmt.Errorf("numbers of type %.20q, want f4, f8, i1 to i8, u1 to u8 or b1: convert with astype", name)
	}
	e := element{kind: m[2][0], width: int(m[3][0] - '0'), order: binary.LittleEndian}
	if m[1] == ">" {
		e.order = binary.BigEndian
	}
	return e, nil
}

// String returns numpy's name of a type of numbers.
func (e element) String() string {
	if e.kind == 'b' {
		return "bool"
	}
	return fmt.Sprint(map[byte]string{'f': "float", 'i': "int", 'u': "uint"}[e.kind], 8*e.width)
}

// isInteger reports whether the elements are integers that an int64 holds.
func (e element) isInteger() bool { return e.kind == 'i' || e.kind == 'u' && e.width < 8 }

// integer returns a number that is stored as an integer.
func (e element) integer(raw []byte) int64 {
	var bits uint64
	switch e.width {
	case 1:
		bits = uint64(raw[0])
	case 2:
		bits = uint64(e.order.Uint16(raw))
	case 4:
		bits = uint64(e.order.Uint32(raw))
	default:
		bits = e.order.Uint64(raw)
	}
	if e.kind == 'i' { // with its sign
		unused := 64 - 8*e.width
		return int64(bits<<unused) >> unused
	}
	return int64(bits)
}

// number returns any number. Integers beyond 2⁵³ are rounded; those that are accepted are
// far smaller.
func (e element) number(raw []byte) float64 {
	switch {
	case e.kind == 'f' && e.width == 4:
		return float64(math.Float32frombits(e.order.Uint32(raw)))
	case e.kind == 'f':
		return math.Float64frombits(e.order.Uint64(raw))
	case e.kind == 'i':
		return float64(e.integer(raw))
	case e.kind == 'b' && raw[0] != 1:
		return 0
	}
	return float64(uint64(e.integer(raw)))
}

const npyMagic = "\x93NUMPY"

// raw returns the bytes of the next element. It panics after the last.
func (a *array) raw() ([]byte, error) {
	width := a.element.width
	if len(a.ready) == 0 {
		if a.buf == nil {
			a.buf = make([]byte, width*max(1, (32<<10)/width))
		}
		n := min(a.left, len(a.buf)/width)
		a.ready = a.buf[:n*width]
		if _, err := io.ReadFull(a.body, a.ready); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("%s, shape %v: %w", a.name, a.shape, err)
		}
		a.left -= n
	}
	raw := a.ready[:width]
	a.ready = a.ready[width:]
	return raw, nil
}

// next returns the next number, in the order of the file. It panics after the last.
func (a *array) next() (float64, error) {
	raw, err := a.raw()
	if err != nil {
		return 0, err
	}
	return a.element.number(raw), nil
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
	n := len(a.ready)/a.element.width + a.left
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
	if !a.element.isInteger() {
		return nil, fmt.Errorf("%s has the type %v, want integers: convert with astype(int), or save a table (docs/datasets.md)", a.name, a.element)
	}
	if err := memory.claim(24 * n); err != nil { // with what a map takes that looks for repeated ones
		return nil, err
	}
	var out []int64
	for range n {
		raw, err := a.raw()
		if err != nil {
			return nil, err
		}
		out = append(out, a.element.integer(raw))
	}
	return out, nil
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
