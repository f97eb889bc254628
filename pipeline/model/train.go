package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/posterior"
)

// Data is what Phase 1 may see: the training nodes' own subgraph and labels
// (the paper's "encoder sees neither streaming features nor labels").
type Data struct {
	Name     string // of the data set
	Split    string // how the training nodes were chosen, in words
	Nodes    []int64
	X        []gnn.Vector
	Dim      int
	Src, Dst []int32 // edges between them, in both directions
	Labels   []int32
	Classes  []string
}

// Config says how to train. Zero fields have defaults.
type Config struct {
	Hidden        []int             // widths of the hidden layers; 64
	Embedding     int               // d_e; 32
	TempHidden    int               // hidden units of the temperature head; 16, negative for τ = 1
	Epochs        int               // E; 300
	Samples       int               // S; 10
	LearningRate  float64           // 0.01
	WeightDecay   float64           // of the encoder, an L2 term; 5e-4. Negative for none
	Dropout       float64           // 0.5. Negative for none
	Normalization gnn.Normalization // empty: row-l2 for sparse features, standard for dense
	Seed          uint64
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Hidden) == 0 {
		c.Hidden = []int{64}
	}
	for _, d := range []struct {
		name  string
		value *int
		def   int
	}{{"embedding", &c.Embedding, 32}, {"temp-hidden", &c.TempHidden, 16}, {"epochs", &c.Epochs, 300}, {"samples", &c.Samples, 10}} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < 1 && d.name != "temp-hidden" {
			return c, fmt.Errorf("%s %d: give a positive number, such as %d", d.name, *d.value, d.def)
		}
	}
	for _, d := range []struct {
		value *float64
		def   float64
	}{{&c.LearningRate, 0.01}, {&c.WeightDecay, 5e-4}, {&c.Dropout, 0.5}} {
		if *d.value == 0 {
			*d.value = d.def
		}
		*d.value = max(*d.value, 0)
	}
	if c.Dropout >= 1 {
		return c, fmt.Errorf("dropout %v: give a share below 1, such as 0.5", c.Dropout)
	}
	c.TempHidden = max(c.TempHidden, 0)
	return c, nil
}

// Train is Phase 1 (Section II-B): encoder, temperature and posterior together,
// by the negative ELBO. It is the same to the bit for a seed. progress, when
// not nil, hears of every epoch.
func Train(ctx context.Context, d Data, cfg Config, progress func(train.Progress)) (*Model, error) {
	if len(d.X) == 0 {
		return nil, fmt.Errorf("no training nodes: raise --train-share")
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	seen, normalizer, filled, err := Prepare(d, cfg.Normalization)
	if err != nil {
		return nil, err
	}
	head := &elbo{posterior.NewVariational(cfg.Embedding, len(d.Classes), cfg.TempHidden, cfg.Seed)}
	head.Samples = cfg.Samples
	encoder, report, err := train.Fit(ctx, seen, head,
		train.Config{
			In: d.Dim, Hidden: cfg.Hidden, Out: cfg.Embedding, Epochs: cfg.Epochs, LearningRate: cfg.LearningRate,
			WeightDecay: cfg.WeightDecay, Dropout: cfg.Dropout, Seed: cfg.Seed,
		}, progress)
	if err != nil {
		return nil, err
	}
	m := &Model{
		Meta: Meta{
			Format: Format, Encoder: encoder.Kind(), Activation: encoder.Activation(), Classes: d.Classes, Normalization: string(normalizer.Kind),
			Training: Training{
				DataSet: d.Name, Split: d.Split, Seed: cfg.Seed, Nodes: len(d.X), Epochs: report.Epochs, Samples: cfg.Samples,
				Hidden: cfg.Hidden, LearningRate: cfg.LearningRate, WeightDecay: cfg.WeightDecay, Dropout: cfg.Dropout,
				SelfNeighbours: filled, Loss: report.Last.Loss.Total, Accuracy: report.Last.TrainAccuracy,
			},
		},
		Encoder: encoder, Normalizer: normalizer, TrainingNodes: d.Nodes,
	}
	m.Prior, m.Temperature = head.Posterior()
	return m, m.identify()
}

// Prepare returns d as any encoder's training sees it: features normalised (in
// the way kind says, or [Config]'s default when it is empty), every node a
// training row, and isolated nodes filled. It also returns the normaliser, which
// serving needs, and how many nodes were filled. d must have a node.
func Prepare(d Data, kind gnn.Normalization) (seen train.Data, n *gnn.Normalizer, filled int, err error) {
	if kind == "" {
		kind = gnn.NormalizeStandard
		if d.X[0].Dense == nil {
			kind = gnn.NormalizeRowL2
		}
	}
	if n, err = gnn.FitNormalizer(kind, d.X); err != nil {
		return train.Data{}, nil, 0, err
	}
	seen = train.Data{X: make([]gnn.Vector, len(d.X)), Labels: d.Labels, Train: make([]int32, len(d.X))}
	for i := range d.X {
		seen.X[i] = n.Apply(gnn.Vector{}, d.X[i])
		seen.Train[i] = int32(i)
	}
	seen.Src, seen.Dst, filled = fillIsolated(d)
	return seen, n, filled, nil
}

// fillIsolated makes every training node that has no neighbour its own, when the
// edges between training nodes join equal classes more often than pairs drawn
// at random would.
//
// A few training nodes drawn from a graph lose nearly all of their neighbours,
// so the neighbours' weights see hardly anything but zero and learn nothing,
// while every node of the stream has neighbours. Under homophily a node's own
// features are what its neighbours' would be like; without it they are
// misleading, and nothing is filled. Only training nodes and labels are looked
// at.
func fillIsolated(d Data) (src, dst []int32, filled int) {
	same := 0
	lonely := make([]bool, len(d.X))
	for i := range lonely {
		lonely[i] = true
	}
	for e := range d.Src {
		if d.Labels[d.Src[e]] == d.Labels[d.Dst[e]] {
			same++
		}
		lonely[d.Dst[e]] = false
	}
	count := make([]int, len(d.Classes))
	for _, y := range d.Labels {
		count[y]++
	}
	chance := 0.0 // that two nodes have equal classes
	for _, n := range count {
		share := float64(n) / float64(len(d.Labels))
		chance += float64(share * share)
	}
	src, dst = slices.Clone(d.Src), slices.Clone(d.Dst)
	if float64(same) <= chance*float64(len(d.Src)) {
		return src, dst, 0
	}
	for i, yes := range lonely {
		if yes {
			src, dst = append(src, int32(i)), append(dst, int32(i))
			filled++
		}
	}
	return src, dst, filled
}

// elbo is the Bayesian last layer as the encoder's training sees it.
type elbo struct{ *posterior.Variational }

// Loss implements train.Head.
func (h *elbo) Loss(z []float64, labels []int32, epoch, epochs int, rng *rand.Rand, dz []float64) train.Loss {
	alpha := posterior.KLWeight(epoch, epochs)
	l := h.Variational.Loss(z, labels, alpha, rng, dz)
	return train.Loss{Total: l.Total, ELL: l.ELL, KL: l.KL, KLWeight: alpha, Correct: l.Correct}
}
