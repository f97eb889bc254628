// Package gp is a sparse variational Gaussian-process classifier.
package gp

import "context"

// Config says how to fit.
type Config struct {
	Inducing     int     // inducing points, at most; 0 for 64
	Samples      int     // of the expected log-likelihood; 0 for 10
	Epochs       int     // 0 for 300
	Batch        int     // rows a step; 0 for all
	LearningRate float64 // Adam's; 0 for 0.01
	Seed         uint64
}

// Progress is what an epoch came to.
type Progress struct {
	Epoch   int
	Loss    float64 // negative ELBO, nats a row
	Correct int
}

// Classifier is a fitted classifier. It does not change.
type Classifier struct{}

// Fit fits a classifier to the labelled rows z, len(labels)×dim row-major.
func Fit(ctx context.Context, z []float32, dim, classes int, labels []int32, cfg Config, progress func(Progress)) (*Classifier, error) {
	panic("to be written")
}

// Predict writes the class probabilities of the rows z to probs, n×C.
func (c *Classifier) Predict(z []float32, probs []float64) { panic("to be written") }
