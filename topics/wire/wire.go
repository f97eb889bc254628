// Package wire is the wire format: the bytes of records, and the values of
// package event. docs/wire-format.md describes it field by field.
//
// Events are msgpack maps with string keys, or JSON objects of the same fields
// where the record has the header content-type: application/json. Decoders
// believe no declared length: whatever it says is held against the bytes that
// remain before memory is taken, and nesting is bounded.
package wire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"strings"

	"github.com/gvbll/gvbll/pipeline/event"
)

// ContentType is the key of the record header that tells the encoding.
const ContentType = "content-type"

// The encodings. MsgPack is meant where the header is missing.
const (
	MsgPack = "application/msgpack"
	JSON    = "application/json"
)

// maxContentType bounds the header's value, in bytes: parameters are parsed into
// a map.
const maxContentType = 256

// Limits bound what one event may bring. Zero fields have defaults.
type Limits struct {
	MaxValue      int     // bytes of a record's value; 4 MiB
	MaxID         int     // bytes of a string id or a class name; 1,024
	MaxNeighbours int     // of one node event; 65,536
	MaxFeatures   int     // numbers of one node event; 1,048,576
	MaxAbs        float32 // of a feature; 1e6
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&l.MaxValue, 4<<20)
	set(&l.MaxID, 1024)
	set(&l.MaxNeighbours, 1<<16)
	set(&l.MaxFeatures, 1<<20)
	if l.MaxAbs == 0 {
		l.MaxAbs = 1e6
	}
	l.MaxAbs = min(l.MaxAbs, math.MaxFloat32) // infinity is no feature, whatever is asked for
	return l
}

// Decoder decodes the events of the input topics. It is not safe for
// concurrent use.
type Decoder struct {
	Limits Limits
	// Memory holds what msgpack events bring; nil gives every event memory of
	// its own.
	Memory *Memory
	in     input
}

// Node decodes a node event into n, whatever n held. A reason says that the
// event is refused, and detail why, in one line; without one the event
// satisfies what event.Node promises. A null value is the departure of the node
// that the key names.
func (d *Decoder) Node(o *event.Origin, n *event.Node) (reason event.Reason, detail string) {
	*n = event.Node{Origin: o}
	limits := d.Limits.withDefaults()
	d.in.memory = d.Memory
	if o.Value == nil {
		return verdict(d.in.departure(o.Key, n, limits))
	}
	return verdict(d.decode(o, limits,
		func(in *input) error { return in.node(n, limits) },
		func(b []byte) error { return nodeJSON(b, n, limits) },
		func() error { return d.in.checkNode(n, limits) }))
}

// Label decodes a label event into l, whatever l held, as Node does.
func (d *Decoder) Label(o *event.Origin, l *event.Label) (reason event.Reason, detail string) {
	*l = event.Label{Origin: o}
	limits := d.Limits.withDefaults()
	d.in.memory = d.Memory
	return verdict(d.decode(o, limits,
		func(in *input) error { return in.label(l, limits) },
		func(b []byte) error { return labelJSON(b, l, limits) },
		func() error { return nil }))
}

// decode is what both events have in common: it picks the encoding, and checks
// what either of them gave.
func (d *Decoder) decode(o *event.Origin, limits Limits, msgpack func(*input) error, json func([]byte) error, check func() error) error {
	switch {
	case len(o.Value) == 0:
		return refusef(event.Empty, "the value is empty, or null where that is no departure")
	case len(o.Value) > limits.MaxValue:
		return refusef(event.TooLarge, "the value has %d bytes, at most %d are taken", len(o.Value), limits.MaxValue)
	}
	encoding, err := encodingOf(o)
	if err != nil {
		return err
	}
	if encoding == JSON {
		err = json(o.Value)
	} else {
		d.in.reset(o.Value)
		if err = msgpack(&d.in); err == nil {
			err = d.in.end()
		}
		d.in.reset(nil) // the record's value is the caller's
	}
	if err != nil {
		return err
	}
	return check()
}

// encodingOf reads the content-type header; a record without one is msgpack.
func encodingOf(o *event.Origin) (string, error) {
	for _, h := range o.Headers {
		if !strings.EqualFold(h.Key, ContentType) {
			continue
		}
		if len(h.Value) > maxContentType {
			return "", refusef(event.Undecodable, "a content-type of %d bytes, at most %d are taken", len(h.Value), maxContentType)
		}
		kind, _, err := mime.ParseMediaType(string(h.Value))
		switch {
		case err != nil:
		case kind == JSON:
			return JSON, nil
		case kind == MsgPack, kind == "application/x-msgpack":
			return MsgPack, nil
		}
		return "", refusef(event.Undecodable, "content-type %.60q, want %s or %s", h.Value, MsgPack, JSON)
	}
	return MsgPack, nil
}

// refusal is an event that is not taken, as an error inside this package.
type refusal struct {
	reason event.Reason
	detail string
}

func (r *refusal) Error() string { return string(r.reason) + ": " + r.detail }

func refusef(reason event.Reason, format string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// verdict turns an error of decoding into what the dead letter says.
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
