package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
)

// ids is a list of ids by number, which may be set anew.
type ids struct {
	text    []bool               // of each, whether it is a string
	numbers *kernel.Table[int64] // the integer, or where its string stands in strings
	strings []string
	spare   []int32 // places in strings that are empty
	bytes   int     // of the strings
}

// set makes id that of number v: the next one, or one that is cleared.
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
	if last := len(l.spare) - 1; last >= 0 {
		*at = int64(l.spare[last])
		l.spare = l.spare[:last]
		l.strings[*at] = id.Str
		return
	}
	*at = int64(len(l.strings))
	l.strings = append(l.strings, id.Str)
}

// clear forgets the id of number v, which is 0 then.
func (l *ids) clear(v int32) {
	at := l.numbers.At(v)
	if l.text[v] {
		l.bytes -= len(l.strings[*at])
		l.strings[*at] = ""
		l.spare = append(l.spare, int32(*at))
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

// texts is how many of the ids are strings.
func (l *ids) texts() int { return len(l.strings) - len(l.spare) }

// idParts are n ids as tensors: of each, its length as a string or 0 for an
// integer; the integers; the bytes of the strings, so many in all. A call of
// walk begins at the first id.
func idParts(name string, n, strings, bytes int, walk func() func() event.ID) []safetensors.Part {
	lengths, integers, text := walk(), walk(), walk()
	return []safetensors.Part{
		column(name+".lengths", n, func() int32 { return int32(len(lengths().Str)) }),
		column(name+".integers", n-strings, func() int64 {
			for {
				if id := integers(); id.Str == "" {
					return id.Num
				}
			}
		}),
		safetensors.NewPart[uint8](name+".text", func(b []byte) []byte { return append(b, text().Str...) }, bytes),
	}
}

// readIDs is the inverse of idParts. It calls take for each id in turn.
func readIDs(file *safetensors.Reader, name string, take func(i int, id event.ID) error) error {
	lengths, err := safetensors.Read[int32](file, name+".lengths", file.Len(name+".lengths"))
	if err != nil {
		return err
	}
	integers, err := safetensors.Read[int64](file, name+".integers", file.Len(name+".integers"))
	if err != nil {
		return err
	}
	bytes, err := safetensors.Read[uint8](file, name+".text", file.Len(name+".text"))
	if err != nil {
		return err
	}
	text := string(bytes) // one string, of which ids are parts
	for i, length := range lengths {
		var id event.ID
		switch {
		case length == 0 && len(integers) > 0:
			id.Num, integers = integers[0], integers[1:]
		case length > 0 && int(length) <= len(text):
			id.Str, text = text[:length], text[length:]
		default:
			return damaged("%s: id %d is %d bytes long, there are %d more and %d integers", name, i, length, len(text), len(integers))
		}
		if err := take(i, id); err != nil {
			return err
		}
	}
	if len(integers) > 0 || text != "" {
		return damaged("%s: %d integers and %d bytes more than ids", name, len(integers), len(text))
	}
	return nil
}

// column is a tensor of one value after the other.
func column[T safetensors.Element](name string, n int, next func() T) safetensors.Part {
	return safetensors.NewPart[T](name, func(b []byte) []byte { return safetensors.Append(b, next()) }, n)
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}
