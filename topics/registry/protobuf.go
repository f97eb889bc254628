package registry

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// protobufReader returns what reads records of a Protobuf schema: before the message stands which one of the file it is.
func protobufReader(s *Schema) (func([]byte) ([]byte, error), error) {
	const file = "schema.proto"
	texts := map[string]string{file: s.Text}
	for _, r := range s.References {
		texts[r.Name] = r.Text
	}
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(texts)}),
		MaxParallelism: 1,
	}
	files, err := c.Compile(context.Background(), file)
	if err != nil {
		return nil, fmt.Errorf("%.200w", err)
	}
	return func(payload []byte) ([]byte, error) {
		if len(payload) > maxProtobuf {
			return nil, fmt.Errorf("a record of %d bytes in Protobuf, the limit is %d", len(payload), maxProtobuf)
		}
		of, rest, err := messageOf(files[0].Messages(), payload)
		if err != nil {
			return nil, err
		}
		m := dynamicpb.NewMessage(of)
		if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth}).Unmarshal(rest, m); err != nil {
			return nil, fmt.Errorf("%.200w", err)
		}
		var r protobufRecord
		r.message(m)
		return r.b, r.err
	}, nil
}

// messageOf cuts the path of a message in its file from a payload: a number of places, each within the message before. A
// single 0 is the first message.
func messageOf(messages protoreflect.MessageDescriptors, payload []byte) (of protoreflect.MessageDescriptor, rest []byte, err error) {
	next := func() int64 {
		x, n := binary.Varint(payload)
		if n <= 0 {
			err = errors.New("the place of the message in its file is cut off")
			return 0
		}
		payload = payload[n:]
		return x
	}
	steps := next()
	if steps < 0 || steps > maxDepth {
		return nil, nil, fmt.Errorf("a message %d deep in its file", steps)
	}
	for i := int64(0); i < max(steps, 1); i++ {
		at := int64(0)
		if steps > 0 {
			at = next()
		}
		if err == nil && (at < 0 || at >= int64(messages.Len())) {
			err = fmt.Errorf("message %d, the schema has %d there", at, messages.Len())
		}
		if err != nil {
			return nil, nil, err
		}
		of = messages.Get(int(at))
		messages = of.Messages()
	}
	return of, payload, nil
}

type protobufRecord struct{ jsonWriter }

// message writes a message: fields by the names of the schema, 64-bit integers as numbers, and what is not given as
// its default, or as null where the schema tells the two apart.
func (r *protobufRecord) message(m protoreflect.Message) {
	if r.failed() != nil {
		return
	}
	d := m.Descriptor()
	switch name := string(d.FullName()); {
	case name == "google.protobuf.Timestamp":
		at := time.Unix(m.Get(d.Fields().ByName("seconds")).Int(), m.Get(d.Fields().ByName("nanos")).Int())
		r.text(at.UTC().Format(time.RFC3339Nano))
		return
	case strings.HasPrefix(name, "google.protobuf.") && strings.HasSuffix(name, "Value") && d.Fields().Len() == 1:
		f := d.Fields().Get(0)
		r.value(f, m.Get(f))
		return
	}
	r.begin('{')
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		r.key(string(f.Name()))
		switch v := m.Get(f); {
		case f.HasPresence() && !m.Has(f):
			r.b = append(r.next(), "null"...)
		case f.IsList():
			r.begin('[')
			for i := range v.List().Len() {
				r.value(f, v.List().Get(i))
			}
			r.end(']')
		case f.IsMap():
			r.mapOf(f, v.Map())
		default:
			r.value(f, v)
		}
	}
	r.end('}')
}

// mapOf writes a map, in any order of its keys: events do not depend on it.
func (r *protobufRecord) mapOf(f protoreflect.FieldDescriptor, m protoreflect.Map) {
	r.begin('{')
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		r.key(k.String())
		r.value(f.MapValue(), v)
		return r.err == nil
	})
	r.end('}')
}

func (r *protobufRecord) value(f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch x := v.Interface().(type) {
	case bool:
		r.b = strconv.AppendBool(r.next(), x)
	case int32, int64:
		r.b = strconv.AppendInt(r.next(), v.Int(), 10)
	case uint32, uint64:
		r.b = strconv.AppendUint(r.next(), v.Uint(), 10)
	case float32:
		r.number(float64(x), 32)
	case float64:
		r.number(x, 64)
	case string:
		r.text(x)
	case []byte:
		r.text(base64.StdEncoding.EncodeToString(x))
	case protoreflect.EnumNumber:
		if d := f.Enum().Values().ByNumber(x); d != nil {
			r.text(string(d.Name()))
		} else {
			r.b = strconv.AppendInt(r.next(), int64(x), 10)
		}
	case protoreflect.Message:
		r.message(x)
	}
}
