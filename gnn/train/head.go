package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// Head is the loss on top of the embeddings, with parameters of its own: the
// Bayesian last layer.
type Head interface {
	// Loss returns the loss of the embeddings z, len(labels)×Out row-major, in
	// the given epoch of epochs, counted from 0. It sets dz, as long as z, and
	// the slices of Grads to the loss's gradients; it does not add to them. It
	// draws all random numbers from rng.
	Loss(z []float64, labels []int32, epoch, epochs int, rng *rand.Rand, dz []float64) Loss
	// Params returns the parameters, which training changes in place. Params
	// and Grads return the same slices in the same order on every call.
	Params() [][]float64
	Grads() [][]float64
}

// Loss is the value of a loss and its parts.
type Loss struct {
	Total    float64 // the objective: the negative ELBO, eq:elbo
	ELL      float64 // expected log-likelihood per row
	KL       float64 // divergence from the prior, before its weight
	KLWeight float64 // α_KL
	Correct  int     // rows classified as their labels say
}

// FitHead trains the head alone, on the embeddings z, len(labels)×Out row-major,
// of an encoder that stays as it is. Of cfg it reads Out, Epochs, LearningRate
// and Seed. The head is left as the last epoch made it.
//
// It returns an error when shapes or configuration are invalid or the loss is not
// finite, and ctx's cause when ctx is done.
func FitHead(ctx context.Context, z []float32, labels []int32, head Head, cfg Config, progress func(Progress)) (last Progress, err error) {
	if len(labels) == 0 || cfg.Out < 1 || len(z) != len(labels)*cfg.Out {
		return last, fmt.Errorf("train: %d numbers for %d rows of dimension %d, want at least 1 row", len(z), len(labels), cfg.Out)
	}
	if cfg.Epochs < 1 || !(cfg.LearningRate > 0) {
		return last, fmt.Errorf("train: %d epochs with learning rate %v, want positive numbers", cfg.Epochs, cfg.LearningRate)
	}
	l := newLossRows(head, labels, cfg)
	convert(l.z, z)
	opt := newOptimizer(nil, head, cfg)
	for epoch := range cfg.Epochs {
		if last, err = l.epoch(ctx, epoch); err != nil {
			return last, err
		}
		opt.step()
		if progress != nil {
			progress(last)
		}
	}
	return last, nil
}

// lossRows is a head's loss on some rows.
type lossRows struct {
	head   Head
	labels []int32
	cfg    Config
	rng    *rand.Rand
	z, dz  []float64 // rows×Out: the embeddings and their gradients
}

func newLossRows(head Head, labels []int32, cfg Config) *lossRows {
	n := len(labels) * cfg.Out
	return &lossRows{
		head: head, labels: labels, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 3)),
		z: make([]float64, n), dz: make([]float64, n),
	}
}

// epoch computes the loss of z and sets dz and the head's gradients. It returns
// an error when the loss is not finite, and ctx's cause when ctx is done.
func (l *lossRows) epoch(ctx context.Context, epoch int) (Progress, error) {
	p := Progress{Epoch: epoch}
	if err := stopped(ctx, epoch); err != nil {
		return p, err
	}
	p.Loss = l.head.Loss(l.z, l.labels, epoch, l.cfg.Epochs, l.rng, l.dz)
	if math.IsNaN(p.Loss.Total) || math.IsInf(p.Loss.Total, 0) {
		return p, fmt.Errorf("train: epoch %d: the loss is %v; lower the learning rate (%v)", epoch, p.Loss.Total, l.cfg.LearningRate)
	}
	p.Accuracy = float64(p.Loss.Correct) / float64(len(l.labels))
	return p, nil
}

// stopped returns ctx's cause once ctx is done.
func stopped(ctx context.Context, epoch int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("train: epoch %d: %w", epoch, context.Cause(ctx))
	}
	return nil
}
