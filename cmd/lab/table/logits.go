package table

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/gnn/train"
)

// logits trains a GNN whose outputs are the logits of the classes, as users of PyTorch
// Geometric build it: by the mean cross-entropy, without a layer of its own.
type logits struct{ classes int }

var _ train.Head = (*logits)(nil)

func (*logits) Params() [][]float64 { return nil }
func (*logits) Grads() [][]float64  { return nil }

// Loss implements train.Head.
func (h *logits) Loss(a []float64, labels []int32, _, _ int, _ *rand.Rand, da []float64) (loss train.Loss) {
	n := float64(len(labels))
	for i, y := range labels {
		p := da[i*h.classes : (i+1)*h.classes]
		copy(p, a[i*h.classes:])
		if floats.MaxIdx(p) == int(y) {
			loss.Correct++
		}
		at := p[y]
		loss.ELL += (at - backtest.Softmax(p)) / n
		p[y]--
		for c := range p {
			p[c] /= n
		}
	}
	loss.Total = -loss.ELL
	return loss
}

// probabilities computes softmax(a/T) for rows of logits, at temperature T, into dst.
func probabilities(a []float32, classes int, temperature float64, dst []float64) {
	for i, x := range a {
		dst[i] = float64(x) / temperature
	}
	for lo := 0; lo < len(dst); lo += classes {
		backtest.Softmax(dst[lo : lo+classes])
	}
}
