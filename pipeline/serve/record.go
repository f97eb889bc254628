package serve

import (
	"encoding/binary"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// appendLabel encodes a label without its node: its class by name and by index, its
// time, and its origin. Integers are varints. A string is preceded by its length, bytes
// by 1 + their length; nil bytes are 0.
func appendLabel(b []byte, l *event.Label) []byte {
	o := l.Origin
	b = store.AppendString(b, l.Class)
	b = binary.AppendVarint(b, int64(l.Index))
	b = binary.AppendVarint(b, l.Time)
	b = store.AppendString(b, o.Topic)
	b = binary.AppendVarint(b, int64(o.Partition))
	b = binary.AppendVarint(b, o.Offset)
	b = binary.AppendVarint(b, o.Time)
	b = store.AppendBytes(b, o.Key)
	b = store.AppendBytes(b, o.Value)
	b = binary.AppendUvarint(b, uint64(len(o.Headers)))
	for _, h := range o.Headers {
		b = store.AppendString(b, h.Key)
		b = store.AppendBytes(b, h.Value)
	}
	return b
}

// readLabel reads what appendLabel appended.
func readLabel(r *store.Reader) (l event.Label) {
	o := &event.Origin{}
	l.Origin = o
	l.Class = r.String()
	l.Index = r.Int32()
	l.Time = r.Int()
	o.Topic = r.String()
	o.Partition = r.Int32()
	o.Offset = r.Int()
	o.Time = r.Int()
	o.Key = r.Bytes()
	o.Value = r.Bytes()
	for headers := r.Uint(); headers > 0 && !r.Bad; headers-- {
		o.Headers = append(o.Headers, event.Header{Key: r.String(), Value: r.Bytes()})
	}
	return l
}
