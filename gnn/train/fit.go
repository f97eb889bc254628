package train

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// Progress is the outcome of an epoch.
type Progress struct {
	Epoch    int // from 0
	Loss     Loss
	Accuracy float64 // Loss.Correct by training node: with dropout, of the weights before the epoch's step
}

// Fit trains an encoder and the head. It calls progress, unless nil, after every epoch, and
// returns the last epoch's.
//
// It returns an error when data or configuration are invalid, and when the loss or a weight
// stops being finite; and ctx's cause, within an epoch, when ctx is done.
func Fit(ctx context.Context, data Data, head Head, cfg Config, progress func(Progress)) (enc gnn.Encoder, last Progress, err error) {
	cfg = cfg.withDefaults()
	if err := checkFit(&data, cfg); err != nil {
		return nil, last, fmt.Errorf("train: %w", err)
	}
	m := newModel[float32](cfg)
	fit := newNetwork(m, data, data.Train, newDropout[float32](cfg.Dropout, rand.NewPCG(cfg.Seed, 2)), true)
	if data.Graphs != nil {
		cfg.Out *= 2 // of what the head sees
	}
	loss := newLossRows(head, data.labelsOf(data.Train), cfg)
	opt := newOptimizer(m.params(), head, cfg)
	for epoch := range cfg.Epochs {
		if err := stopped(ctx, epoch); err != nil {
			return nil, last, err
		}
		convert(loss.z, fit.forward())
		if last, err = loss.epoch(ctx, epoch); err != nil {
			return nil, last, err
		}
		if err := stopped(ctx, epoch); err != nil {
			return nil, last, err
		}
		fit.backward(loss.dz)
		opt.step()
		if progress != nil {
			progress(last)
		}
	}
	if enc, err = m.encoder(); err != nil {
		return nil, last, fmt.Errorf("train: %w; lower the learning rate (%v)", err, cfg.LearningRate)
	}
	return enc, last, nil
}

// checkFit returns an error when Fit cannot work with its arguments.
func checkFit(data *Data, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := data.check(cfg.In); err != nil {
		return err
	}
	for e, k := range data.Mean {
		if int(k) >= cfg.Means {
			return fmt.Errorf("edge %d is in mean %d, want means below %d", e, k, cfg.Means)
		}
	}
	return nil
}
