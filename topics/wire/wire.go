// Package wire converts between the bytes of records and the values of package
// event. docs/wire-format.md describes the format field by field.
//
// Events are msgpack maps with string keys, or JSON objects with the same fields
// if the header content-type says so or, without one, if the value begins as JSON does. Input is hostile:
// a decoder compares every declared length with the bytes that remain before it
// allocates memory, and bounds nesting.
//
// One file for each kind of record (node, label, command, prediction, dead
// letter) holds its fields, in both encodings but for commands and dead letters, which are JSON; msgpack_read, json and
// output hold the primitives.
package wire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"strings"

	"github.com/gvbll/gvbll/pipeline/event"
)

// ContentType is the key of the record header that names the encoding.
const ContentType = "content-type"

// maxContentType bounds the header's value in bytes, because its parameters are
// parsed into a map.
const maxContentType = 256

// Limits bound the size of one event. Zero fields have the defaults named here.
type Limits struct {
	MaxValue      int     // bytes of a record's value; 4 MiB
	MaxID         int     // bytes of a string id or a class name; 1,024
	MaxNeighbours int     // neighbours in one node event; 65,536
	MaxFeatures   int     // features in one node event; 1,048,576
	MaxAbs        float32 // magnitude of a feature; 1e6
}

func (l Limits) withDefaults() Limits {
	return Limits{
		MaxValue:      cmp.Or(l.MaxValue, 4<<20),
		MaxID:         cmp.Or(l.MaxID, 1024),
		MaxNeighbours: cmp.Or(l.MaxNeighbours, 1<<16),
		MaxFeatures:   cmp.Or(l.MaxFeatures, 1<<20),
		MaxAbs:        min(cmp.Or(l.MaxAbs, 1e6), math.MaxFloat32), // features are finite, whatever the limit
	}
}

// Decoder decodes the events of the input topics. It is not safe for
// concurrent use.
type Decoder struct {
	Limits Limits
	// First says that events are read as by 1.0.0, see first.go.
	First bool
	// Frames, if not nil, returns as JSON what serializers of a schema registry wrote behind a schema's number.
	Frames func(schema uint32, payload []byte) ([]byte, error)
	// Map, if not nil, turns records of somebody else's JSON into events.
	Map *Map
	// Memory holds the lists and texts of msgpack events. If it is nil, they are
	// allocated for each event.
	Memory *Memory
	// Unknown, if not nil, is called with the name of each field that is not of the
	// format, and so is ignored. The name is valid during the call.
	Unknown func(name []byte)
	in      input
}

// Node decodes a node event into n, overwriting it. A non-empty reason means that
// the event is refused, and detail says why in one line; otherwise n satisfies
// the invariants of event.Node. A null value is the departure of the node that
// the key names.
func (d *Decoder) Node(o *event.Origin, n *event.Node) (reason event.Reason, detail string) {
	*n = event.Node{Origin: o}
	in, limits := d.begin()
	mapped := d.Map != nil && len(d.Map.nodes) > 0
	var err error
	switch {
	case o.Value == nil && mapped:
		return verdict(d.Map.departure(in, o.Key, n, limits))
	case o.Value == nil:
		return verdict(departure(in, o.Key, n, limits))
	case mapped:
		if err = checkLength(o, limits); err == nil {
			err = d.Map.node(in, o.Value, n, limits)
		}
	default:
		err = d.decode(o, limits, func(v value) error { return in.node(v, n, limits) })
	}
	if err == nil {
		err = validate(in.memory, n, limits)
	}
	for i := 0; err == nil && n.Also != nil && i < len(n.Also.Nodes); i++ {
		err = validate(in.memory, &n.Also.Nodes[i], limits)
	}
	return verdict(err)
}

// Label decodes a label event into l, overwriting it. The results are as Node's.
func (d *Decoder) Label(o *event.Origin, l *event.Label) (reason event.Reason, detail string) {
	*l = event.Label{Origin: o}
	in, limits := d.begin()
	if d.Map == nil || len(d.Map.labels) == 0 {
		var s labelFields
		return verdict(d.decode(o, limits, func(v value) error { return s.label(in, v, l, limits) }))
	}
	err := checkLength(o, limits)
	if err == nil {
		err = d.Map.label(in, o.Value, l, limits)
	}
	return verdict(err)
}

// begin prepares to decode an event.
func (d *Decoder) begin() (*input, Limits) {
	d.in.memory, d.in.report, d.in.reads.first, d.in.reads.frames = d.Memory, d.Unknown, d.First, d.Frames
	if d.in.memory == nil {
		d.in.memory = new(Memory)
	}
	return &d.in, d.Limits.withDefaults()
}

// decode picks the encoding of a record, and has its value read.
func (d *Decoder) decode(o *event.Origin, limits Limits, read func(v value) error) error {
	if err := checkLength(o, limits); err != nil {
		return err
	}
	value, err := d.in.reads.unframed(o.Value)
	if err != nil {
		return err
	}
	encoding, err := d.in.reads.encodingOf(o, value)
	if err != nil {
		return err
	}
	if encoding == JSON {
		if d.in.json, err = d.in.reads.eventJSON(value); err == nil {
			err = read(&d.in.json)
		}
		d.in.json = nil
		clear(d.in.members[:]) // as below
		return err
	}
	d.in.reset(value)
	defer d.in.reset(nil) // do not keep the caller's bytes
	if err := read(&d.in); err != nil {
		return err
	}
	return d.in.cursor.end()
}

// checkLength refuses a value that is empty or too long.
func checkLength(o *event.Origin, limits Limits) error {
	switch {
	case len(o.Value) == 0:
		return refusef(event.Empty, "the value is empty, or null where that is no departure")
	case len(o.Value) > limits.MaxValue:
		return refusef(event.TooLarge, "the value has %d bytes, the limit is %d", len(o.Value), limits.MaxValue)
	}
	return nil
}

// unframed returns a value without a byte order mark, and without the five bytes that the serializers of a schema registry
// write before plain JSON. What cannot be read is named. None of these begins an event in JSON or msgpack.
func (as *reading) unframed(value []byte) ([]byte, error) {
	switch {
	case as.first:
		return value, nil
	case len(value) >= 5 && value[0] == 0:
		return as.framed(value)
	case bytes.HasPrefix(value, []byte("\x1f\x8b")):
		return nil, refusef(event.Undecodable, "a value packed with gzip by its producer: send it plain, and set compression.type")
	case bytes.HasPrefix(value, []byte("\xff\xfe")), bytes.HasPrefix(value, []byte("\xfe\xff")):
		return nil, refusef(event.Undecodable, "a value in UTF-16: send UTF-8")
	}
	return bytes.TrimPrefix(value, []byte("\ufeff")), nil
}

// framed returns what stands behind a schema's number: plain JSON as it is, which needs no registry, and other values as JSON.
func (as *reading) framed(value []byte) ([]byte, error) {
	schema, payload := binary.BigEndian.Uint32(value[1:]), value[5:]
	if looksLikeJSON(payload) && json.Valid(payload) {
		return payload, nil
	}
	if as.frames == nil {
		return nil, refusef(event.Undecodable, "a value by schema %d of a registry, in Avro or Protobuf: give --registry", schema)
	}
	b, err := as.frames(schema, payload)
	if err != nil {
		return nil, refusef(event.Undecodable, "a value by schema %d of a registry: %v", schema, err)
	}
	return b, nil
}

// encodingOf reads the content-type header. A record without one is what its value begins as, because ksqlDB,
// RisingWave and REST proxies write no headers.
func (as *reading) encodingOf(o *event.Origin, value []byte) (Encoding, error) {
	for _, h := range o.Headers {
		if !strings.EqualFold(h.Key, ContentType) {
			continue
		}
		if len(h.Value) > maxContentType {
			return "", refusef(event.Undecodable, "a content-type of %d bytes, the limit is %d", len(h.Value), maxContentType)
		}
		kind, _, err := mime.ParseMediaType(string(h.Value))
		switch {
		case err != nil:
		case kind == string(JSON), !as.first && (kind == "text/json" || strings.HasSuffix(kind, "+json")):
			return JSON, nil
		case kind == string(MsgPack), kind == "application/x-msgpack":
			return MsgPack, nil
		}
		return "", refusef(event.Undecodable, "content-type %.60q, want %s or %s", h.Value, MsgPack, JSON)
	}
	if looksLikeJSON(value) {
		return JSON, nil
	}
	return MsgPack, nil
}

// looksLikeJSON reports whether a value begins as a JSON object or list does. Such a
// value is no msgpack map: the bytes are small integers there.
func looksLikeJSON(value []byte) bool {
	value = bytes.TrimLeft(value, " \t\r\n")
	return len(value) > 0 && (value[0] == '{' || value[0] == '[')
}

// refusal is the error, inside this package, of an event that is refused.
type refusal struct {
	reason event.Reason
	detail string
}

func (r *refusal) Error() string { return string(r.reason) + ": " + r.detail }

func refusef(reason event.Reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// verdict converts an error of decoding to a dead letter's reason and detail.
func verdict(err error) (event.Reason, string) {
	if err == nil {
		return "", ""
	}
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r.reason, line(r.detail)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return event.Undecodable, "the value ends inside the event"
	default:
		return event.Undecodable, line(err.Error())
	}
}
