package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// walk walks over a structure in Thrift's compact protocol, in which Parquet has its
// footer and the headers of its pages, and returns its length. Every length in it must fit
// the bytes that there are, and lists the budget.
func walk(b []byte, budget *budget, visit visitor) (length int, err error) {
	w := walker{left: b, budget: budget, visit: visit}
	if err := w.structure(0, 0); err != nil {
		return 0, err
	}
	return len(b) - len(w.left), nil
}

// visitor is called with every integer of a structure and of those in it; of a boolean,
// with 1 or 0. field is its id, depth how many structures and lists it is in, and parent the
// id of the field that has the structure, or the list of such, that it is a field of.
type visitor func(depth int, parent, field int16, v int64)

type walker struct {
	left   []byte
	budget *budget
	visit  visitor
}

// maxNesting bounds how deep structures and lists are nested. Parquet's are nested six
// deep.
const maxNesting = 16

// Types of the compact protocol.
const (
	thriftTrue   = 1 // of a field; the item of a list has a byte
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt16  = 4
	thriftInt64  = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12
)

var errShort = errors.New("it is cut short")

// structure walks over the fields of a structure, up to the zero that ends it.
func (w *walker) structure(parent int16, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("more than %d structures in each other", maxNesting)
	}
	for field := int16(0); ; {
		head, err := w.bytes(1)
		if err != nil {
			return err
		}
		if head[0] == 0 {
			return nil
		}
		if delta := head[0] >> 4; delta > 0 {
			field += int16(delta)
		} else {
			id, err := w.integer()
			if err != nil {
				return err
			}
			field = int16(id)
		}
		kind := head[0] & 15
		if kind == thriftTrue || kind == thriftFalse {
			w.visit(depth, parent, field, int64(thriftFalse-kind))
			continue
		}
		if err := w.value(kind, parent, field, depth); err != nil {
			return err
		}
	}
}

// value walks over the value of a field, or an item of its list.
func (w *walker) value(kind byte, parent, field int16, depth int) error {
	switch {
	case kind <= thriftByte:
		_, err := w.bytes(1)
		return err
	case kind >= thriftInt16 && kind <= thriftInt64:
		v, err := w.integer()
		if err == nil {
			w.visit(depth, parent, field, v)
		}
		return err
	case kind == thriftDouble:
		_, err := w.bytes(8)
		return err
	case kind == thriftBinary:
		n, err := w.count()
		if err == nil {
			_, err = w.bytes(n)
		}
		return err
	case kind == thriftList || kind == thriftSet:
		return w.list(field, depth)
	case kind == thriftStruct:
		return w.structure(field, depth+1)
	}
	return fmt.Errorf("a field of type %d, which Parquet does not have", kind) // such as a map
}

// list walks over the items of a list.
func (w *walker) list(field int16, depth int) error {
	head, err := w.bytes(1)
	if err != nil {
		return err
	}
	n := uint64(head[0] >> 4)
	if n == 15 {
		if n, err = w.count(); err != nil {
			return err
		}
	}
	kind, size := head[0]&15, int64(itemBytes)
	if kind == thriftStruct || kind == thriftList || kind == thriftSet {
		size = structureBytes
	}
	if n > uint64(len(w.left)) { // an item has at least a byte
		return errShort
	}
	if err := w.budget.claim("items in a list", int64(n), size); err != nil {
		return err
	}
	if depth > maxNesting {
		return fmt.Errorf("more than %d lists in each other", maxNesting)
	}
	for range n {
		if err := w.value(kind, 0, field, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// integer reads a signed integer.
func (w *walker) integer() (int64, error) {
	v, n := binary.Varint(w.left)
	if n <= 0 {
		return 0, errShort
	}
	w.left = w.left[n:]
	return v, nil
}

// count reads a length.
func (w *walker) count() (uint64, error) {
	v, n := binary.Uvarint(w.left)
	if n <= 0 {
		return 0, errShort
	}
	w.left = w.left[n:]
	return v, nil
}

// bytes reads n bytes.
func (w *walker) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(w.left)) {
		return nil, errShort
	}
	b := w.left[:n]
	w.left = w.left[n:]
	return b, nil
}
