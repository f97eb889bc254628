package structure

import (
	"github.com/gvbll/gvbll/gnn/kernel"
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
