package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Data is the input of Phase 1: the training nodes, the edges between them, and their
// labels. Nothing of the stream is in it, as the paper requires: "encoder sees neither
// streaming features nor labels". X may have more nodes than Labels: the last ones have none, and an encoder is
// trained on a graph with them.
type Data struct {
	Name     string     // of the data set
	Split    string     // how the training nodes were chosen, in words
	IDs      []event.ID // of the nodes in the stream, or nil: see [Model.TrainedOn]
	X        []gnn.Vector
	Dim      int
	Src, Dst []int32 // edges between them, in both directions
	// Kinds are the kinds of the edges, or nil. With them, Mean and Weight say in which mean of
	// its target an edge counts, and with which weight.
	Kinds   gnn.EdgeKinds
	Mean    []uint8
	Weight  []float32
	Labels  []int32
	Classes []string
	Ordered bool // whether the nodes are in order of arrival
	// Graphs, unless nil, are what is classified: IDs and Labels are of graphs, X and the edges are
	// not read, and Dim is the number of features of a node.
	Graphs *gnn.Graphs
	Schema *attributes.Schema // that made X, nil if they are plain numbers
	// Before is the normaliser of the model whose heads a new one takes over, or nil. Features that it ranks, and no others,
	// are ranked, as by it.
	Before *gnn.Normalizer
}

// Config configures training. A zero field means its default, which its comment names.
type Config struct {
	Encoder       gnn.Kind          // graphsage
	Activation    gnn.Activation    // between the encoder's layers; relu, for gat elu
	Heads         int               // attention heads of gat; 4
	Frozen        gnn.Encoder       // an encoder trained elsewhere; only the head is trained, on its embeddings
	Hidden        []int             // widths of the hidden layers; 64
	Embedding     int               // d_e; see embeddingFor
	TempHidden    int               // hidden units of the temperature head; 16, negative for τ = 1
	Epochs        int               // E; 100
	Samples       int               // S; 10
	LearningRate  float64           // 0.01
	WeightDecay   float64           // of the encoder, an L2 term; 5e-4. Negative for none
	Dropout       float64           // 0.5. Negative for none
	Normalization gnn.Normalization // empty: row-l2 for sparse features, ranks for dense, none for those of a schema
	Pool          bool              // train a pool of heads too, that of [DefaultPool]
	Start         *pool.Start       // what that pool starts with; nil for its defaults
	Seed          uint64
}

// String returns a canonical form: equal strings and equal data give equal models, with
// equal starts.
func (c Config) String() string {
	frozen := ""
	if c.Frozen != nil {
		b, err := (&safetensors.File{Tensors: c.Frozen.Tensors()}).Encode()
		if err != nil {
			panic(err) // an encoder's own tensors
		}
		frozen = fmt.Sprintf("%x", sha256.Sum256(b))[:16]
	}
	text := fmt.Sprintf("encoder=%s activation=%s heads=%d frozen=%s hidden=%v embedding=%d temp-hidden=%d epochs=%d "+
		"samples=%d learning-rate=%g weight-decay=%g dropout=%g normalize=%s valid-share=0 patience=0 seed=%d",
		c.Encoder, c.Activation, c.Heads, frozen, c.Hidden, c.Embedding, c.TempHidden, c.Epochs, c.Samples,
		c.LearningRate, c.WeightDecay, c.Dropout, c.Normalization, c.Seed)
	if c.Pool {
		text += " head=pool"
	}
	return text
}

func (c Config) withDefaults(classes int) (Config, error) {
	if len(c.Hidden) == 0 {
		c.Hidden = []int{64}
	}
	for _, d := range []struct {
		name  string
		value *int
		def   int
	}{
		{"embedding", &c.Embedding, embeddingFor(classes)},
		{"temp-hidden", &c.TempHidden, 16},
		{"epochs", &c.Epochs, 100},
		{"samples", &c.Samples, 10},
	} {
		*d.value = cmp.Or(*d.value, d.def)
		if *d.value < 1 && d.name != "temp-hidden" {
			return c, fmt.Errorf("%s %d: give a positive number, such as %d", d.name, *d.value, d.def)
		}
	}
	for _, d := range []struct {
		value *float64
		def   float64
	}{{&c.LearningRate, 0.01}, {&c.WeightDecay, 5e-4}, {&c.Dropout, 0.5}} {
		*d.value = cmp.Or(*d.value, d.def)
		*d.value = max(*d.value, 0)
	}
	if c.Dropout >= 1 {
		return c, fmt.Errorf("dropout %v: give a share below 1, such as 0.5", c.Dropout)
	}
	if c.Frozen != nil {
		c.Embedding = c.Frozen.Out()
	}
	c.TempHidden = max(c.TempHidden, 0)
	return c, nil
}

// embeddingFor returns the default d_e: the least multiple of 16 that is at least the
// number of classes. Cross-validation with few training nodes preferred 16 to 32; for 40
// classes, 16 are too few.
func embeddingFor(classes int) int { return max(16, (classes+15)/16*16) }

// Train is Phase 1 (Section II-B): it fits encoder, temperature and posterior jointly, by
// minimising the negative ELBO. Equal seeds give equal bits. progress, unless nil, is
// called after every epoch.
func Train(ctx context.Context, d Data, cfg Config, progress func(train.Progress)) (*Model, error) {
	if len(d.Labels) == 0 {
		return nil, fmt.Errorf("no node with a label is among those that train: raise --train-share, or give labels")
	}
	if err := checkClasses(d.Classes); err != nil {
		return nil, err
	}
	settings := cfg.String()
	cfg, err := cfg.withDefaults(len(d.Classes))
	if err != nil {
		return nil, err
	}
	if err := cfg.checkKinds(d); err != nil {
		return nil, err
	}
	if d.Graphs == nil && len(d.X) > len(d.Labels) && (cfg.Pool || cfg.Frozen != nil) {
		return nil, fmt.Errorf("%d nodes without labels: only an encoder learns from them", len(d.X)-len(d.Labels))
	}
	fit := make([]int32, len(d.Labels))
	for v := range fit {
		fit[v] = int32(v)
	}
	kind := cfg.Normalization
	if kind == "" && cfg.Frozen != nil && d.Schema == nil && d.Graphs == nil && d.X[0].Dense != nil {
		kind = gnn.NormalizeStandard // what trains encoders elsewhere knows no ranks
	}
	data, normalizer, err := Prepare(d, fit, kind)
	if err != nil {
		return nil, err
	}
	completed, width := 0, cfg.Embedding
	if d.Graphs != nil {
		data.Graphs, data.Size, width = d.Graphs.Start, d.Graphs.MeanSize(), 2*cfg.Embedding
	} else {
		data.Src, data.Dst, completed = d.Complete(cfg.kind(), fit, cfg.Seed)
	}
	head := &elbo{posterior.NewVariational(width, len(d.Classes), cfg.TempHidden, cfg.Seed)}
	head.Samples = cfg.Samples
	phase := train.Config{
		Encoder: cfg.Encoder, Activation: cfg.Activation, Heads: cfg.Heads,
		Means: d.Kinds.Means(), In: d.Dim, Hidden: cfg.Hidden, Out: cfg.Embedding, Epochs: cfg.Epochs, LearningRate: cfg.LearningRate,
		WeightDecay: cfg.WeightDecay, Dropout: cfg.Dropout, Seed: cfg.Seed,
	}
	encoder, last := weighed(cfg.Frozen, d.Kinds), train.Progress{}
	switch {
	case encoder == nil:
		encoder, last, err = train.Fit(ctx, data, head, phase, progress)
	case d.Graphs != nil:
		phase.Out = width
		z := (&gnn.Readout{Encoder: encoder, Normalizer: normalizer, Size: data.Size}).Encode(d.Graphs)
		last, err = train.FitHead(ctx, z, d.Labels, head, phase, progress)
	default:
		last, err = train.FitHead(ctx, encode(encoder, &data), d.Labels, head, phase, progress)
	}
	if err != nil {
		return nil, err
	}
	m := &Model{
		Meta: Meta{
			Format: Format, Encoder: encoder.Kind(), Activation: encoder.Activation(), Classes: d.Classes,
			Normalization: string(normalizer.Kind), Distributions: normalizer.Of, Schema: d.Schema,
			Training: Training{
				DataSet: d.Name, Split: d.Split, Seed: cfg.Seed, Settings: settings, Nodes: len(d.Labels),
				Epochs: cfg.Epochs, Samples: cfg.Samples,
				Hidden: cfg.Hidden, LearningRate: cfg.LearningRate, WeightDecay: cfg.WeightDecay, Dropout: cfg.Dropout,
				Completed: completed, Loss: last.Loss.Total, Accuracy: last.Accuracy, Rare: rare(d), Labels: countLabels(d),
			},
		},
		Encoder: encoder, Normalizer: normalizer, trained: newIDSet(d.IDs),
	}
	if gnn.MeansOf(encoder) > 0 {
		m.Kinds = d.Kinds
	}
	m.Prior, m.Temperature = head.Posterior()
	if d.Graphs != nil {
		m.GraphSize = data.Size
		if err := m.readGraphs(); err != nil {
			return nil, err
		}
	}
	if cfg.Pool {
		spec := DefaultPool(d)
		if d.Graphs != nil {
			d = m.ReadOut(d)
		}
		spec.Start = cfg.Start
		return m, m.AddPool(d, spec)
	}
	return m, m.identify()
}

// kind returns the encoder's kind.
func (c Config) kind() gnn.Kind {
	if c.Frozen != nil {
		return c.Frozen.Kind()
	}
	return cmp.Or(c.Encoder, gnn.KindSAGE)
}

// Prepare turns d into training data of an encoder: features are normalised by kind (if
// empty, by [Config]'s default), and the given nodes are the training rows. The edges are
// those of d; see [Data.Complete]. It also returns the normaliser, which serving needs. d
// must not be empty.
func Prepare(d Data, nodes []int32, kind gnn.Normalization) (train.Data, *gnn.Normalizer, error) {
	if g := d.Graphs; g != nil {
		d.X, d.Src, d.Dst = g.X, g.Src, g.Dst
	}
	if kind == "" {
		switch {
		case d.Schema != nil:
			kind = gnn.NormalizeNone // the schema did what is needed
		case d.X[0].Dense == nil:
			kind = gnn.NormalizeRowL2
		case d.Graphs != nil:
			kind = gnn.NormalizeStandard
		default:
			kind = gnn.NormalizeRanks
		}
	}
	if d.Before != nil && kind == gnn.NormalizeRanks {
		kind = gnn.NormalizeStandard
	}
	n, err := d.Before.Ranked(), error(nil)
	if n == nil || kind != gnn.NormalizeStandard {
		n, err = gnn.FitNormalizer(kind, d.X)
	}
	if err != nil {
		return train.Data{}, nil, err
	}
	data := train.Data{
		X: make([]gnn.Vector, len(d.X)), Src: d.Src, Dst: d.Dst, Mean: d.Mean, Weight: d.Weight,
		Labels: d.Labels, Train: nodes,
	}
	if d.Graphs == nil {
		data.Labels = append(slices.Clip(d.Labels), make([]int32, len(d.X)-len(d.Labels))...) // not read
	}
	for i := range d.X {
		data.X[i] = n.Apply(gnn.Vector{}, d.X[i])
	}
	return data, n, nil
}

// HoldOut draws a share of each class's nodes, rounded down. All others are to fit.
func (d Data) HoldOut(share float64, seed uint64) (fit, held []int32) {
	left := make([]int, len(d.Classes))
	for _, y := range d.Labels {
		left[y]++
	}
	for y, n := range left {
		left[y] = int(share * float64(n))
	}
	for _, i := range rand.New(rand.NewPCG(seed, 0x76616c6964)).Perm(len(d.Labels)) {
		if y := d.Labels[i]; left[y] > 0 {
			left[y]--
			held = append(held, int32(i))
			continue
		}
		fit = append(fit, int32(i))
	}
	slices.Sort(fit)
	slices.Sort(held)
	return fit, held
}

// Part returns the data of the given nodes and the edges between them.
func (d Data) Part(nodes []int32) Data {
	p := d
	p.IDs, p.X, p.Labels, p.Src, p.Dst, p.Mean, p.Weight = nil, nil, nil, nil, nil, nil, nil
	if d.Graphs != nil {
		p.Graphs = d.Graphs.Part(nodes)
	}
	place := make([]int32, len(d.Labels))
	for i := range place {
		place[i] = -1
	}
	for i, v := range nodes {
		place[v] = int32(i)
		p.Labels = append(p.Labels, d.Labels[v])
		if d.Graphs == nil {
			p.X = append(p.X, d.X[v])
		}
		if d.IDs != nil {
			p.IDs = append(p.IDs, d.IDs[v])
		}
	}
	for e, u := range d.Src {
		if u, v := place[u], place[d.Dst[e]]; u >= 0 && v >= 0 {
			p.Src, p.Dst = append(p.Src, u), append(p.Dst, v)
			if d.Kinds != nil {
				p.Mean, p.Weight = append(p.Mean, d.Mean[e]), append(p.Weight, d.Weight[e])
			}
		}
	}
	return p
}

// elbo adapts the Bayesian last layer to train.Head.
type elbo struct{ *posterior.Variational }

// Loss implements train.Head.
func (h *elbo) Loss(z []float64, labels []int32, epoch, epochs int, rng *rand.Rand, dz []float64) train.Loss {
	alpha := posterior.KLWeight(epoch, epochs)
	l := h.Variational.Loss(z, labels, alpha, rng, dz)
	return train.Loss{Total: l.Total, ELL: l.ELL, KL: l.KL, KLWeight: alpha, Correct: l.Correct}
}
