package gp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas64"
)

// maximise maximises the bound of the labelled rows x plus the kernel's log prior over b's
// parameters, and leaves b's process at them.
func (b *bound) maximise(ctx context.Context, x blas64.General, labels []int32, prior hyperprior, cfg Config, rng *rand.Rand, progress func(Progress)) error {
	n, p := len(labels), b.params
	optimiser := newAdam(len(p.all))
	order, y := make([]int, n), make([]int32, cfg.Batch)
	for i := range order {
		order[i] = i
	}
	batches := (n + cfg.Batch - 1) / cfg.Batch
	for epoch := range cfg.Epochs {
		if batches > 1 {
			rng.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		report := Progress{Epoch: epoch}
		for batch := range batches {
			if ctx.Err() != nil {
				return fmt.Errorf("epoch %d: %w", epoch, context.Cause(ctx))
			}
			// Batch sizes differ by at most one row.
			rows := order[batch*n/batches : (batch+1)*n/batches]
			for i, row := range rows {
				y[i] = labels[row]
			}
			load := func(lo int, dst blas64.General) {
				for i := range dst.Rows {
					copy(rowOf(dst, i), rowOf(x, rows[lo+i]))
				}
			}
			loss, correct, err := b.estimate(y[:len(rows)], load, rng)
			if err != nil {
				return fmt.Errorf("epoch %d: %w", epoch, err)
			}
			if math.IsNaN(loss) || math.IsInf(loss, 0) {
				return fmt.Errorf("epoch %d: the bound is %v: use a lower learning rate than %v", epoch, -loss, cfg.LearningRate)
			}
			report.Loss += loss / float64(n) / float64(batches)
			report.Correct += correct
			prior.pull(p.kernel, b.grad.kernel)
			done := (float64(epoch) + float64(batch)/float64(batches)) / float64(cfg.Epochs)
			optimiser.step(p.all, b.grad.all, cfg.LearningRate*(1+math.Cos(math.Pi*done))/2)
		}
		if progress != nil {
			progress(report)
		}
	}
	return b.at.set(p)
}

// adam is the optimiser of Kingma & Ba (2015) with the constants that they recommend.
type adam struct {
	first, second  []float64 // moving averages of gradient and squared gradient
	decay1, decay2 float64   // β₁ᵗ and β₂ᵗ
}

func newAdam(n int) *adam {
	return &adam{first: make([]float64, n), second: make([]float64, n), decay1: 1, decay2: 1}
}

// step moves params one step of the given rate down the gradient.
func (a *adam) step(params, grad []float64, rate float64) {
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	a.decay1 *= beta1
	a.decay2 *= beta2
	rate /= 1 - a.decay1
	correct := 1 / (1 - a.decay2)
	for i, g := range grad {
		m := float64(beta1*a.first[i]) + float64((1-beta1)*g)
		v := float64(beta2*a.second[i]) + float64((1-beta2)*g*g)
		a.first[i], a.second[i] = m, v
		params[i] -= rate * m / (math.Sqrt(v*correct) + epsilon)
	}
}
