package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
)

// SampleDropout calls each with n samples of the targets' embeddings,
// len(targets)×Out row-major, each with its own dropout as in training (Gal and
// Ghahramani: Dropout as a Bayesian Approximation, 2016). The slice is valid
// until each returns. The data need no labels. It panics when they do not fit
// the encoder.
func SampleDropout(enc *gnn.SAGE, data Data, targets []int32, chance float64, n int, seed uint64, each func(z []float32)) {
	m := &model[float32]{kind: enc.Kind(), activation: enc.Activation(), in: enc.In()}
	in := enc.In()
	for _, l := range enc.Layers() {
		m.layers = append(m.layers, importSAGE[float32](l, in))
		in = len(l.Bias)
	}
	network := newNetwork(m, data, targets, newDropout[float32](chance, rand.NewPCG(seed, 2)), false)
	for range n {
		each(network.forward())
	}
}

// dropout sets entries to zero, each with the same probability, and scales the
// rest so that the expectation is unchanged: inverted dropout (Srivastava et
// al.: Dropout, 2014). The probability is rounded to a multiple of 1/65536, as
// draws have 16 bits.
type dropout[T float] struct {
	chance float64
	scale  T
	below  uint32 // an entry is kept if its draw is below this; at least 1
	draws  draws
}

func newDropout[T float](chance float64, source *rand.PCG) *dropout[T] {
	d := &dropout[T]{chance: chance, scale: 1, below: 1 << 16, draws: draws{source: source}}
	if chance > 0 {
		d.below = max(uint32(float64((1-chance)*(1<<16))+0.5), 1)
		d.scale = (1 << 16) / T(d.below)
	}
	return d
}

// dense sets dst to src after dropout; they may be the same slice.
func (d *dropout[T]) dense(dst, src []T) {
	if d.chance == 0 {
		copy(dst, src)
		return
	}
	draws := d.draws.batch(kernel.Draws(len(src)))
	if x, ok := any(src).([]float32); ok {
		kernel.Dropout(any(dst).([]float32), x, draws, d.below, float32(d.scale))
		return
	}
	for i, v := range src {
		dst[i] = 0
		if uint32(draws[i]) < d.below {
			dst[i] = d.scale * v
		}
	}
}

// sparse sets dst, which has room for src, to src after dropout.
func (d *dropout[T]) sparse(dst, src *sparse[T]) {
	n := 0
	for i := range src.rows() {
		index, value := src.row(i)
		for e, k := range index {
			// Always written, counted if kept: no branch to mispredict.
			dst.index[n], dst.value[n] = k, T(d.scale*value[e])
			n += toInt(d.draws.next() < d.below)
		}
		dst.start[i+1] = n
	}
}

// activated sets dst to the activation of src after dropout. Every entry uses one
// draw, so which entries are kept does not depend on the weights.
func (d *dropout[T]) activated(dst, src []T, activation gnn.Activation) {
	if activation == gnn.ELU {
		for i, v := range src {
			if v < 0 {
				v = exp(v) - 1
			}
			dst[i] = v
		}
		d.dense(dst, dst)
		return
	}
	rectify(dst, src)
	d.dense(dst, dst)
}

// backward turns the gradient of activated's dst, whose values are x, into the
// gradient of its src. A dropped entry is zero, and so is its gradient. A kept one
// has slope scale where it is positive; below zero x = scale·(e^u - 1) has slope
// scale·e^u = scale + x.
func (d *dropout[T]) backward(grad, x []T, activation gnn.Activation) {
	if activation != gnn.ELU {
		gate(grad, x, d.scale)
		return
	}
	keep := [2]T{0, d.scale}
	for i, v := range x {
		slope := keep[toInt(v != 0)]
		if v < 0 {
			slope += v
		}
		grad[i] *= slope
	}
}

// draws splits each of the source's 64-bit numbers into four draws of 16 bits,
// lowest first.
type draws struct {
	source *rand.PCG
	bits   uint64   // draws not used yet, in the low bits
	left   int      // how many
	list   []uint16 // storage of batch
}

func (d *draws) next() uint32 {
	if d.left == 0 {
		d.bits, d.left = d.source.Uint64(), 4
	}
	d.left--
	draw := uint32(d.bits & (1<<16 - 1))
	d.bits >>= 16
	return draw
}

// batch returns n draws, valid until the next call. It begins with a new number of
// the source.
func (d *draws) batch(n int) []uint16 {
	d.left = 0
	n4 := (n + 3) &^ 3
	d.list = kernel.Resize(d.list, n4)
	list := d.list
	for i := 0; i < n4; i += 4 {
		bits := d.source.Uint64()
		list[i], list[i+1], list[i+2], list[i+3] = uint16(bits), uint16(bits>>16), uint16(bits>>32), uint16(bits>>48)
	}
	return list
}

// toInt is 1 for true and 0 for false, without a branch.
func toInt(b bool) int {
	var i int
	if b {
		i = 1
	}
	return i
}
