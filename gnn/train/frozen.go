package train

import (
	"context"

	"github.com/gvbll/gvbll/gnn"
)

// Frozen trains the head alone, on the embeddings z, len(labels)×Out
// row-major, of an encoder that stays as it is. Of cfg it reads Out, Epochs,
// LearningRate, and Seed.
func Frozen(ctx context.Context, z []float32, labels []int32, head Head, cfg Config, progress func(Progress)) (Report, error) {
	panic("to be written")
}

// Sample calls each for n embeddings of the targets, len(targets)×Out
// row-major, each with its own dropout of features and hidden states (Gal and
// Ghahramani 2016). The slice holds until each returns.
func Sample(enc gnn.Encoder, data Data, targets []int32, dropout float64, n int, seed uint64, each func(z []float32)) {
	panic("to be written")
}
