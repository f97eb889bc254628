package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// Frozen trains the head alone, on the embeddings z, len(labels)×Out
// row-major, of an encoder that stays as it is. Of cfg it reads Out, Epochs,
// LearningRate and Seed. The head is left as it was after the last epoch.
//
// It returns an error when shapes or configuration are not valid, when the loss
// stops being a finite number, and ctx's cause when that is done.
func Frozen(ctx context.Context, z []float32, labels []int32, head Head, cfg Config, progress func(Progress)) (Report, error) {
	if len(labels) == 0 || cfg.Out < 1 || len(z) != len(labels)*cfg.Out {
		return Report{}, fmt.Errorf("train: %d numbers for %d rows of dimension %d, want at least 1 row", len(z), len(labels), cfg.Out)
	}
	if cfg.Epochs < 1 || !(cfg.LearningRate > 0) {
		return Report{}, fmt.Errorf("train: %d epochs with learning rate %v, want positive numbers", cfg.Epochs, cfg.LearningRate)
	}
	wide, dz := make([]float64, len(z)), make([]float64, len(z))
	widen(wide, z)
	steps := newSteps(nil, head, cfg)
	draws := rand.New(rand.NewPCG(cfg.Seed, 3))
	var report Report
	for epoch := range cfg.Epochs {
		if ctx.Err() != nil {
			return report, fmt.Errorf("train: epoch %d: %w", epoch, context.Cause(ctx))
		}
		p := Progress{Epoch: epoch, ValidAccuracy: math.NaN()}
		p.Loss = head.Loss(wide, labels, epoch, cfg.Epochs, draws, dz)
		if math.IsNaN(p.Loss.Total) || math.IsInf(p.Loss.Total, 0) {
			return report, fmt.Errorf("train: epoch %d: the loss is %v; lower the learning rate (%v)", epoch, p.Loss.Total, cfg.LearningRate)
		}
		steps.take()
		p.TrainAccuracy = float64(p.Loss.Correct) / float64(len(labels))
		report = Report{Last: p, Best: p, Epochs: epoch + 1}
		if progress != nil {
			progress(p)
		}
	}
	return report, nil
}

// Sample calls each for n embeddings of the targets, len(targets)×Out
// row-major, each with its own dropout, as in training (Gal and Ghahramani:
// Dropout as a Bayesian Approximation, 2016). The slice holds until each
// returns. Data need no labels. It panics when they do not fit the encoder.
func Sample(enc gnn.Encoder, data Data, targets []int32, chance float64, n int, seed uint64, each func(z []float32)) {
	network := newNetwork(modelOf[float32](enc), data, targets, newDropout[float32](chance, rand.NewPCG(seed, 2)), false)
	for range n {
		each(network.forward())
	}
}
