package store

import (
	"math"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// DeclareIDs declares n ids as three tensors: the length of each id's string, 0 for an
// integer; the integers; and the strings' bytes. strings and bytes are the number and
// total length of the strings. Each call of walk starts a new walk over the ids: the
// function that it returns gives one id a call. When restoring, put is called with each
// id; it must clone an id to keep it.
func DeclareIDs(s *snapshot.Schema, name string, n, strings, bytes int, walk func() func() event.ID, put func(i int, id event.ID) error) {
	length, integer, str := walk(), walk(), walk()
	lengths := snapshot.Column(s, name+".lengths", func() int32 { return int32(len(length().Str)) }, s.Len(name+".lengths", n, math.MaxInt))
	integers := snapshot.Column(s, name+".integers", func() int64 {
		for {
			if id := integer(); id.Str == "" {
				return id.Num
			}
		}
	}, s.Len(name+".integers", n-strings, math.MaxInt))
	var room []byte
	text := string(snapshot.Lists(s, name+".text", func() []byte {
		room = append(room[:0], str().Str...)
		return room
	}, s.Len(name+".text", bytes, math.MaxInt)))
	s.Check(func() error {
		for i, length := range lengths {
			var id event.ID
			switch {
			case length == 0 && len(integers) > 0:
				id.Num, integers = integers[0], integers[1:]
			case length > 0 && int(length) <= len(text):
				id.Str, text = text[:length], text[length:]
			default:
				return snapshot.Damaged("%s: id %d is %d bytes long, there are %d more and %d integers", name, i, length,
					len(text), len(integers))
			}
			if err := put(i, id); err != nil {
				return err
			}
		}
		if len(integers) > 0 || text != "" {
			return snapshot.Damaged("%s: %d integers and %d bytes more than ids", name, len(integers), len(text))
		}
		return nil
	})
}
