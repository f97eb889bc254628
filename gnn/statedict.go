package gnn

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// stateDict reads the layers of an encoder from named tensors. After the first
// error, which stays in err, it returns empty tensors.
type stateDict struct {
	names  []string // of all tensors, sorted
	unread map[string]safetensors.Tensor
	conv   func(l int) string // the prefix of layer l's names
	err    error
}

func newStateDict(tensors map[string]safetensors.Tensor) *stateDict {
	d := &stateDict{
		names:  slices.Sorted(maps.Keys(tensors)),
		unread: maps.Clone(tensors),
		conv:   func(l int) string { return fmt.Sprintf("convs.%d.", l) },
	}
	if d.hasPrefix("conv1.") {
		d.conv = func(l int) string { return fmt.Sprintf("conv%d.", l+1) }
	}
	return d
}

// loadLayers makes an encoder of layers. It calls read with the prefix of each layer's names, at least
// once, for the layer and the dimension of its input, and makes it an error if tensors are left unread.
func loadLayers[L any, E Encoder](
	d *stateDict, activation Activation, make func(int, Activation, []L) (E, error), read func(prefix string) (layer L, in int),
) (Encoder, error) {
	var layers []L
	var first int
	for l := 0; d.err == nil && (l == 0 || d.hasPrefix(d.conv(l))); l++ {
		layer, in := read(d.conv(l))
		if layers = append(layers, layer); l == 0 {
			first = in
		}
	}
	if d.err == nil && len(d.unread) > 0 {
		d.err = fmt.Errorf("%d tensors belong to no layer of this encoder, the first is %.80q: save those of its layers alone",
			len(d.unread), slices.Min(slices.Collect(maps.Keys(d.unread))))
	}
	if d.err != nil {
		return nil, d.err
	}
	return make(first, activation, layers)
}

// numbered is a name with a layer's number in it: what is before the number, the number, and the rest. Layers are named conv
// where some are.
var numbered = []*regexp.Regexp{regexp.MustCompile(`^(.*?convs?\.?)([0-9]{1,4})(\..+)$`), regexp.MustCompile(`^(.*?)([0-9]{1,4})(\..+)$`)}

// there lists a few of the names that the file has, and says what those of layers would have to be, if they are numbered under
// another name, or have a prefix.
func (d *stateDict) there() string {
	const few = 4
	if len(d.names) == 0 {
		return ", the file has none"
	}
	text := fmt.Sprintf(": the file has %.80q", d.names[:min(few, len(d.names))])
	if more := len(d.names) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	var stem, name, rest string
	var first, number int // of all names with the stem, of the one that is shown
	for _, form := range numbered {
		for _, n := range d.names {
			m := form.FindStringSubmatch(n)
			if m == nil || name != "" && m[1] != stem {
				continue
			}
			k, _ := strconv.Atoi(m[2]) // of four digits
			if name == "" {
				stem, name, rest, first, number = m[1], n, m[3], k, k
			}
			first = min(first, k)
		}
	}
	if name == "" || stem == "convs." && first == 0 || stem == "conv" && first == 1 {
		return text
	}
	text += fmt.Sprintf("; %.80q would have to be \"convs.%d%.80s\", and so on", name, number-first, rest)
	for _, known := range []string{"convs.", "conv"} {
		if prefix, found := strings.CutSuffix(stem, known); found && prefix != "" {
			return text + fmt.Sprintf(": save {k.removeprefix(%.80[1]q): v for k, v in model.state_dict().items() if "+
				"k.startswith(%.80[1]q)}", prefix)
		}
	}
	return text
}

func (d *stateDict) has(name string) bool {
	_, ok := d.unread[name]
	return ok
}

func (d *stateDict) hasPrefix(prefix string) bool {
	for name := range d.unread {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// relations returns what follows the prefix, up to >, in the names that have it: relations as
// HeteroConv names them, in order. They must all join one type of nodes.
func (d *stateDict) relations(prefix string) (list []string) {
	types := make(map[string]bool)
	for name := range d.unread {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			relation, _, _ := strings.Cut(rest, ">")
			list = append(list, relation)
			parts := strings.Split(relation, "___")
			types[parts[0]], types[parts[len(parts)-1]] = true, true
		}
	}
	if d.err == nil && len(types) > 1 {
		d.err = fmt.Errorf("relations between %d types of nodes: one type is supported, whose kinds of nodes may be features", len(types))
	}
	key := func(relation string) string { // rev_NAME right before NAME
		parts := strings.SplitN(relation, "___", 3)
		name := parts[min(1, len(parts)-1)]
		if forward, reverse := strings.CutPrefix(name, "rev_"); reverse {
			return forward + "\x00"
		}
		return name + "\x01"
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
	return slices.Compact(list)
}

// tensor returns the named tensor's elements, row-major, and its shape, which must
// have the given number of dimensions, none of them 0.
func (d *stateDict) tensor(name string, dims int) (values []float32, shape []int) {
	shape = make([]int, dims)
	if d.err != nil {
		return nil, shape
	}
	t, ok := d.unread[name]
	delete(d.unread, name)
	switch {
	case !ok:
		d.err = fmt.Errorf("no tensor %s%s", name, d.there())
	case len(t.Shape) != dims || slices.Contains(t.Shape, 0):
		d.err = fmt.Errorf("tensor %s has shape %v, want %d dimensions, each at least 1", name, t.Shape, dims)
	default:
		values, err := safetensors.Values[float32](t)
		if err == nil {
			return values, t.Shape
		}
		d.err = fmt.Errorf("tensor %s: %w", name, err)
	}
	return nil, shape
}

// want makes it an error if the named tensor's shape differs from what the other
// tensors require.
func (d *stateDict) want(name string, shape []int, want ...int) {
	if d.err == nil && !slices.Equal(shape, want) {
		d.err = fmt.Errorf("tensor %s has shape %v, want %v", name, shape, want)
	}
}

// linear reads prefix+"weight" and prefix+"bias".
func (d *stateDict) linear(prefix string) (l Linear, in int) {
	w, shape := d.tensor(prefix+"weight", 2)
	b, out := d.tensor(prefix+"bias", 1)
	d.want(prefix+"weight", shape, out[0], shape[1])
	return Linear{Weight: w, Bias: b}, shape[1]
}

// skip drops a tensor that prediction does not need, if it is there.
func (d *stateDict) skip(name string) { delete(d.unread, name) }
