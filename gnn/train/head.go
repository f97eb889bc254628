package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// FitHead trains the head alone, on the embeddings z, len(labels)×Out
// row-major, of an encoder that stays as it is. Of cfg it reads Out, Epochs,
// LearningRate and Seed. The head is left as it was after the last epoch.
//
// It returns an error when shapes or configuration are not valid, when the loss
// stops being a finite number, and ctx's cause when that is done.
func FitHead(ctx context.Context, z []float32, labels []int32, head Head, cfg Config, progress func(Progress)) (Report, error) {
	if len(labels) == 0 || cfg.Out < 1 || len(z) != len(labels)*cfg.Out {
		return Report{}, fmt.Errorf("train: %d numbers for %d rows of dimension %d, want at least 1 row", len(z), len(labels), cfg.Out)
	}
	if cfg.Epochs < 1 || !(cfg.LearningRate > 0) {
		return Report{}, fmt.Errorf("train: %d epochs with learning rate %v, want positive numbers", cfg.Epochs, cfg.LearningRate)
	}
	wide, dz := make([]float64, len(z)), make([]float64, len(z))
	widen(wide, z)
	opt := newOptimizer(nil, head, cfg)
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
		opt.step()
		p.TrainAccuracy = float64(p.Loss.Correct) / float64(len(labels))
		report = Report{Last: p, Best: p, Epochs: epoch + 1}
		if progress != nil {
			progress(p)
		}
	}
	return report, nil
}
