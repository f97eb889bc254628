package pool

import (
	"cmp"
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
	Wide   *Wide             `json:"wide,omitempty"`
	Bayes  *Bayes            `json:"bayes,omitempty"`
	Label  *labelConfig      `json:"label,omitempty"`
	Vote   *voteConfig       `json:"vote,omitempty"`
	Fitted *Fitted           `json:"fitted,omitempty"`
}

// Fitted is softmax regression on blocks of columns that is kept at its optimum. Beside its part in the products, which
// a shadow does not have, it is an expert of the mixture with a share of its own.
type Fitted struct {
	Blocks []Block `json:"blocks"`
	Scale  scale   `json:"scale"`
	// Strengths of the L2 term are fitted beside each other; the one that was best serves.
	Strengths []float64 `json:"strengths"`
	// Streamed is how many of them are fitted in the stream, those about the one that was best for rows held out; 0 for 4.
	Streamed int `json:"streamed,omitempty"`
	Rows     int `json:"rows"` // labelled rows that are kept, at most
	Work     int `json:"work"` // multiply-adds for each label of a batch
	// Few has each label pay for 1 + Few/n times as much, with n labels so far.
	Few    float64 `json:"few,omitempty"`
	Replay int     `json:"replay"` // as of [Wide]
	// TrainingPasses are sweeps over the training rows.
	TrainingPasses int `json:"training_passes"`
}

// staticConfig configures the paper's GVBLL-Static, the training posterior, never updated; see
// [posterior.NewStatic]. GVBLL-Online has the constants of [posterior.Config].
type staticConfig struct{}

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
	// Interactions is the number of columns that each depend on a few of the others together, 0 for
	// none.
	Interactions int `json:"interactions,omitempty"`
	// Replay is the number of rows of Batch.Replay, for each label of a batch, that the head learns
	// after the batch itself, 0 for none.
	Replay int `json:"replay,omitempty"`
}

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
	// Rows of a batch that products learn from, at most and spread evenly over it; 0 for 128. A batch forgets as much, however
	// large it is, and where a class is rare few of its rows would be among few.
	Rows int `json:"rows,omitempty"`
}

// mixtureConfig are the constants of the mixture of two products and all heads. The second
// product has the same Weights and no biases.
type mixtureConfig struct {
	Heads  float64 `json:"heads"`  // prior share of all members together, in (0, 1); the products have equal parts of the rest
	Rate   float64 `json:"rate"`   // η in (0, 1]: the power to which likelihoods count
	Lambda float64 `json:"lambda"` // λ in (0, 1]: share of the log likelihoods that a full batch keeps
	// Fitted is the prior share of the fitted head, and Half that of the geometric mean of it and the first
	// product; they mean nothing where there is no such head.
	Fitted float64 `json:"fitted,omitempty"`
	Half   float64 `json:"half,omitempty"`
	// Anew is for labels that come late, when heads are others than those that served. The first product learns from what the
	// heads say of a row, as it was served, just before they learn its label, and the second from what they said then. What was
	// served is forgotten from then on, and not from when its label comes.
	Anew bool `json:"anew,omitempty"`
}

// Needs returns the fields of Rows that the heads read.
func (s Config) Needs() (n Need) {
	for _, h := range s.Heads {
		n |= h.needs()
	}
	return n
}

// needs returns the fields of Rows that the head reads.
func (h HeadConfig) needs() (n Need) {
	switch {
	case h.Wide != nil:
		for _, b := range h.Wide.Blocks {
			n |= b.needs()
		}
	case h.Fitted != nil:
		for _, b := range h.Fitted.Blocks {
			n |= b.needs()
		}
	case h.Bayes != nil:
		n = NeedX
	case h.Label != nil || h.Vote != nil:
		n = NeedLabelled
	default:
		n = NeedEmbedded
	}
	return n
}

// share returns the number of labels as a share of a full batch, at most 1.
func (s Config) share(labels int) float64 { return posterior.Share(labels, s.Batch) }

// Scale returns how the wide heads scale features; they all do alike. It is [Unit]
// if there is none.
func (s Config) Scale() scale {
	for _, h := range s.Heads {
		if h.Wide != nil && h.Wide.Scale == Standard || h.Fitted != nil && h.Fitted.Scale == Standard {
			return Standard
		}
	}
	return Unit
}

// Fits reports whether there is a fitted head.
func (s Config) Fits() bool {
	return slices.ContainsFunc(s.Heads, func(h HeadConfig) bool { return h.Fitted != nil })
}

// Replays returns how many rows of Batch.Replay the heads learn for each label of a batch, at most.
func (s Config) Replays() (rows int) {
	for _, h := range s.Heads {
		if h.Wide != nil {
			rows = max(rows, h.Wide.Replay)
		}
		if h.Fitted != nil {
			rows = max(rows, h.Fitted.Replay)
		}
	}
	return rows
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

// sparseDensity is the largest density at which features count as sparse, unless they are few: categories and flags say more in
// the mean of neighbours than in its direction, which is what features of unit length have of it. Bags of
// words have a density of about .01, dense features of 1; anything between would do.
const sparseDensity = 0.25

// enoughPerClass is the number of training rows per class from which on the embedding
// holds the information of dense features. Then heads with all blocks leave features out, since they
// cost more than the rest of them, unless they are few.
const enoughPerClass = 100

// fewFeatures is the number of features that cost little beside the other blocks.
const fewFeatures = 32

// fewWeights is the number of features times classes that is not worth saving either: the
// embedding of a table whose edges say little loses .09 nats of what its 35 columns say.
const fewWeights = 1024

// enoughRows is the number of training rows from which on votes are worth their part in the pool of sparse
// features, whatever the number of classes, and "now" is better with a narrow prior.
const enoughRows = 80

// Default returns the heads and constants for training data with the given traits.
// There is one set of heads for sparse features and one for dense ones. Naive Bayes
// is in the first unless a feature is negative, and votes if there are rows enough.
//
// The constants were chosen on the data sets that docs/table.md calls development sets, and on
// generated graphs with and without drift, and are the same for all of them; ADR 31 has what each
// head is worth. What they mean:
//
//   - Weights: Total 1.5 makes the pool sharper than the geometric mean of its heads
//     from the start. Learning the weights matters most under drift. λ between .97
//     and 1 hardly matters, .9 is worse. A head may lose at most 8 nats a label.
//   - Mixture: the products, which are nearly always best, have a prior share of .98. Rate
//     .2 lets few rows that come late decide less than 1 does, and costs nothing where
//     labels come at once. ADR 17 has what Anew is worth.
//   - Served .5: see ADR 18. Where features say nothing, what was served for a neighbour
//     comes from the labels around it alone, which the node hears in q_v by itself; it
//     counts for nothing.
//   - Variance 30 hardly shrinks weights on features of unit length. λ is 1 on sparse
//     features, where forgetting does not help, and .99 on dense ones.
//   - The fit to the training rows starts at the prior and takes 40 passes; that to a
//     batch starts near its solution and takes 2 to 3.
//   - "now" learns rows again as they are now, because degree and labels around a node go on
//     changing, and has interactions.
func Default(t Traits) Config {
	s := Config{
		Weights: weightsConfig{
			Total: 1.5, WeightSD: 0.2, BiasSD: 0.5, Floor: -8, Lambda: 0.97, Steps: 2,
			Rows: max(weighedRows, 4096/max(t.Classes, 1)),
		},
		Mixture: &mixtureConfig{Heads: 0.02, Rate: 0.2, Lambda: 0.99, Anew: true},
		Batch:   50,
		Served:  0.5,
	}
	if t.Alike {
		s.Served = 0
	}
	if t.Density > sparseDensity || t.Features <= fewFeatures {
		s.Heads = denseHeads(t)
	} else {
		s.Heads = sparseHeads(t)
	}
	return s.withFitted(t)
}

// WithKinds returns s with the head "kinds", which counts the labels around a node by kind of edge. It
// is a head of its own, so that where kinds mean nothing the others are as good as without it (ADR 34).
func (s Config) WithKinds() Config {
	s.Heads = append(slices.Clip(s.Heads), HeadConfig{Name: "kinds", Wide: &Wide{
		Blocks: []Block{kindCounts, kindShares, LogDegree, constant}, Scale: s.Scale(), Variance: 3, Lambda: 0.99,
		Passes: 2, TrainingPasses: 40,
	}})
	return s
}

// Alone returns the heads and constants for rows without neighbours, of dense features.
func Alone() Config {
	s := Default(Traits{Density: 1})
	s.Served = 0
	s.Heads = append(s.Heads[:2], HeadConfig{Name: "own", Wide: &Wide{
		Blocks: []Block{OwnFeatures, constant}, Scale: Standard, Variance: 1, Lambda: 0.99, Passes: 2, TrainingPasses: 40,
	}})
	return s
}

func denseHeads(t Traits) []HeadConfig {
	blocks := slices.Clone(allBlocks)
	if t.Alike || t.Rows >= enoughPerClass*t.Classes && t.Features > fewFeatures && t.Features*t.Classes > fewWeights {
		blocks = slices.DeleteFunc(blocks, Block.isFeatures)
	}
	now := &Wide{Blocks: blocks, Scale: Standard, Variance: 3, Lambda: 0.99, Passes: 2, TrainingPasses: 40, Replay: 4}
	if t.Classes <= manyClasses {
		now.Passes, now.Interactions = 3, min(128, 1024/max(t.Classes, 1))
	}
	return append([]HeadConfig{
		{Name: "static", Static: &staticConfig{}},
		{Name: "online", Online: onlineHead()},
		{Name: "now", Wide: now},
		{Name: "votes", Vote: &voteConfig{}},
	}, labelHeads()...)
}

// manyClasses is the number of classes beyond which "now" of dense features has no interactions, which
// gain nothing there, and takes a pass less: what it costs is proportional to its columns times the classes.
const manyClasses = 32

func sparseHeads(t Traits) []HeadConfig {
	list := []HeadConfig{
		{Name: "static", Shadow: true, Static: &staticConfig{}},
		{Name: "online", Online: onlineHead()},
		{Name: "wide-own", Wide: &Wide{
			Blocks: []Block{OwnFeatures, constant}, Scale: Unit, Variance: 30, Lambda: 1,
			Passes: 3, TrainingPasses: 40,
		}},
		{Name: "wide", Wide: &Wide{
			Blocks: []Block{OwnFeatures, meanFeatures, constant}, Scale: Unit, Variance: 30,
			Lambda: 1, Passes: 3, TrainingPasses: 40,
		}},
	}
	now := &Wide{Blocks: allBlocks, Scale: Unit, Variance: 30, Lambda: 1, Passes: 2, TrainingPasses: 40, Interactions: 32, Replay: 2}
	list = append(list, HeadConfig{Name: "now", Wide: now})
	if t.Rows >= enoughRows {
		now.Variance = 0.5
		list = append(list, HeadConfig{Name: "votes", Vote: &voteConfig{}})
	}
	if !t.Negative {
		list = append(list, HeadConfig{Name: "bayes", Bayes: &Bayes{Smoothing: 0.2}})
	}
	return append(list, labelHeads()...)
}

// fittedHead returns the fitted head for training data with these traits, nil if a label would pay for too few visits, or
// features are sparse and rows few: then it is .2 nats behind the wide heads for a long time.
func fittedHead(t Traits, scale scale) *Fitted {
	around := 4*t.Classes + 2
	filled := min(float64(t.Density*float64(t.Features)*(1+rowsAround)), float64(2*t.Features))
	f := &Fitted{
		Blocks: []Block{OwnFeatures, meanFeatures, labelLifts, secondLifts, LogDegree, constant}, Scale: scale,
		Rows: 8192, Work: 49152, Few: 1000, Replay: 4, TrainingPasses: 100,
	}
	if f.Strengths = []float64{100, 10, 1, .1}; scale == Unit {
		f.Strengths, f.Streamed, f.Work = []float64{10, 1, .1}, 2, f.Work/2
	}
	if t.Alike {
		f.Blocks, filled = slices.DeleteFunc(f.Blocks, Block.isFeatures), 0
	}
	if f.isNewton(Shape{Features: t.Features, Classes: t.Classes}) {
		return f
	}
	visit := float64(3*(filled+float64(around))) * float64(strideOf(t.Classes)*f.streamed())
	if visit > float64(f.Work)/leastVisits || scale == Unit && t.Rows < enoughRows {
		return nil
	}
	return f
}

// usualStreamed is how many strengths are fitted in the stream by models that do not say.
const usualStreamed = 4

// streamed returns how many strengths are fitted in the stream.
func (f *Fitted) streamed() int { return min(cmp.Or(f.Streamed, usualStreamed), len(f.Strengths)) }

// columns returns the number of columns of a row, of a shape that may be too large for an int.
func (f *Fitted) columns(s Shape) (n float64) {
	for _, b := range f.Blocks {
		n += width(b, float64(s.Features), float64(s.Classes), float64(s.Means))
	}
	return n
}

// A fitted head is left out where a label pays for fewer visits than leastVisits. A neighbours' mean has as many features that
// are not 0 as rowsAround rows.
const (
	leastVisits = 2
	rowsAround  = 6
)

// withFitted adds the fitted head where it is not too dear. Products weigh it where there are two classes: ADR 41 has what
// that is worth, and what it costs where there are more.
func (s Config) withFitted(t Traits) Config {
	f := fittedHead(t, s.Scale())
	if f == nil {
		return s
	}
	s.Heads = append(s.Heads, HeadConfig{Name: "fitted", Fitted: f, Shadow: t.Classes > 2})
	m := *s.Mixture
	m.Fitted, m.Half = .3, .4
	s.Mixture = &m
	return s
}

// onlineHead returns the paper's head, with the pool's Batch.
func onlineHead() *posterior.Config {
	online := posterior.DefaultConfig()
	online.Batch = 0
	return &online
}

func labelHeads() []HeadConfig {
	return []HeadConfig{
		{Name: "labels", Label: &labelConfig{Evidence: byCounts}},
		{Name: "labels-scaled", Label: &labelConfig{Evidence: byScaled}},
	}
}

// Validate reports every error in the configuration, each with its remedy.
func (s Config) Validate() error {
	var r check.Remedies
	serving, fits := false, 0
	scales := make(map[scale]bool)
	seen := make(map[string]bool)
	for _, h := range s.Heads {
		reserved := h.Name == poolName || h.Name == productName || h.Name == flatProductName || h.Name == halfName
		r.Unless(h.Name != "" && !reserved && !seen[h.Name],
			"head %.200q: give each head a name of its own, other than %q, %q and %q", h.Name, poolName, productName, flatProductName)
		seen[h.Name] = true
		serving = serving || h.isMember()
		if h.Wide != nil {
			scales[h.Wide.Scale] = true
		}
		if h.Fitted != nil {
			scales[h.Fitted.Scale] = true
			fits++
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
	r.Unless(w.Rows >= 0, "weights: rows %d: give a number, such as 2048, or 0 for %d", w.Rows, weighedRows)
	if m := s.Mixture; m != nil {
		r.Unless(m.Heads > 0 && m.Heads < 1, "mixture: heads %v: give a number between 0 and 1, such as 0.02", m.Heads)
		r.Unless(fits == 0 || fits == 1 && m.Fitted > 0 && m.Half > 0 && m.Fitted+m.Half < 1-m.Heads,
			"mixture: fitted %v and half %v with %d fitted heads: give one such head, and two shares such as 0.3 and 0.4",
			m.Fitted, m.Half, fits)
		r.Unless(isShare(m.Rate), "mixture: rate %v: give a number above 0 and up to 1, such as 1", m.Rate)
		r.Unless(isShare(m.Lambda), "mixture: lambda %v: give a number above 0 and up to 1, such as 0.99", m.Lambda)
	}
	r.Unless(fits == 0 || s.Mixture != nil, "a fitted head is an expert of a mixture: give one")
	r = append(r, s.Start.validate(s)...)
	r.Unless(s.Served >= 0 && s.Served < 1, "served %v: give a share below 1, such as 0.5, or 0 for none", s.Served)
	r.Unless(isPositive(s.Batch), "batch %v: give a positive number of labels, such as 50", s.Batch)
	return r.Join()
}

func (h HeadConfig) validate() error {
	var r check.Remedies
	kinds := 0
	for _, is := range []bool{
		h.Static != nil, h.Online != nil, h.Wide != nil, h.Bayes != nil, h.Label != nil, h.Vote != nil, h.Fitted != nil,
	} {
		if is {
			kinds++
		}
	}
	if c := h.Online; c != nil {
		if err := c.Validate(); err != nil {
			r = append(r, err)
		}
	}
	if w := h.Wide; w != nil {
		r.Unless(w.Scale == Unit || w.Scale == Standard, "scale %q: give %q or %q", w.Scale, Unit, Standard)
		r.Unless(isPositive(w.Variance), "variance %v: give a positive number, such as 30", w.Variance)
		r.Unless(isShare(w.Lambda), "lambda %v: give a number above 0 and up to 1, such as 0.99", w.Lambda)
		r.Unless(w.Passes > 0 && w.TrainingPasses > 0, "passes %d and training_passes %d: give positive numbers, such "+
			"as 5 and 40", w.Passes, w.TrainingPasses)
		r.Unless(w.Interactions >= 0 && w.Interactions <= maxInteractions,
			"interactions %d: give a number up to %d, such as 128, or 0 for none", w.Interactions, maxInteractions)
		r.Unless(w.Replay >= 0 && w.Replay <= maxReplay, "replay %d: give a number up to %d, such as 4, or 0 for none", w.Replay, maxReplay)
		r.Unless(w.Interactions == 0 || slices.ContainsFunc(w.Blocks, func(b Block) bool {
			return b != constant && !b.isFeatures()
		}), "interactions of no block: give one on labels or degree")
		r = append(r, validateBlocks(w.Blocks, slices.Concat(allBlocks, []Block{kindCounts, kindShares}))...)
	}
	if b := h.Bayes; b != nil {
		r.Unless(isPositive(b.Smoothing), "smoothing %v: give a positive number, such as 0.2", b.Smoothing)
	}
	if l := h.Label; l != nil {
		r.Unless(l.Evidence == byCounts || l.Evidence == byScaled, "evidence %q: give %q or %q", l.Evidence, byCounts, byScaled)
	}
	if f := h.Fitted; f != nil {
		r.Unless(f.Scale == Unit || f.Scale == Standard, "scale %q: give %q or %q", f.Scale, Unit, Standard)
		r.Unless(len(f.Strengths) > 0 && len(f.Strengths) <= maxStrengths, "%d strengths: give up to %d, such as 1",
			len(f.Strengths), maxStrengths)
		for _, s := range f.Strengths {
			r.Unless(isPositive(s), "strength %v: give a positive number, such as 1", s)
		}
		r.Unless(f.Streamed >= 0 && f.Streamed <= maxStrengths, "streamed %d: give a number of strengths up to %d, or 0 for %d",
			f.Streamed, maxStrengths, usualStreamed)
		r.Unless(f.Rows > 0 && f.Rows <= maxRows, "rows %d: give a number up to %d, such as 8192", f.Rows, maxRows)
		r.Unless(f.Work >= 0 && f.Work <= maxWork, "work %d: give a number up to %d, such as 32768", f.Work, maxWork)
		r.Unless(f.Few >= 0 && f.Few <= maxRows, "few %v: give a number of labels up to %d, such as 1000, or 0 for none", f.Few, maxRows)
		r.Unless(f.TrainingPasses > 0, "training_passes %d: give a positive number, such as 60", f.TrainingPasses)
		r.Unless(f.Replay >= 0 && f.Replay <= maxReplay, "replay %d: give a number up to %d, such as 4, or 0 for none", f.Replay, maxReplay)
		r = append(r, validateBlocks(f.Blocks, slices.Concat(allBlocks, []Block{kindCounts, kindShares, labelLifts, secondLifts}))...)
	}
	r.Unless(kinds == 1, "%d kinds: give exactly one of static, online, wide, bayes, label, vote, fitted", kinds)
	return r.Join()
}

// isMember reports whether the products weigh the head.
func (h HeadConfig) isMember() bool { return !h.Shadow }

func validateBlocks(blocks, known []Block) (r check.Remedies) {
	r.Unless(len(blocks) > 0, "no blocks: give one or more of %q", known)
	seen := make(map[Block]bool)
	for _, b := range blocks {
		r.Unless(slices.Contains(known, b), "block %.200q: give one of %q", b, known)
		r.Unless(!seen[b], "block %.200q stands twice: leave one out", b)
		seen[b] = true
	}
	return r
}

// Bounds of a head's interactions, and of the rows that it learns again for each label.
const (
	maxInteractions = 4096
	maxReplay       = 64
)

// Bounds of a fitted head.
const (
	maxStrengths = 16
	maxRows      = 1 << 20
	maxWork      = 1 << 30
)

func isPositive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

func isShare(x float64) bool { return x > 0 && x <= 1 }
