package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
)

// ids is a growing list of ids.
type ids struct {
	text     []bool // of each, whether it is a string
	integers *kernel.Table[int64]
	strings  []string
	bytes    int // of the strings
}

func (l *ids) add(id event.ID) {
	l.text = append(l.text, id.Str != "")
	if id.Str == "" {
		l.integers.Grow(1)
		*l.integers.At(int32(l.integers.Len() - 1)) = id.Num
		return
	}
	l.strings = append(l.strings, id.Str)
	l.bytes += len(id.Str)
}

// at returns the ids of the given numbers. It takes time in proportion to all of
// them if there are both integers and strings.
func (l *ids) at(numbers []int32) []event.ID {
	found := make([]event.ID, len(numbers))
	strings, passed := 0, int32(0) // among the first so many
	order := make([]int, len(numbers))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	for _, i := range order {
		v := numbers[i]
		switch {
		case len(l.strings) == 0:
		case l.integers.Len() == 0:
			strings = int(v)
		default:
			for ; passed < v; passed++ {
				if l.text[passed] {
					strings++
				}
			}
		}
		if l.text[v] {
			found[i] = event.ID{Str: l.strings[strings]}
		} else {
			found[i] = event.ID{Num: *l.integers.At(v - int32(strings))}
		}
	}
	return found
}

// walk returns a function that returns each id in turn.
func (l *ids) walk() func() event.ID {
	i, integer, text := -1, int32(-1), -1
	return func() event.ID {
		i++
		if l.text[i] {
			text++
			return event.ID{Str: l.strings[text]}
		}
		integer++
		return event.ID{Num: *l.integers.At(integer)}
	}
}

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
