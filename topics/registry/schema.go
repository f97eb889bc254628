// Package registry reads records that serializers of a schema registry have framed: five bytes, of which four are the
// number of a schema, and then Avro or Protobuf. A decoded record is JSON. The schemas by which records were read are kept in
// the ledger, so that a replay asks no registry.
package registry

import (
	"errors"
	"fmt"
)

// Schema is a schema of a registry, with those that it refers to, the first ones first.
type Schema struct {
	ID         uint32      `json:"id"`
	Type       string      `json:"type"` // AVRO or PROTOBUF, as registries call them
	Text       string      `json:"text"`
	References []Reference `json:"references,omitempty"`
	Refused    string      `json:"refused,omitempty"` // why it is not read, without its text then
}

// Reference is a schema under the name by which others refer to it.
type Reference struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Bounds on schemas, so that neither a registry nor a producer fills memory or the ledger.
const (
	maxText       = 64 << 10 // bytes of a schema and what it refers to
	maxReferences = 32
	maxFields     = 10_000    // of a schema whose types are written out where they are used
	maxSchemas    = 1024      // of a graph
	maxAll        = 512 << 10 // bytes of these: a base's record in the ledger has them all
	maxOfWindow   = 256 << 10
	maxJSON       = 16 << 20 // bytes of a decoded record
	maxProtobuf   = 1 << 20  // bytes of a record in Protobuf, whose messages take many times as much
	maxDepth      = 64
)

func (s *Schema) size() int {
	n := len(s.Text)
	for _, r := range s.References {
		n += len(r.Name) + len(r.Text)
	}
	return n
}

// Reader reads records of one schema.
type Reader struct {
	Schema
	read func(payload []byte) ([]byte, error)
	err  error // why the schema is not read
}

// NewReader returns the reader of a schema. One that cannot be read refuses all records.
func NewReader(s Schema) *Reader {
	r := &Reader{Schema: s}
	if s.size() > maxText {
		s.Refused = fmt.Sprintf("more than %d bytes", maxText)
	}
	switch {
	case s.Refused != "":
		r.Schema = Schema{ID: s.ID, Type: s.Type, Refused: s.Refused}
		r.err = errors.New(s.Refused)
	case s.Type == "AVRO":
		r.read, r.err = avroReader(&s)
	case s.Type == "PROTOBUF":
		r.read, r.err = protobufReader(&s)
	default:
		r.err = fmt.Errorf("it is of type %.20q, and the record is no JSON", s.Type)
	}
	return r
}

// JSON returns a record as JSON.
func (r *Reader) JSON(payload []byte) (b []byte, err error) {
	if r == nil {
		return nil, errors.New("no registry has it, or the ledger keeps too many schemas")
	}
	if err = r.err; err == nil {
		b, err = r.read(payload)
	}
	return b, err
}
