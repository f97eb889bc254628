package train

import (
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// gat is a graph attention layer, see [gnn.GATLayer]: with p_j = Weight·h_j,
// and for each head its part of p and of the attention weights,
//
//	a_ij = LeakyReLU(AttSrc·p_j + AttDst·p_i)
//	α_ij = softmax_{j ∈ N(i) ∪ {i}} a_ij
//	y_i  = Σ_j α_ij p_j
//
// The heads are concatenated or averaged, then Bias is added. Dropout applies
// to the coefficients α too (Veličković et al. 2018, Section 3.3).
type gat[T float] struct {
	in, heads, channels int
	concat              bool
	weight              param[T] // in×heads·channels
	source, target      param[T] // heads·channels
	bias                param[T]
}

// newGAT makes an initial layer: with concat, heads of out/heads channels that are
// concatenated, else heads of out channels that are averaged.
func newGAT[T float](rng *rand.Rand, in, out, heads int, concat bool) *gat[T] {
	channels := out
	if concat {
		channels = out / heads
	}
	all := heads * channels
	g := &gat[T]{
		in: in, heads: heads, channels: channels, concat: concat, weight: newParam[T](in*all, true),
		source: newParam[T](all, true), target: newParam[T](all, true),
	}
	g.bias = newParam[T](g.width(), false)
	g.weight.glorot(rng, in, all)
	g.source.glorot(rng, heads, channels)
	g.target.glorot(rng, heads, channels)
	return g
}

func (g *gat[T]) export() gnn.GATLayer {
	return gnn.GATLayer{
		Heads: g.heads, Weight: exportWeight(g.weight.value, g.in, g.heads*g.channels),
		AttSrc: exportVector(g.source.value), AttDst: exportVector(g.target.value), Bias: exportVector(g.bias.value),
	}
}

func (g *gat[T]) width() int {
	if g.concat {
		return g.heads * g.channels
	}
	return g.channels
}

func (g *gat[T]) params() []param[T] { return []param[T]{g.weight, g.source, g.target, g.bias} }

// coefficients has an entry for the node itself and for each of its neighbours.
// Attention, the coefficients proper, is computed by every forward.
func (g *gat[T]) coefficients(hood *neighbourhood, n int) sparse[T] {
	coeff := sparse[T]{start: make([]int, 1, n+1)}
	for i, from := range hood.sources[:n] {
		coeff.add(int32(i), 1)
		for _, j := range from {
			if int(j) != i {
				coeff.add(j, 1)
			}
		}
		coeff.endRow()
	}
	return coeff
}

type gatPass[T float] struct {
	*gat[T]
	x       *input[T]
	coeff   sparse[T]
	drop    *dropout[T]
	outputs int

	p, dp            []T // X·weight, rows×heads·channels, and its gradient
	source, target   []T // rows×heads: AttSrc·p and AttDst·p
	dSource, dTarget []T
	score            []T // by head, then by entry of coeff: a before the LeakyReLU
	alpha, kept      []T // likewise: α, and α after dropout
	dAlpha           []T // of one row and head
	dy               []T // of one row: the gradient of each head's output, concatenated
}

func (g *gat[T]) pass(x *input[T], coeff sparse[T], outputs int, drop *dropout[T]) pass[T] {
	all, entries := g.heads*g.channels, len(coeff.index)
	most := 0
	for i := range outputs {
		most = max(most, coeff.start[i+1]-coeff.start[i])
	}
	return &gatPass[T]{
		gat: g, x: x, coeff: coeff, drop: drop, outputs: outputs,
		p: make([]T, x.rows*all), dp: make([]T, x.rows*all),
		source: make([]T, x.rows*g.heads), target: make([]T, x.rows*g.heads),
		dSource: make([]T, x.rows*g.heads), dTarget: make([]T, x.rows*g.heads),
		score: make([]T, g.heads*entries), alpha: make([]T, g.heads*entries), kept: make([]T, g.heads*entries),
		dAlpha: make([]T, most), dy: make([]T, all),
	}
}

// slope is LeakyReLU's below zero.
const slope = 0.2

func (p *gatPass[T]) forward(state []T) {
	all, c := p.heads*p.channels, p.channels
	p.x.times(p.p, p.weight.value, all)
	for j := range p.x.rows {
		for k := range p.heads {
			part := p.p[j*all+k*c : j*all+(k+1)*c]
			p.source[j*p.heads+k] = dot(part, p.gat.source.value[k*c:])
			p.target[j*p.heads+k] = dot(part, p.gat.target.value[k*c:])
		}
	}
	entries := len(p.coeff.index)
	for k := range p.heads {
		for i := range p.outputs {
			p.attend(i, k, k*entries)
		}
	}
	p.drop.dense(p.kept, p.alpha)
	share := T(1)
	if !p.concat {
		share = 1 / T(p.heads)
	}
	width := p.width()
	for i := range p.outputs {
		y := state[i*width : (i+1)*width]
		copy(y, p.bias.value)
		index, _ := p.coeff.row(i)
		for k := range p.heads {
			part := y
			if p.concat {
				part = y[k*c : (k+1)*c]
			}
			kept := p.kept[k*entries+p.coeff.start[i] : k*entries+p.coeff.start[i+1]]
			if share != 1 {
				for t, a := range kept {
					p.dAlpha[t] = a * share
				}
				kept = p.dAlpha[:len(kept)]
			}
			gather(part, index, kept, p.p[k*c:], all)
		}
	}
}

// attend sets node i's scores and attention of head k, whose entries begin at base.
func (p *gatPass[T]) attend(i, k, base int) {
	from, to := p.coeff.start[i], p.coeff.start[i+1]
	score, alpha := p.score[base+from:base+to], p.alpha[base+from:base+to]
	own := p.target[i*p.heads+k]
	var most T
	for t, j := range p.coeff.index[from:to] {
		a := p.source[int(j)*p.heads+k] + own
		score[t] = a
		if a < 0 {
			a *= slope
		}
		alpha[t] = a
		if t == 0 || a > most {
			most = a
		}
	}
	total := T(0)
	for t, a := range alpha {
		alpha[t] = exp(a - most)
		total += alpha[t]
	}
	for t := range alpha {
		alpha[t] /= total
	}
}

func (p *gatPass[T]) backward(grad []T) {
	all, c, entries, width := p.heads*p.channels, p.channels, len(p.coeff.index), p.width()
	sumRows(p.bias.grad, grad)
	clear(p.dp)
	clear(p.dSource)
	clear(p.dTarget)
	share := 1 / T(p.heads)
	for i := range p.outputs {
		row := grad[i*width : (i+1)*width]
		if p.concat {
			copy(p.dy, row)
		} else {
			for j := range p.dy {
				p.dy[j] = row[j%c] * share
			}
		}
		index, _ := p.coeff.row(i)
		for k := range p.heads {
			at := k*entries + p.coeff.start[i]
			dy := p.dy[k*c : (k+1)*c]
			// Through the sum and dropout to α …
			inner := T(0)
			dAlpha := p.dAlpha[:len(index)]
			for t, j := range index {
				dAlpha[t] = 0
				if kept := p.kept[at+t]; kept != 0 {
					axpy(p.dp[int(j)*all+k*c:int(j)*all+(k+1)*c], kept, dy)
					dAlpha[t] = p.drop.scale * dot(dy, p.p[int(j)*all+k*c:])
				}
				inner += T(p.alpha[at+t] * dAlpha[t])
			}
			// … and through softmax and LeakyReLU to the scores.
			for t, j := range index {
				d := p.alpha[at+t] * (dAlpha[t] - inner)
				if p.score[at+t] < 0 {
					d *= slope
				}
				p.dSource[int(j)*p.heads+k] += d
				p.dTarget[i*p.heads+k] += d
			}
		}
	}
	clear(p.gat.source.grad)
	clear(p.gat.target.grad)
	for j := range p.x.rows {
		for k := range p.heads {
			lo, hi := k*c, (k+1)*c
			part, dPart := p.p[j*all+lo:j*all+hi], p.dp[j*all+lo:j*all+hi]
			s, t := p.dSource[j*p.heads+k], p.dTarget[j*p.heads+k]
			axpy(p.gat.source.grad[lo:hi], s, part)
			axpy(p.gat.target.grad[lo:hi], t, part)
			axpy(dPart, s, p.gat.source.value[lo:hi])
			axpy(dPart, t, p.gat.target.value[lo:hi])
		}
	}
	p.x.backward(p.weight.grad, p.dp, p.weight.value, all)
}
