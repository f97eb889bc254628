// Package train fits a GNN encoder and the head on top of it, jointly and
// full-batch: Phase 1 of the two-phase protocol (the paper, Section II-B).
//
// The encoder's numbers are float32, the head's float64. The same data,
// configuration and seed give the same bits.
package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
)

// Head is the loss on top of the embeddings, with parameters of its own: the
// Bayesian last layer.
type Head interface {
	// Loss returns the loss of the embeddings z, len(labels)×Out row-major, in
	// the given epoch of epochs, from 0. It sets dz, as long as z, and the
	// slices of Grads to the loss's gradients; it does not add to what they
	// held. Whatever is random is drawn from rng.
	Loss(z []float64, labels []int32, epoch, epochs int, rng *rand.Rand, dz []float64) Loss
	// Params returns the parameters, which training changes in place. Params
	// and Grads return the same slices on every call, in the same order.
	Params() [][]float64
	Grads() [][]float64
}

// Predictor is a [Head] that can be scored on validation rows.
type Predictor interface {
	// Correct returns how many rows of the embeddings z are classified as
	// their labels say. It changes nothing.
	Correct(z []float64, labels []int32) int
}

// Loss is a loss and what it is made of.
type Loss struct {
	Total    float64 // what is minimised: eq. (5)'s negative ELBO
	ELL      float64 // expected log-likelihood per row
	KL       float64 // divergence from the prior, before its weight
	KLWeight float64 // α_KL
	Correct  int     // rows classified as their labels say
}

// Data is a graph to train on.
type Data struct {
	X        []gnn.Vector // features by node: all dense, or sparse, or some of each
	Src, Dst []int32      // edges; an undirected edge stands in both directions
	Labels   []int32      // classes by node; read for the nodes below only
	Train    []int32      // the nodes with loss, each once
	Validate []int32      // the nodes for validation, each once; none for no validation
}

// Config says how to train. Check it with [Config.Validate].
type Config struct {
	Encoder      gnn.Kind       // empty for graphsage
	Activation   gnn.Activation // between layers; empty for relu, elu for gat
	Heads        int            // attention heads of gat; 0 for 4
	In           int            // dimension of the features
	Hidden       []int          // widths of the hidden layers; none for one layer in all
	Out          int            // d_e, dimension of the embeddings
	Epochs       int            // passes over the data, at most
	LearningRate float64        // Adam's, of encoder and head
	WeightDecay  float64        // an L2 term of the loss, on the encoder's weights but not its biases
	Dropout      float64        // chance that a feature or hidden unit is left out, in [0, 1)
	Patience     int            // stop after so many epochs without a better validation accuracy; 0 for never
	Seed         uint64         // of initial weights, dropout and the head's draws
}

// withDefaults fills in the encoder, its activation and heads.
func (c Config) withDefaults() Config {
	if c.Encoder == "" {
		c.Encoder = gnn.KindSAGE
	}
	if c.Activation == "" {
		c.Activation = gnn.ReLU
		if c.Encoder == gnn.KindGAT {
			c.Activation = gnn.ELU
		}
	}
	if c.Heads == 0 {
		c.Heads = 4
	}
	return c
}

// Validate returns an error that lists all that is wrong with the
// configuration.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	c = c.withDefaults()
	check(slices.Contains([]gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN}, c.Encoder), "encoder is %q, want graphsage, gcn, gat or gin", string(c.Encoder))
	check(c.Activation == gnn.ReLU || c.Activation == gnn.ELU, "activation is %q, want relu or elu", string(c.Activation))
	if c.Encoder == gnn.KindGAT {
		check(c.Heads >= 1, "attention heads are %d, want at least 1", c.Heads)
		for l, width := range c.Hidden {
			check(c.Heads < 1 || width%c.Heads == 0, "width of hidden layer %d is %d, want a multiple of its %d heads", l, width, c.Heads)
		}
	}
	check(c.In >= 1, "dimension of features is %d, want at least 1", c.In)
	for l, width := range c.Hidden {
		check(width >= 1, "width of hidden layer %d is %d, want at least 1", l, width)
	}
	check(c.Out >= 1, "dimension of embeddings is %d, want at least 1", c.Out)
	check(c.Epochs >= 1, "epochs are %d, want at least 1", c.Epochs)
	check(c.LearningRate > 0 && !math.IsInf(c.LearningRate, 0), "learning rate is %v, want a positive number", c.LearningRate)
	check(c.WeightDecay >= 0 && !math.IsInf(c.WeightDecay, 0), "weight decay is %v, want at least 0", c.WeightDecay)
	check(c.Dropout >= 0 && c.Dropout < 1, "dropout is %v, want at least 0 and below 1", c.Dropout)
	check(c.Patience >= 0, "patience is %d, want at least 0", c.Patience)
	return errors.Join(errs...)
}

// check returns an error when the data do not fit together. Labels' range is
// the head's business.
func (d *Data) check(dim int) error {
	n := len(d.X)
	if n > math.MaxInt32 || len(d.Src) > math.MaxInt32 {
		return fmt.Errorf("%d nodes and %d edges, want at most %d of each", n, len(d.Src), math.MaxInt32)
	}
	if len(d.Src) != len(d.Dst) {
		return fmt.Errorf("%d sources of edges, %d targets", len(d.Src), len(d.Dst))
	}
	if len(d.Labels) != n {
		return fmt.Errorf("%d labels, want one for each of %d nodes", len(d.Labels), n)
	}
	if len(d.Train) == 0 {
		return errors.New("no training nodes, want at least 1")
	}
	for i, x := range d.X {
		if err := x.Validate(dim); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	for e := range d.Src {
		if uint(d.Src[e]) >= uint(n) || uint(d.Dst[e]) >= uint(n) {
			return fmt.Errorf("edge %d goes from node %d to %d, want nodes below %d", e, d.Src[e], d.Dst[e], n)
		}
	}
	for _, part := range []struct {
		name  string
		nodes []int32
	}{{"training", d.Train}, {"validation", d.Validate}} {
		seen := make([]bool, n)
		for _, v := range part.nodes {
			if uint(v) >= uint(n) || seen[v] {
				return fmt.Errorf("%s node %d stands twice or is not below %d", part.name, v, n)
			}
			seen[v] = true
		}
	}
	return nil
}

// Progress is what an epoch came to.
type Progress struct {
	Epoch         int // from 0
	Loss          Loss
	TrainAccuracy float64 // Loss.Correct by training node: with dropout, and of the weights before the epoch's step
	ValidAccuracy float64 // without dropout, after the step; NaN without validation
}

// Report is what a training came to.
type Report struct {
	Last   Progress // of the last epoch
	Best   Progress // of the epoch whose weights were returned
	Epochs int      // that were run
}

// Fit trains an encoder and the head. It calls progress, if not nil,
// after every epoch. The weights returned and left in the head are the last
// epoch's, or with patience those of the first epoch that reached the best
// validation accuracy.
//
// It returns an error when data or configuration are not valid, when there are
// validation nodes but the head is no [Predictor], when the loss or a weight
// stops being a finite number, and ctx's cause, within an epoch, when that is
// done.
func Fit(ctx context.Context, data Data, head Head, cfg Config, progress func(Progress)) (gnn.Encoder, Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, Report{}, fmt.Errorf("train: %w", err)
	}
	if err := data.check(cfg.In); err != nil {
		return nil, Report{}, fmt.Errorf("train: %w", err)
	}
	predictor, ok := head.(Predictor)
	if len(data.Validate) > 0 && !ok {
		return nil, Report{}, fmt.Errorf("train: the head %T cannot be scored on validation nodes; give none", head)
	}
	if cfg.Patience > 0 && len(data.Validate) == 0 {
		return nil, Report{}, errors.New("train: patience needs validation nodes; give some, or patience 0")
	}

	m := newModel[float32](cfg)
	fit := newNetwork(m, data, data.Train, newDropout[float32](cfg.Dropout, rand.NewPCG(cfg.Seed, 2)), true)
	z, dz := make([]float64, len(data.Train)*cfg.Out), make([]float64, len(data.Train)*cfg.Out)
	labels := labelsOf(data, data.Train)

	var score *network[float32]
	var valid []float64
	var validLabels []int32
	if len(data.Validate) > 0 {
		score = newNetwork(m, data, data.Validate, newDropout[float32](0, nil), false)
		valid = make([]float64, len(data.Validate)*cfg.Out)
		validLabels = labelsOf(data, data.Validate)
	}

	opt := newOptimizer(m.params(), head, cfg)
	draws := rand.New(rand.NewPCG(cfg.Seed, 3))
	report := Report{Best: Progress{Epoch: -1}}
	var best snapshot
	for epoch := range cfg.Epochs {
		if ctx.Err() != nil {
			return nil, report, fmt.Errorf("train: epoch %d: %w", epoch, context.Cause(ctx))
		}
		widen(z, fit.forward())
		p := Progress{Epoch: epoch, ValidAccuracy: math.NaN()}
		p.Loss = head.Loss(z, labels, epoch, cfg.Epochs, draws, dz)
		if math.IsNaN(p.Loss.Total) || math.IsInf(p.Loss.Total, 0) {
			return nil, report, fmt.Errorf("train: epoch %d: the loss is %v; lower the learning rate (%v)", epoch, p.Loss.Total, cfg.LearningRate)
		}
		if ctx.Err() != nil {
			return nil, report, fmt.Errorf("train: epoch %d: %w", epoch, context.Cause(ctx))
		}
		narrow(fit.last().grad, dz)
		fit.backward()
		opt.step()

		p.TrainAccuracy = float64(p.Loss.Correct) / float64(len(labels))
		if score != nil {
			widen(valid, score.forward())
			p.ValidAccuracy = float64(predictor.Correct(valid, validLabels)) / float64(len(validLabels))
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

func labelsOf(data Data, nodes []int32) []int32 {
	labels := make([]int32, len(nodes))
	for i, v := range nodes {
		labels[i] = data.Labels[v]
	}
	return labels
}

func widen[T float](dst []float64, src []T) {
	for i, x := range src {
		dst[i] = float64(x)
	}
}

func narrow[T float](dst []T, src []float64) {
	for i, x := range src {
		dst[i] = T(x)
	}
}

// snapshot holds parameters as they were at some epoch.
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

// steps changes the parameters of encoder and head as their gradients say.
type optimizer struct {
	weights []adam[float32]
	head    []adam[float64]
	rate    float64
}

func newOptimizer(weights []param[float32], head Head, cfg Config) *optimizer {
	s := &optimizer{rate: cfg.LearningRate}
	for _, p := range weights {
		decay := 0.0
		if p.decays {
			decay = cfg.WeightDecay
		}
		s.weights = append(s.weights, newAdam(p.value, p.grad, decay))
	}
	grads := head.Grads()
	for i, p := range head.Params() {
		s.head = append(s.head, newAdam(p, grads[i], 0))
	}
	return s
}

func (o *optimizer) step() {
	for i := range o.weights {
		o.weights[i].step(o.rate)
	}
	for i := range o.head {
		o.head[i].step(o.rate)
	}
}
