package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// walk walks over a structure in Thrift's compact protocol, in which Parquet has its
// footer and the headers of its pages, and returns its length. Every length in it must fit
// the bytes that there are, and lists the budget: then the library can decode it.
func walk(b []byte, budget *budget) (length int, err error) {
	w := walker{in: new(thrift.CompactProtocol).NewReaderFromBytes(b), size: len(b), budget: budget}
	err = w.structure(0)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errShort
	}
	return w.in.BytesRead(), err
}

type walker struct {
	in     thrift.Reader
	size   int // bytes of all
	budget *budget
}

// maxNesting bounds how deep structures and lists are nested. Parquet's are nested six
// deep.
const maxNesting = 16

var errShort = errors.New("it is cut short")

// structure walks over the fields of a structure in so many others, up to the stop that ends it.
func (w *walker) structure(depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("more than %d structures in each other", maxNesting)
	}
	for {
		field, err := w.in.ReadField()
		switch {
		case err != nil || field.Type == thrift.STOP:
			return err
		case field.Type == thrift.TRUE || field.Type == thrift.FALSE: // it has no bytes
			continue
		}
		if err := w.value(field.Type, depth); err != nil {
			return err
		}
	}
}

// value walks over the value of a field, or an item of its list.
func (w *walker) value(kind thrift.Type, depth int) (err error) {
	switch kind {
	case thrift.TRUE, thrift.FALSE, thrift.I8: // the item of a list of booleans has a byte
		_, err = w.in.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = w.in.ReadInt64()
	case thrift.DOUBLE:
		_, err = w.in.ReadFloat64()
	case thrift.BINARY:
		_, err = w.in.ReadBytes() // those of b
	case thrift.LIST, thrift.SET:
		err = w.list(depth)
	case thrift.STRUCT:
		err = w.structure(depth + 1)
	default:
		err = fmt.Errorf("a field of type %d, which Parquet does not have", kind) // such as a map
	}
	return err
}

// list walks over the items of a list.
func (w *walker) list(depth int) error {
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
		if err := w.value(list.Type, depth+1); err != nil {
			return err
		}
	}
	return nil
}
