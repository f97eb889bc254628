package table

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// propagation is label propagation (Zhu, Ghahramani and Lafferty 2003): the harmonic
// function on the graph whose values at labelled nodes are their labels,
//
//	f_v = (Σ_{u ∈ N(v)} f_u + π) / (deg v + 1)  for a node v without a label.
//
// The class shares π stand for one more neighbour, so that a node without neighbours has
// them, and no class has probability 0.
type propagation struct {
	*surroundings
	classes int
	f       []float64 // nodes × classes
}

func newPropagation(tr *trainer, stream *replay, protocol string) *propagation {
	p := &propagation{surroundings: newSurroundings(stream, protocol), classes: len(tr.data.Classes)}
	p.f = make([]float64, len(stream.x)*p.classes)
	pi := p.Shares(p.classes)
	for lo := 0; lo < len(p.f); lo += p.classes {
		copy(p.f[lo:], pi)
	}
	return p
}

func (p *propagation) predict(t int, probs []float64) {
	lo, hi := p.stream.span(t)
	p.arrive(lo, hi)
	p.settle(hi)
	copy(probs, p.f[lo*p.classes:hi*p.classes])
}

func (p *propagation) learn(nodes []int32) { p.reveal(nodes) }

// The sweeps of settle end when no value changes by more than leastChange, which takes a
// dozen, or after mostSweeps.
const (
	leastChange = 1e-6
	mostSweeps  = 200
)

// settle sets f to the harmonic function on the first n nodes, or on the whole graph if
// that is what is seen.
func (p *propagation) settle(n int) {
	if !p.grows {
		n = len(p.Label)
	}
	var open []int
	for v, y := range p.Label[:n] {
		if y == dataset.Unlabelled {
			open = append(open, v)
			continue
		}
		f := p.f[v*p.classes : (v+1)*p.classes]
		clear(f)
		f[y] = 1
	}
	pi, next := p.Shares(p.classes), make([]float64, p.classes)
	for range mostSweeps {
		most := 0.0
		for _, v := range open {
			copy(next, pi)
			for _, u := range p.Near[v] {
				floats.AddScaled(next, 1, p.f[int(u)*p.classes:(int(u)+1)*p.classes])
			}
			f := p.f[v*p.classes : (v+1)*p.classes]
			for c, x := range next {
				x /= float64(len(p.Near[v]) + 1)
				most = max(most, math.Abs(x-f[c]))
				f[c] = x
			}
		}
		if most < leastChange {
			return
		}
	}
}
