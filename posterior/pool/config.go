package pool

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/check"
)

// Config lists the heads of a pool and their constants. Model files hold it as JSON.
type Config struct {
	Heads   []HeadConfig  `json:"heads"`
	Weights weightsConfig `json:"weights"`
	// Mixture has the pool serve a mixture. Without one it serves the product of the heads
	// by Weights.
	Mixture *mixtureConfig `json:"mixture,omitempty"`
	// Start is what the products and the mixture begin with; nil for the defaults.
	Start *Start `json:"start,omitempty"`
	// Batch is the number of labels of a full batch. A batch of n labels keeps
	// λ^min(1, n/Batch) of the past, in the weights and in every head that forgets
	// (for an online head it takes the place of [posterior.Config.Batch]): many small
	// batches forget as much as one full one. Larger batches forget no more than a full
	// one.
	Batch float64 `json:"batch"`
	// Served is what a neighbour without a label counts for in Rows.Labelled and Second,
	// of the label it would have: this share of the probabilities that were served for
	// it. 0 for nothing.
	Served float64 `json:"served,omitempty"`
}

// HeadConfig is one head: a name that no other head of the pool has, and the
// constants of exactly one kind of head.
type HeadConfig struct {
	Name string `json:"name"`
	// Shadow heads learn and are scored, but have no weight in the pool.
	Shadow bool `json:"shadow,omitempty"`

	Static *staticConfig     `json:"static,omitempty"`
	Online *posterior.Config `json:"online,omitempty"`
	Joint  *jointConfig      `json:"joint,omitempty"`
	Wide   *Wide             `json:"wide,omitempty"`
	Bayes  *Bayes            `json:"bayes,omitempty"`
	Label  *labelConfig      `json:"label,omitempty"`
	Vote   *voteConfig       `json:"vote,omitempty"`
}

// staticConfig configures the paper's GVBLL-Static, the training posterior, never updated; see
// [posterior.NewStatic]. GVBLL-Online has the constants of [posterior.Config].
type staticConfig struct{}

// jointConfig configures a last layer on the embedding and the labels around a node together.
type jointConfig struct {
	// Lambda, λ in (0, 1], is the share of the precision that a full batch keeps; the
	// rest becomes the prior's.
	Lambda float64 `json:"lambda"`
	// Share in (0, 1] is the part of the training posterior's precision that is the
	// prior precision of the weights on the embedding.
	Share float64 `json:"share"`
	// Variance is the prior variance of the weights on labels and of the bias.
	Variance float64 `json:"variance"`
	Passes   int     `json:"passes"` // of the fit over a batch
}

// Wide is softmax regression on blocks of columns.
type Wide struct {
	// Blocks are what is in a row, each once.
	Blocks []Block `json:"blocks"`
	// Scale is Unit or Standard.
	Scale scale `json:"scale"`
	// Variance is v, the prior variance of every weight.
	Variance float64 `json:"variance"`
	// Lambda, λ in (0, 1], is the share of the precision that a full batch keeps; the
	// rest becomes the prior's.
	Lambda float64 `json:"lambda"`
	// Passes of the fit over a batch, and over the training rows.
	Passes         int `json:"passes"`
	TrainingPasses int `json:"training_passes"`
	// Refresh has the head learn from Batch.Refresh after the batch itself. Blocks are
	// then of features alone.
	Refresh bool `json:"refresh,omitempty"`
}

// has reports whether the head's rows have a block.
func (w Wide) has(b Block) bool { return slices.Contains(w.Blocks, b) }

// scale is how a wide head scales features.
type scale string

const (
	// Unit scales x_v and s_v to unit length. It is for sparse features: zeros stay
	// zeros, and cost nothing.
	Unit scale = "unit"
	// Standard standardises x_v and s_v/deg v by the training rows and scales each to
	// unit length. It is for dense features.
	Standard scale = "standard"
)

// Bayes is multinomial naive Bayes on counts.
type Bayes struct {
	Smoothing float64 `json:"smoothing"` // α, added to every count
}

// labelConfig configures a head that predicts from the known labels around a node, through a learned matrix of
// how often each class is next to each other.
type labelConfig struct {
	Evidence evidence `json:"evidence"`
}

// evidence is the summary of the labels around a node that a label head reads, a
// number for each class.
type evidence string

const (
	byCounts evidence = "counts" // n_v
	byScaled evidence = "scaled" // n_v/√max(1, Σn_v)
	bySecond evidence = "second" // q_v/√max(1, Σq_v)
)

// voteConfig configures a head that predicts the share of each class among the labelled neighbours.
type voteConfig struct{}

// weightsConfig are the constants of the log-linear pool.
type weightsConfig struct {
	Total    float64 `json:"total"`     // sum of the prior means of the weights
	WeightSD float64 `json:"weight_sd"` // prior standard deviation of a weight
	BiasSD   float64 `json:"bias_sd"`   // prior standard deviation of a class's bias
	Floor    float64 `json:"floor"`     // negative: log probabilities below it count as it, nats
	Lambda   float64 `json:"lambda"`    // λ in (0, 1]: share of the past that a full batch keeps; the rest returns to the prior
	Steps    int     `json:"steps"`     // Newton steps for a batch, at most
}

// mixtureConfig are the constants of the mixture of two products and all heads. The second
// product has the same Weights and no biases.
type mixtureConfig struct {
	Heads  float64 `json:"heads"`  // prior share of all heads together, in (0, 1); the products have equal parts of the rest
	Rate   float64 `json:"rate"`   // η in (0, 1]: the power to which likelihoods count
	Lambda float64 `json:"lambda"` // λ in (0, 1]: share of the log likelihoods that a full batch keeps
}

// Needs returns the fields of Rows that the heads read.
func (s Config) Needs() (n Need) {
	for _, h := range s.Heads {
		switch {
		case h.Wide != nil:
			for _, b := range h.Wide.Blocks {
				n |= b.needs()
			}
		case h.Bayes != nil:
			n |= NeedX
		case h.Joint != nil:
			n |= NeedEmbedded | NeedLabelled | NeedSecond
		case h.Label != nil && h.Label.Evidence == bySecond:
			n |= NeedSecond
		case h.Label != nil || h.Vote != nil:
			n |= NeedLabelled
		default:
			n |= NeedEmbedded
		}
	}
	return n
}

// share returns the number of labels as a share of a full batch, at most 1.
func (s Config) share(labels int) float64 { return posterior.Share(labels, s.Batch) }

// Scale returns how the wide heads scale features; they all do alike. It is [Unit]
// if there is none.
func (s Config) Scale() scale {
	for _, h := range s.Heads {
		if h.Wide != nil && h.Wide.Scale == Standard {
			return Standard
		}
	}
	return Unit
}

// Refreshes reports whether a head reads Batch.Refresh.
func (s Config) Refreshes() bool {
	for _, h := range s.Heads {
		if h.Wide != nil && h.Wide.Refresh {
			return true
		}
	}
	return false
}

// Traits are the properties of training data that decide which heads serve.
type Traits struct {
	Density  float64 // share of the features that are not 0
	Negative bool    // whether any feature is negative
	Alike    bool    // whether all rows have the same features, so that these say nothing
	Rows     int     // training rows
	Classes  int
	Features int
}

// Inspect returns the traits of n training rows of d features.
func Inspect(x Features, n, d, classes int) Traits {
	x.check(n, d)
	var (
		t      = Traits{Rows: n, Classes: classes, Features: d, Alike: n > 1}
		count  int
		buffer entries
		first  entries
	)
	for i := range n {
		index, value := x.entries(i, d, &buffer)
		if i == 0 {
			first = entries{slices.Clone(index), slices.Clone(value)}
		}
		t.Alike = t.Alike && slices.Equal(index, first.index) && slices.Equal(value, first.value)
		for _, v := range value {
			if v != 0 {
				count++
			}
			t.Negative = t.Negative || v < 0
		}
	}
	t.Density = float64(count) / max(1, float64(n)*float64(d))
	return t
}

// sparseDensity is the largest density at which features count as sparse. Bags of
// words have a density of about .01, dense features of 1; anything between would do.
const sparseDensity = 0.25

// enoughPerClass is the number of training rows per class from which on the embedding
// holds the information of dense features. Then a wide head on features alone adds nothing
// to the others, nor does a joint head beside the one with all blocks; and that one leaves
// features out, since they cost more than the rest of it, unless they are few.
const enoughPerClass = 100

// fewFeatures is the number of features that cost little beside the other blocks.
const fewFeatures = 32

// rowsPerColumn is the number of training rows from which on a regression on the labels
// around a node is worth its part in the pool of sparse features: several for each of the
// 4C + 1 columns that are not features. With fewer a product has too few rows to learn how
// little such a head knows.
const rowsPerColumn = 4

// few reports whether there are too few training rows for heads with all blocks.
func (t Traits) few() bool { return t.Rows < rowsPerColumn*(4*t.Classes+1) }

// Default returns the heads and constants for training data with the given traits.
// There is one set of heads for sparse features and one for dense ones. Naive Bayes
// is in the first unless a feature is negative; the head with all blocks and votes are
// if there are rows enough for them. The second has a joint and a wide head only if there
// are few training rows.
//
// The constants were chosen on Cornell, Texas, Wisconsin and Cora (sparse) and on
// generated graphs with and without drift (dense), and are the same for all of them;
// docs/table.md and ADR 17 have the measurements. What they mean:
//
//   - Weights: Total 1.5 makes the pool sharper than the geometric mean of its heads
//     from the start. Learning the weights matters most under drift. λ between .97
//     and 1 hardly matters, .9 is worse. A head may lose at most 8 nats a label.
//   - Mixture: the products, which are nearly always best, have a prior share of .98. Rate
//     .2 lets few rows that come late decide less than 1 does, and costs nothing where
//     labels come at once.
//   - Served .5: see ADR 18. Where features say nothing, what was served for a neighbour
//     comes from the labels around it alone, which the node hears in q_v by itself; it
//     counts for nothing.
//   - Variance 30 hardly shrinks weights on features of unit length. λ is 1 on sparse
//     features, where forgetting does not help, and .99 on dense ones.
//   - The fit to the training rows starts at the prior and takes 40 passes; that to a
//     batch starts near its solution and takes 2 to 5.
func Default(t Traits) Config {
	online := posterior.DefaultConfig()
	online.Batch = 0 // it has the pool's
	labels := []HeadConfig{
		{Name: "labels", Label: &labelConfig{Evidence: byCounts}},
		{Name: "labels-scaled", Label: &labelConfig{Evidence: byScaled}},
		{Name: "labels-second", Label: &labelConfig{Evidence: bySecond}},
	}
	s := Config{
		Weights: weightsConfig{Total: 1.5, WeightSD: 0.2, BiasSD: 0.5, Floor: -8, Lambda: 0.97, Steps: 8},
		Mixture: &mixtureConfig{Heads: 0.02, Rate: 0.2, Lambda: 0.99},
		Batch:   50,
		Served:  0.5,
	}
	if t.Alike {
		s.Served = 0
	}
	if t.Density > sparseDensity {
		all := &Wide{Blocks: slices.Clone(allBlocks), Scale: Standard, Variance: 1, Lambda: 0.99, Passes: 2, TrainingPasses: 40}
		s.Heads = []HeadConfig{
			{Name: "static", Static: &staticConfig{}},
			{Name: "online", Online: &online},
			{Name: "all", Wide: all},
		}
		if t.Rows < enoughPerClass*t.Classes {
			s.Heads = append(s.Heads,
				HeadConfig{Name: "joint", Joint: &jointConfig{Lambda: 0.99, Share: 0.01, Variance: 1, Passes: 3}},
				HeadConfig{Name: "wide", Wide: &Wide{Blocks: []Block{OwnFeatures, meanFeatures, constant}, Scale: Standard, Variance: 30, Lambda: 0.99, Passes: 5, TrainingPasses: 40}})
		} else if t.Features > fewFeatures {
			all.Blocks = slices.DeleteFunc(all.Blocks, Block.isFeatures)
		}
		s.Heads = append(append(s.Heads, labels...), HeadConfig{Name: "votes", Vote: &voteConfig{}})
		return s
	}
	s.Heads = []HeadConfig{
		{Name: "static", Shadow: true, Static: &staticConfig{}},
		{Name: "online", Online: &online},
		{Name: "wide-own", Wide: &Wide{Blocks: []Block{OwnFeatures, constant}, Scale: Unit, Variance: 30, Lambda: 1, Passes: 3, TrainingPasses: 40}},
		{Name: "wide", Wide: &Wide{Blocks: []Block{OwnFeatures, meanFeatures, constant}, Scale: Unit, Variance: 30, Lambda: 1, Passes: 3, TrainingPasses: 40, Refresh: t.few()}},
	}
	if !t.few() {
		s.Heads = append(s.Heads,
			HeadConfig{Name: "all", Wide: &Wide{Blocks: slices.Clone(allBlocks), Scale: Unit, Variance: 1, Lambda: 1, Passes: 3, TrainingPasses: 40}},
			HeadConfig{Name: "votes", Vote: &voteConfig{}})
	}
	if !t.Negative {
		s.Heads = append(s.Heads, HeadConfig{Name: "bayes", Bayes: &Bayes{Smoothing: 0.2}})
	}
	s.Heads = append(s.Heads, labels...)
	return s
}

// Validate reports every error in the configuration, each with its remedy.
func (s Config) Validate() error {
	var r check.Remedies
	serving := false
	scales := make(map[scale]bool)
	seen := make(map[string]bool)
	for _, h := range s.Heads {
		reserved := h.Name == poolName || h.Name == productName || h.Name == flatProductName
		r.Unless(h.Name != "" && !reserved && !seen[h.Name], "head %.200q: give each head a name of its own, other than %q, %q and %q", h.Name, poolName, productName, flatProductName)
		seen[h.Name] = true
		serving = serving || !h.Shadow
		if h.Wide != nil {
			scales[h.Wide.Scale] = true
		}
		if err := h.validate(); err != nil {
			r = append(r, fmt.Errorf("head %q: %w", h.Name, err))
		}
	}
	r.Unless(serving, "no head has a part in the pool: give one that is not a shadow")
	r.Unless(len(scales) < 2, "wide heads differ in scale: give all of them %q or all %q", Unit, Standard)
	w := s.Weights
	r.Unless(isPositive(w.Total), "weights: total %v: give a positive number, such as 1.5", w.Total)
	r.Unless(isPositive(w.WeightSD), "weights: weight_sd %v: give a positive number, such as 0.2", w.WeightSD)
	r.Unless(isPositive(w.BiasSD), "weights: bias_sd %v: give a positive number, such as 0.5", w.BiasSD)
	r.Unless(isPositive(-w.Floor), "weights: floor %v: give a negative number, such as -8", w.Floor)
	r.Unless(isShare(w.Lambda), "weights: lambda %v: give a number above 0 and up to 1, such as 0.97", w.Lambda)
	r.Unless(w.Steps > 0, "weights: steps %d: give a positive number, such as 8", w.Steps)
	if m := s.Mixture; m != nil {
		r.Unless(m.Heads > 0 && m.Heads < 1, "mixture: heads %v: give a number between 0 and 1, such as 0.02", m.Heads)
		r.Unless(isShare(m.Rate), "mixture: rate %v: give a number above 0 and up to 1, such as 1", m.Rate)
		r.Unless(isShare(m.Lambda), "mixture: lambda %v: give a number above 0 and up to 1, such as 0.99", m.Lambda)
	}
	r = append(r, s.Start.validate(s)...)
	r.Unless(s.Served >= 0 && s.Served < 1, "served %v: give a share below 1, such as 0.5, or 0 for none", s.Served)
	r.Unless(isPositive(s.Batch), "batch %v: give a positive number of labels, such as 50", s.Batch)
	return r.Join()
}

func (h HeadConfig) validate() error {
	var r check.Remedies
	kinds := 0
	if h.Static != nil {
		kinds++
	}
	if c := h.Online; c != nil {
		kinds++
		if err := c.Validate(); err != nil {
			r = append(r, err)
		}
	}
	if j := h.Joint; j != nil {
		kinds++
		r.Unless(isShare(j.Lambda), "lambda %v: give a number above 0 and up to 1, such as 0.99", j.Lambda)
		r.Unless(isShare(j.Share), "share %v: give a number above 0 and up to 1, such as 0.01", j.Share)
		r.Unless(isPositive(j.Variance), "variance %v: give a positive number, such as 1", j.Variance)
		r.Unless(j.Passes > 0, "passes %d: give a positive number, such as 3", j.Passes)
	}
	if w := h.Wide; w != nil {
		kinds++
		r.Unless(w.Scale == Unit || w.Scale == Standard, "scale %q: give %q or %q", w.Scale, Unit, Standard)
		r.Unless(isPositive(w.Variance), "variance %v: give a positive number, such as 30", w.Variance)
		r.Unless(isShare(w.Lambda), "lambda %v: give a number above 0 and up to 1, such as 0.99", w.Lambda)
		r.Unless(w.Passes > 0 && w.TrainingPasses > 0, "passes %d and training_passes %d: give positive numbers, such as 5 and 40", w.Passes, w.TrainingPasses)
		r = append(r, w.validateBlocks()...)
	}
	if b := h.Bayes; b != nil {
		kinds++
		r.Unless(isPositive(b.Smoothing), "smoothing %v: give a positive number, such as 0.2", b.Smoothing)
	}
	if l := h.Label; l != nil {
		kinds++
		r.Unless(l.Evidence == byCounts || l.Evidence == byScaled || l.Evidence == bySecond, "evidence %q: give %q, %q or %q", l.Evidence, byCounts, byScaled, bySecond)
	}
	if h.Vote != nil {
		kinds++
	}
	r.Unless(kinds == 1, "%d kinds: give exactly one of static, online, joint, wide, bayes, label, vote", kinds)
	return r.Join()
}

func (w Wide) validateBlocks() (r check.Remedies) {
	r.Unless(len(w.Blocks) > 0, "no blocks: give one or more of %q", allBlocks)
	seen := make(map[Block]bool)
	for _, b := range w.Blocks {
		r.Unless(slices.Contains(allBlocks, b), "block %.200q: give one of %q", b, allBlocks)
		r.Unless(!seen[b], "block %.200q stands twice: leave one out", b)
		seen[b] = true
		r.Unless(!w.Refresh || b.isFeatures() || b == constant, "refresh with block %.200q: leave one out, since labels are learned as they were served", b)
	}
	r.Unless(!w.Refresh || w.has(meanFeatures), "refresh without block %q: a row's own features do not change", meanFeatures)
	return r
}

func isPositive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

func isShare(x float64) bool { return x > 0 && x <= 1 }
