package gnn

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// stateDict reads the layers of an encoder from named tensors. The first error
// stays, and what is read after it is empty.
type stateDict struct {
	rest map[string]safetensors.Tensor // not read yet
	conv func(l int) string            // what the names of layer l begin with
	err  error
}

func newStateDict(tensors map[string]safetensors.Tensor) *stateDict {
	d := &stateDict{
		rest: maps.Clone(tensors),
		conv: func(l int) string { return fmt.Sprintf("convs.%d.", l) },
	}
	if d.hasPrefix("conv1.") {
		d.conv = func(l int) string { return fmt.Sprintf("conv%d.", l+1) }
	}
	return d
}

// layers calls read with the prefix of each layer's names, at least once, and
// then makes it an error if tensors are left.
func (d *stateDict) layers(read func(prefix string)) error {
	for l := 0; d.err == nil && (l == 0 || d.hasPrefix(d.conv(l))); l++ {
		read(d.conv(l))
	}
	if d.err == nil && len(d.rest) > 0 {
		d.err = fmt.Errorf("%d tensors of no layer of such an encoder, first %.80q", len(d.rest), slices.Min(slices.Collect(maps.Keys(d.rest))))
	}
	return d.err
}

func (d *stateDict) has(name string) bool {
	_, ok := d.rest[name]
	return ok
}

func (d *stateDict) hasPrefix(prefix string) bool {
	for name := range d.rest {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// take returns the named tensor's elements, row-major, and its shape, of the
// given number of dimensions, none of them 0.
func (d *stateDict) take(name string, dims int) (values []float32, shape []int) {
	shape = make([]int, dims)
	if d.err != nil {
		return nil, shape
	}
	t, ok := d.rest[name]
	delete(d.rest, name)
	switch {
	case !ok:
		d.err = fmt.Errorf("no tensor %s", name)
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

// want makes it an error if the named tensor's shape is not the one that
// others ask for.
func (d *stateDict) want(name string, shape []int, want ...int) {
	if d.err == nil && !slices.Equal(shape, want) {
		d.err = fmt.Errorf("tensor %s has shape %v, want %v", name, shape, want)
	}
}

// linear reads prefix+"weight" and prefix+"bias".
func (d *stateDict) linear(prefix string) (l Linear, in int) {
	w, shape := d.take(prefix+"weight", 2)
	b, out := d.take(prefix+"bias", 1)
	d.want(prefix+"weight", shape, out[0], shape[1])
	return Linear{Weight: w, Bias: b}, shape[1]
}

// skip drops a tensor of no use in prediction, if it is there.
func (d *stateDict) skip(name string) { delete(d.rest, name) }
