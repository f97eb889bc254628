package train

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
)

// Progress is the outcome of an epoch.
type Progress struct {
	Epoch         int // from 0
	Loss          Loss
	TrainAccuracy float64 // Loss.Correct by training node: with dropout, of the weights before the epoch's step
	ValidAccuracy float64 // without dropout, of the weights after the step; NaN without validation
}

// Report is the outcome of a training.
type Report struct {
	Last   Progress // of the last epoch
	Best   Progress // of the epoch whose weights were returned
	Epochs int      // the number of epochs run
}

// Fit trains an encoder and the head. It calls progress, unless nil, after every
// epoch. The weights returned and left in the head are the last epoch's, or with
// patience those of the first epoch that reached the best validation accuracy.
//
// It returns an error when data or configuration are invalid, when there are
// validation nodes but the head is no predictor, and when the loss or a weight
// stops being finite; and ctx's cause, within an epoch, when ctx is done.
func Fit(ctx context.Context, data Data, head Head, cfg Config, progress func(Progress)) (gnn.Encoder, Report, error) {
	cfg = cfg.withDefaults()
	if err := checkFit(&data, head, cfg); err != nil {
		return nil, Report{}, fmt.Errorf("train: %w", err)
	}
	m := newModel[float32](cfg)
	fit := newNetwork(m, data, data.Train, newDropout[float32](cfg.Dropout, rand.NewPCG(cfg.Seed, 2)), true)
	if data.Graphs != nil {
		cfg.Out *= 2 // of what the head sees
	}
	loss := newLossRows(head, data.labelsOf(data.Train), cfg)
	accuracy := newValidation(m, data, head, cfg)
	opt := newOptimizer(m.params(), head, cfg)

	report := Report{Best: Progress{Epoch: -1}}
	var best snapshot
	for epoch := range cfg.Epochs {
		if err := stopped(ctx, epoch); err != nil {
			return nil, report, err
		}
		convert(loss.z, fit.forward())
		p, err := loss.epoch(ctx, epoch)
		if err != nil {
			return nil, report, err
		}
		if err := stopped(ctx, epoch); err != nil {
			return nil, report, err
		}
		fit.backward(loss.dz)
		opt.step()

		if accuracy != nil {
			p.ValidAccuracy = accuracy()
		}
		report.Last, report.Epochs = p, epoch+1
		switch {
		case cfg.Patience == 0:
			report.Best = p
		case report.Best.Epoch < 0 || p.ValidAccuracy > report.Best.ValidAccuracy:
			report.Best = p
			best.save(m.params(), head)
		}
		if progress != nil {
			progress(p)
		}
		if cfg.Patience > 0 && epoch-report.Best.Epoch >= cfg.Patience {
			break
		}
	}
	if cfg.Patience > 0 {
		best.restore(m.params(), head)
	}
	enc, err := m.encoder()
	if err != nil {
		return nil, report, fmt.Errorf("train: %w; lower the learning rate (%v)", err, cfg.LearningRate)
	}
	return enc, report, nil
}

// checkFit returns an error when Fit cannot work with its arguments.
func checkFit(data *Data, head Head, cfg Config) error {
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
	if _, ok := head.(predictor); len(data.Validate) > 0 && !ok {
		return fmt.Errorf("the head %T cannot be scored on validation nodes; give none", head)
	}
	if cfg.Patience > 0 && len(data.Validate) == 0 {
		return errors.New("patience needs validation nodes; give some, or patience 0")
	}
	return nil
}

// newValidation returns a function that computes the accuracy on the validation
// nodes, without dropout; nil if there are none.
func newValidation(m *model[float32], data Data, head Head, cfg Config) (accuracy func() float64) {
	if len(data.Validate) == 0 {
		return nil
	}
	network := newNetwork(m, data, data.Validate, newDropout[float32](0, nil), false)
	labels := data.labelsOf(data.Validate)
	z := make([]float64, len(labels)*cfg.Out)
	return func() float64 {
		convert(z, network.forward())
		return float64(head.(predictor).Correct(z, labels)) / float64(len(labels))
	}
}

// snapshot holds the parameters of some epoch.
type snapshot struct {
	weights [][]float32
	head    [][]float64
}

func (s *snapshot) save(weights []param[float32], head Head) {
	s.weights, s.head = s.weights[:0], s.head[:0]
	for _, p := range weights {
		s.weights = append(s.weights, slices.Clone(p.value))
	}
	for _, p := range head.Params() {
		s.head = append(s.head, slices.Clone(p))
	}
}

func (s *snapshot) restore(weights []param[float32], head Head) {
	for i, p := range weights {
		copy(p.value, s.weights[i])
	}
	for i, p := range head.Params() {
		copy(p, s.head[i])
	}
}
