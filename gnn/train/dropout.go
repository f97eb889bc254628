package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
)

// SampleDropout calls each for n embeddings of the targets, len(targets)×Out
// row-major, each with its own dropout, as in training (Gal and Ghahramani:
// Dropout as a Bayesian Approximation, 2016). The slice holds until each
// returns. Data need no labels. It panics when they do not fit the encoder.
func SampleDropout(enc gnn.Encoder, data Data, targets []int32, chance float64, n int, seed uint64, each func(z []float32)) {
	network := newNetwork(importModel[float32](enc), data, targets, newDropout[float32](chance, rand.NewPCG(seed, 2)), false)
	for range n {
		each(network.forward())
	}
}

// dropout leaves out entries, each with the same chance, and enlarges the rest
// so that the expectation stays (Srivastava et al. 2014; inverted dropout). The
// chance is rounded to 1/65536.
type dropout[T float] struct {
	chance float64
	scale  T
	below  uint32 // an entry stays when its draw of 16 bits is below
	draws  draws
}

func newDropout[T float](chance float64, source *rand.PCG) *dropout[T] {
	d := &dropout[T]{chance: chance, scale: 1, below: 1 << 16, draws: draws{source: source}}
	if chance > 0 {
		d.below = max(uint32((1-chance)*(1<<16)+0.5), 1)
		d.scale = (1 << 16) / T(d.below)
	}
	return d
}

// dense sets dst to what is left of src, which may be the same.
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

// sparse sets dst, which has room, to what is left of src.
func (d *dropout[T]) sparse(dst, src *sparse[T]) {
	n := 0
	for i := range src.rows() {
		index, value := src.row(i)
		for e, k := range index {
			// Written always, counted if it stays: no branch to mispredict.
			dst.index[n], dst.value[n] = k, T(d.scale*value[e])
			n += toInt(d.draws.next() < d.below)
		}
		dst.start[i+1] = n
	}
}

// activated sets dst to what is left of the activation of src. Every entry
// takes a draw, so which stay does not hang on the weights.
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

// backward turns the gradients of activated's dst, which is x, into those of
// its src. What was left out is zero, and so is its gradient; where ELU is
// below zero its derivative is itself plus 1.
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

// draws gives four draws of 16 bits for each of the source's 64.
type draws struct {
	source *rand.PCG
	bits   uint64
	left   int
	list   []uint16
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

// many returns n draws, which hold until the next call. It begins with a fresh
// one of the source's.
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

// one is 1 for true, without a branch.
func toInt(b bool) int {
	var i int
	if b {
		i = 1
	}
	return i
}
