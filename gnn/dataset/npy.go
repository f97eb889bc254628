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
	"slices"
	"strconv"
	"strings"
)

// array is a member of an .npz archive, an .npy file, read once from its first
// number to its last.
type array struct {
	name    string
	shape   []int
	fortran bool // a matrix is stored column after column

	kind      byte // of numbers: f, i, u or b
	width     int  // of one, in bytes
	bigEndian bool

	member io.Closer
	body   *bufio.Reader
	buf    [8]byte // a number
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

// elementType matches numpy's types: the order of bytes, the kind, and the bytes of a number.
var elementType = regexp.MustCompile(`^([<>|=]?)([fiub])([1248])$`)

// maxHeader is the longest header accepted. For plain numbers numpy writes 128
// bytes, in version 1 of the format.
const maxHeader = 4096

func (a *array) header(size uint64) error {
	// 6 bytes of magic, 2 of version, and the dictionary's length: 2 bytes in version 1, 4 in
	// version 2.
	start, err := a.body.Peek(12)
	if err != nil || string(start[:6]) != npyMagic {
		return fmt.Errorf("not an array: it begins with %.10q", start)
	}
	length, at := int(binary.LittleEndian.Uint16(start[8:])), 10
	if start[6] == 2 {
		length, at = int(binary.LittleEndian.Uint32(start[8:])), 12
	}
	if start[6] > 2 || length > maxHeader-at {
		return fmt.Errorf("an array of version %d with a header of %d bytes, want version 1 or 2 and at most %d",
			start[6], length, maxHeader-at)
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
	m := elementType.FindStringSubmatch(kind)
	if m == nil || m[2] == "f" && m[3] < "4" || m[2] == "b" && m[3] != "1" {
		return fmt.Errorf("numbers of type %.20q, want f4, f8, i1 to i8, u1 to u8 or b1: convert with astype", kind)
	}
	a.bigEndian, a.kind, a.width = m[1] == ">", m[2][0], int(m[3][0]-'0')
	bytes := a.width
	for _, n := range a.shape {
		if n > 0 && bytes > math.MaxInt64/n {
			return fmt.Errorf("shape %v is more than can be counted", a.shape)
		}
		bytes *= n
	}
	if want := uint64(at + length + bytes); size != want {
		return fmt.Errorf("shape %v of type %s makes %d bytes, the archive says %d", a.shape, kind, want, size)
	}
	return nil
}

const npyMagic = "\x93NUMPY"

// bits returns the next number as it is stored, an integer i with its sign.
func (a *array) bits() (uint64, error) {
	if _, err := io.ReadFull(a.body, a.buf[:a.width]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, fmt.Errorf("%s, shape %v: %w", a.name, a.shape, err)
	}
	if a.bigEndian {
		slices.Reverse(a.buf[:a.width])
	}
	unused := 64 - 8*a.width
	bits := binary.LittleEndian.Uint64(a.buf[:]) << unused
	if a.kind == 'i' {
		return uint64(int64(bits) >> unused), nil
	}
	return bits >> unused, nil
}

// next returns the next number, in the order of the file. Integers beyond 2⁵³ are rounded;
// those that are accepted are far smaller.
func (a *array) next() (float64, error) {
	bits, err := a.bits()
	switch {
	case err != nil:
		return 0, err
	case a.kind == 'f' && a.width == 4:
		return float64(math.Float32frombits(uint32(bits))), nil
	case a.kind == 'f':
		return math.Float64frombits(bits), nil
	case a.kind == 'i':
		return float64(int64(bits)), nil
	case a.kind == 'b' && bits != 1:
		return 0, nil
	}
	return float64(bits), nil
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
