package pipeline

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// ids has the id of each node number. Integer ids cost 9 bytes each.
type ids struct {
	text    []bool               // whether the id is a string
	numbers *kernel.Table[int64] // the integer, or the string's index in strings
	strings []string
	unused  []int32 // indices of the empty elements of strings
	bytes   int     // total length of strings
}

// set sets the id of number v, which is the next number or one that was cleared.
func (l *ids) set(v int32, id event.ID) {
	if int(v) == len(l.text) {
		l.text = append(l.text, false)
		l.numbers.Grow(1)
	}
	at := l.numbers.At(v)
	if l.text[v] = id.Str != ""; !l.text[v] {
		*at = id.Num
		return
	}
	l.bytes += len(id.Str)
	if last := len(l.unused) - 1; last >= 0 {
		*at = int64(l.unused[last])
		l.unused = l.unused[:last]
		l.strings[*at] = id.Str
		return
	}
	*at = int64(len(l.strings))
	l.strings = append(l.strings, id.Str)
}

// clear sets the id of number v to 0.
func (l *ids) clear(v int32) {
	at := l.numbers.At(v)
	if l.text[v] {
		l.bytes -= len(l.strings[*at])
		l.strings[*at] = ""
		l.unused = append(l.unused, int32(*at))
		l.text[v] = false
	}
	*at = 0
}

// at returns the id of number v.
func (l *ids) at(v int32) event.ID {
	n := *l.numbers.At(v)
	if l.text[v] {
		return event.ID{Str: l.strings[n]}
	}
	return event.ID{Num: n}
}

// texts returns the number of ids that are strings.
func (l *ids) texts() int { return len(l.strings) - len(l.unused) }

// declareIDs declares n ids as three tensors: the length of each id's string, 0 for an
// integer; the integers; and the strings' bytes. strings and bytes are the number and
// total length of the strings. Each call of walk starts a new walk over the ids: the
// function that it returns gives one id a call. When restoring, put is called with each
// id; it must clone an id to keep it.
func declareIDs(s *snapshot.Schema, name string, n, strings, bytes int, walk func() func() event.ID, put func(i int, id event.ID) error) {
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
				return snapshot.Damaged("%s: id %d is %d bytes long, there are %d more and %d integers", name, i, length, len(text), len(integers))
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
