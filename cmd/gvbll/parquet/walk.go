package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// walk walks over a structure in Thrift's compact protocol, in which Parquet has its
// footer and the headers of its pages, and returns its length. Every length in it must fit
// the bytes that there are, and lists the budget.
func walk(b []byte, budget *budget, visit visitor) (length int, err error) {
	w := walker{in: new(thrift.CompactProtocol).NewReaderFromBytes(b), size: len(b), budget: budget, visit: visit}
	err = w.structure(0, 0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errShort
	}
	return w.in.BytesRead(), err
}

// visitor is called with every integer of a structure and of those in it; of a boolean,
// with 1 or 0. field is its id, depth how many structures and lists it is in, and parent the
// id of the field that has the structure, or the list of such, that it is a field of.
type visitor func(depth int, parent, field int16, v int64)

type walker struct {
	in     thrift.Reader
	size   int // bytes of all
	budget *budget
	visit  visitor
}

// maxNesting bounds how deep structures and lists are nested. Parquet's are nested six
// deep.
const maxNesting = 16

var errShort = errors.New("it is cut short")

// structure walks over the fields of a structure, up to the stop that ends it.
func (w *walker) structure(parent int16, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("more than %d structures in each other", maxNesting)
	}
	for id := int16(0); ; {
		field, err := w.in.ReadField()
		if err != nil || field.Type == thrift.STOP {
			return err
		}
		if field.Delta {
			field.ID += id
		}
		id = field.ID
		switch field.Type {
		case thrift.TRUE:
			w.visit(depth, parent, id, 1)
		case thrift.FALSE:
			w.visit(depth, parent, id, 0)
		default:
			if err := w.value(field.Type, parent, id, depth); err != nil {
				return err
			}
		}
	}
}

// value walks over the value of a field, or an item of its list.
func (w *walker) value(kind thrift.Type, parent, field int16, depth int) (err error) {
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8: // the item of a list of booleans has a byte
		_, err = w.in.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		var v int64
		if v, err = w.in.ReadInt64(); err == nil {
			w.visit(depth, parent, field, v)
		}
	case thrift.DOUBLE:
		_, err = w.in.ReadFloat64()
	case thrift.BINARY:
		_, err = w.in.ReadBytes() // those of b
	case thrift.LIST, thrift.SET:
		err = w.list(field, depth)
	case thrift.STRUCT:
		err = w.structure(field, depth+1)
	default:
		err = fmt.Errorf("a field of type %d, which Parquet does not have", kind) // such as a map
	}
	return err
}

// list walks over the items of a list.
func (w *walker) list(field int16, depth int) error {
	list, err := w.in.ReadList()
	if err != nil {
		return err
	}
	size := int64(itemBytes)
	if list.Type == thrift.STRUCT || list.Type == thrift.LIST || list.Type == thrift.SET {
		size = structureBytes
	}
	if int(list.Size) > w.size-w.in.BytesRead() { // an item has at least a byte
		return errShort
	}
	if err := w.budget.claim("items in a list", int64(list.Size), size); err != nil {
		return err
	}
	if depth > maxNesting {
		return fmt.Errorf("more than %d lists in each other", maxNesting)
	}
	for range list.Size {
		if err := w.value(list.Type, 0, field, depth+1); err != nil {
			return err
		}
	}
	return nil
}
