package gnn

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
)

// Linear is a linear map with bias, y = Weight·x + Bias. Out is len(Bias).
type Linear struct {
	Weight []float32 // Out×In, row-major
	Bias   []float32 // Out
}

// linear is a linear map with bias in the layout in which it is applied. With more
// than one group, input and output are cut in as many parts, and each part of the
// output depends on its part of the input alone, as in a grouped convolution.
type linear struct {
	groups  int
	in, out int       // of all groups together
	weight  []float32 // by group, transposed: in/groups × out/groups row-major
	bias    []float32 // out
}

// newLinear returns the map of one group with the given weight, out×in row-major.
func newLinear(w, bias []float32) linear {
	out := len(bias)
	in := len(w) / out
	return linear{groups: 1, in: in, out: out, weight: transpose(w, out, in), bias: bias}
}

// apply sets the rows of dst, n×out, to the images of the rows of x, n×in.
func (a *linear) apply(dst, x []float32) {
	if a.groups == 1 {
		n := len(dst) / a.out
		for i := range n {
			copy(dst[i*a.out:], a.bias)
		}
		kernel.ProductRows(dst, x[:n*a.in], a.weight, n, a.in, a.out)
		return
	}
	in, out := a.in/a.groups, a.out/a.groups
	for ; len(dst) > 0; dst, x = dst[a.out:], x[a.in:] {
		copy(dst, a.bias)
		for k := range a.groups {
			kernel.Product(dst[k*out:(k+1)*out], x[k*in:(k+1)*in], a.weight[k*in*out:(k+1)*in*out])
		}
	}
}

// transpose returns the transpose of w, rows×cols row-major.
func transpose(w []float32, rows, cols int) []float32 {
	t := make([]float32, len(w))
	kernel.Transpose(t, w, rows, cols)
	return t
}

// maxWeight bounds a weight: with features of ±1,000,000, those of a million neighbours add up to
// less than a float32 holds.
const maxWeight = 1e12

// checkWeights returns an error unless the weights w are rows×cols numbers within ±maxWeight.
// rows is at least 1.
func checkWeights(name string, w []float32, rows, cols int) error {
	if len(w)%rows != 0 || len(w)/rows != cols {
		return fmt.Errorf("%d %s weights, want %d×%d", len(w), name, rows, cols)
	}
	for i, x := range w {
		if !(math.Abs(float64(x)) <= maxWeight) {
			return fmt.Errorf("%s weight %d is %v, want a finite number within ±%g", name, i, x, maxWeight)
		}
	}
	return nil
}

// inLayer returns the first of the errors that is not nil, as one of layer l.
func inLayer(l int, errs ...error) error {
	if err := cmp.Or(errs...); err != nil {
		return fmt.Errorf("layer %d: %w", l, err)
	}
	return nil
}
