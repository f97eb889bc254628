package registry

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"github.com/hamba/avro/v2"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// avroReader returns what reads records of an Avro schema. One that contains itself is refused: a few bytes could
// nest without end.
func avroReader(s *Schema) (func([]byte) ([]byte, error), error) {
	cache := &avro.SchemaCache{}
	for _, r := range s.References {
		if _, err := avro.ParseWithCache(r.Text, "", cache); err != nil {
			return nil, fmt.Errorf("its reference %.60q: %.200w", r.Name, err)
		}
	}
	schema, err := avro.ParseWithCache(s.Text, "", cache)
	if err != nil {
		return nil, fmt.Errorf("%.200w", err)
	}
	if _, err := fieldsOf(schema, nil); err != nil {
		return nil, err
	}
	return func(payload []byte) ([]byte, error) {
		r := avroRecord{Reader: avro.NewReader(nil, 0).Reset(payload)}
		r.value(schema)
		if err := r.failed(); err != nil {
			return nil, err
		}
		if r.Peek(); r.Error == nil {
			return nil, errors.New("bytes are left behind the record")
		}
		return r.b, nil
	}, nil
}

// fieldsOf counts the values of a schema, with those of named types wherever they are used, and refuses too many. within are the named
// types that it is in.
func fieldsOf(s avro.Schema, within []string) (n int, err error) {
	var parts []avro.Schema
	switch s := s.(type) {
	case *avro.RefSchema:
		return fieldsOf(s.Schema(), within)
	case *avro.RecordSchema:
		for _, name := range within {
			if name == s.FullName() {
				return 0, fmt.Errorf("type %.60s contains itself", name)
			}
		}
		within = append(within[:len(within):len(within)], s.FullName())
		for _, f := range s.Fields() {
			parts = append(parts, f.Type())
		}
	case *avro.ArraySchema:
		parts = []avro.Schema{s.Items()}
	case *avro.MapSchema:
		parts = []avro.Schema{s.Values()}
	case *avro.UnionSchema:
		parts = s.Types()
	}
	n = 1
	for _, p := range parts {
		of, err := fieldsOf(p, within)
		if err != nil {
			return 0, err
		}
		if n += of; n > maxFields {
			return 0, fmt.Errorf("more than %d values in a record", maxFields)
		}
	}
	return n, nil
}

type avroRecord struct {
	*avro.Reader
	jsonWriter
}

func (r *avroRecord) failed() error { return cmp.Or(r.jsonWriter.failed(), r.Error) }

// value reads a value: numbers as they are, also those that stand for times, bytes in base64 as Connect writes them,
// decimals as numbers, and of a union what is in it.
func (r *avroRecord) value(s avro.Schema) {
	if r.failed() != nil {
		return
	}
	switch s := s.(type) {
	case *avro.RefSchema:
		r.value(s.Schema())
	case *avro.RecordSchema:
		r.begin('{')
		for _, f := range s.Fields() {
			r.key(f.Name())
			r.value(f.Type())
		}
		r.end('}')
	case *avro.EnumSchema:
		symbol, ok := s.Symbol(int(r.ReadInt()))
		if !ok && r.Error == nil {
			r.err = errors.New("a symbol that the enum lacks")
		}
		r.text(symbol)
	case *avro.ArraySchema:
		r.list('[', ']', func() { r.value(s.Items()) })
	case *avro.MapSchema:
		r.list('{', '}', func() {
			r.key(r.ReadString())
			r.value(s.Values())
		})
	case *avro.UnionSchema:
		i := r.ReadLong()
		if types := s.Types(); i >= 0 && i < int64(len(types)) {
			r.value(types[i])
		} else if r.Error == nil {
			r.err = errors.New("a type that the union lacks")
		}
	case *avro.FixedSchema:
		if s.Size() > maxText {
			r.err = fmt.Errorf("a fixed value of %d bytes", s.Size())
			return
		}
		b := make([]byte, s.Size())
		r.Read(b)
		r.bytes(b, s.Logical())
	case *avro.NullSchema:
		r.b = append(r.next(), "null"...)
	case *avro.PrimitiveSchema:
		r.primitive(s)
	default:
		r.err = fmt.Errorf("a value of type %s", s.Type())
	}
}

func (r *avroRecord) primitive(s *avro.PrimitiveSchema) {
	switch s.Type() {
	case avro.Boolean:
		r.b = strconv.AppendBool(r.next(), r.ReadBool())
	case avro.Int:
		r.b = strconv.AppendInt(r.next(), int64(r.ReadInt()), 10)
	case avro.Long:
		r.b = strconv.AppendInt(r.next(), r.ReadLong(), 10)
	case avro.Float:
		r.number(float64(r.ReadFloat()), 32)
	case avro.Double:
		r.number(r.ReadDouble(), 64)
	case avro.String:
		r.text(r.ReadString())
	case avro.Bytes:
		r.bytes(r.ReadBytes(), s.Logical())
	default:
		r.err = fmt.Errorf("a value of type %s", s.Type())
	}
}

func (r *avroRecord) list(open, closing byte, item func()) {
	r.begin(open)
	for n, _ := r.ReadBlockHeader(); n != 0 && r.failed() == nil; n, _ = r.ReadBlockHeader() {
		for ; n != 0 && r.failed() == nil; n-- {
			item()
		}
	}
	r.end(closing)
}

func (r *avroRecord) bytes(b []byte, logical avro.LogicalSchema) {
	d, isDecimal := logical.(*avro.DecimalLogicalSchema)
	if !isDecimal {
		r.text(base64.StdEncoding.EncodeToString(b))
		return
	}
	text, ok := spelling.Decimal(b, d.Scale())
	if !ok {
		r.err = fmt.Errorf("a decimal of %d bytes with %d decimal places", len(b), d.Scale())
	}
	r.b = append(r.next(), text...)
}
