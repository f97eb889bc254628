package table

import (
	"math"
	"math/rand/v2"

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
		if argmax(p) == int(y) {
			loss.Correct++
		}
		at := p[y]
		loss.ELL += (at - softmax(p)) / n
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
		softmax(dst[lo : lo+classes])
	}
}

// softmax turns logits into probabilities, and returns the logarithm of the sum of
// their exponentials. It uses math.Exp2, which has the same bits on every amd64
// machine; math.Exp has not.
func softmax(a []float64) (logSum float64) {
	top, sum := a[argmax(a)], 0.0
	for c, x := range a {
		a[c] = math.Exp2((x - top) * math.Log2E)
		sum += a[c]
	}
	for c := range a {
		a[c] /= sum
	}
	return top + math.Log(sum)
}

// argmax returns the lowest index of the largest entry.
func argmax(a []float64) (best int) {
	for c, x := range a {
		if x > a[best] {
			best = c
		}
	}
	return best
}
