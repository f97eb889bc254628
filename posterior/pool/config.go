package pool

import (
	"errors"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// Config says which heads a pool has and with which constants. It goes into
// files as JSON.
type Config struct {
	Heads   []HeadConfig `json:"heads"`
	Weights Weights      `json:"weights"`
	// Batch is the number of labels that one forgetting by λ stands for, in wide
	// and full heads and in the weights: a batch of fewer forgets λ^(n/Batch), so
	// that many small batches forget as one large one does; a larger one forgets
	// λ.
	Batch float64 `json:"batch"`
}

// HeadConfig is one head: its name, which the heads of a pool must differ in, and
// exactly one of its kinds.
type HeadConfig struct {
	Name string `json:"name"`
	// Shadow heads learn and are scored, but have no part in the pool.
	Shadow bool `json:"shadow,omitempty"`

	Static *Static           `json:"static,omitempty"`
	Online *posterior.Config `json:"online,omitempty"`
	Full   *Full             `json:"full,omitempty"`
	Joint  *Joint            `json:"joint,omitempty"`
	Wide   *Wide             `json:"wide,omitempty"`
	Bayes  *Bayes            `json:"bayes,omitempty"`
	Label  *Label            `json:"label,omitempty"`
	Vote   *Vote             `json:"vote,omitempty"`
}

// Static is the training posterior, never updated (posterior.Static). Online
// heads are the paper's Algorithm 1 (posterior.Online).
type Static struct{}

// Full is a last layer on z/τ with a full covariance for each class.
type Full struct {
	Lambda float64 `json:"lambda"` // in (0, 1]: what a batch keeps of the past; the rest returns to the training posterior
	Steps  int     `json:"steps"`  // Newton's steps for a batch
}

// Joint is a last layer on the embedding and the labels around a node.
type Joint struct {
	// Lambda in (0, 1] is what a batch keeps of the past; the rest of the
	// precision returns to what it was at the start.
	Lambda float64 `json:"lambda"`
	// Share in (0, 1] of the training posterior's precision is what it starts with
	// on the embedding; Variance, of a weight on labels, is the prior's there.
	Share    float64 `json:"share"`
	Variance float64 `json:"variance"`
	Passes   int     `json:"passes"` // over a batch
}

// Wide is a last layer on features.
type Wide struct {
	// Neighbours adds the neighbours' features to a row's own.
	Neighbours bool `json:"neighbours"`
	// Scale is Unit or Standard.
	Scale Scale `json:"scale"`
	// Variance is v, the prior variance of every weight.
	Variance float64 `json:"variance"`
	// Lambda in (0, 1] is what a batch keeps of the past; the rest of the
	// precision returns to the prior's.
	Lambda float64 `json:"lambda"`
	// Passes over a batch, and over the training rows.
	Passes         int `json:"passes"`
	TrainingPasses int `json:"training_passes"`
	// Refresh learns from Batch.Refresh too.
	Refresh bool `json:"refresh,omitempty"`
}

// Scale says how a wide head takes its features.
type Scale string

const (
	// Unit: x_v/|x_v|, s_v/|s_v|. For sparse features: what is zero costs nothing.
	Unit Scale = "unit"
	// Standard: x_v and s_v/deg v standardised by the training rows, each then of
	// unit length, and a constant. For dense features.
	Standard Scale = "standard"
)

// Bayes is multinomial naive Bayes on counts.
type Bayes struct {
	Smoothing float64 `json:"smoothing"` // added to every count
}

// Label is a label channel: what the known labels around a node say, through a
// matrix of how often each class is next to each other one. It learns that like
// is next to like, and the opposite alike.
type Label struct {
	Evidence Evidence `json:"evidence"`
}

// Evidence is what a label channel sees of a node's surroundings, a number for
// each class.
type Evidence string

const (
	Counts Evidence = "counts" // n_v
	Scaled Evidence = "scaled" // n_v/√max(1, Σn_v)
	Second Evidence = "second" // q_v/√max(1, Σq_v)
)

// Vote is the share of each class among the labelled neighbours, with one more
// neighbour that is shared out as the classes are:
// log((n_v[c] + π_c)/(Σn_v + 1)).
type Vote struct{}

// Weights are the constants of the log-linear pool.
type Weights struct {
	Total    float64 `json:"total"`     // a weight's prior mean is Total/K
	WeightSD float64 `json:"weight_sd"` // its prior standard deviation
	BiasSD   float64 `json:"bias_sd"`   // prior standard deviation of a class's bias
	Floor    float64 `json:"floor"`     // the least log probability that a head may say
	Lambda   float64 `json:"lambda"`    // in (0, 1]: what a batch keeps of the past; the rest returns to the prior
	Steps    int     `json:"steps"`     // Newton's steps for a batch, at most
}

// Needs returns the parts of Rows that the heads use.
func (s Config) Needs() (n Need) {
	for _, h := range s.Heads {
		switch {
		case h.Wide != nil && h.Wide.Neighbours:
			n |= NeedX | NeedS
		case h.Wide != nil || h.Bayes != nil:
			n |= NeedX
		case h.Joint != nil:
			n |= NeedEmbedded | NeedLabelled | NeedSecond
		case h.Label != nil && h.Label.Evidence == Second:
			n |= NeedSecond
		case h.Label != nil || h.Vote != nil:
			n |= NeedLabelled
		default:
			n |= NeedEmbedded
		}
	}
	return n
}

// Share returns the part of a full batch that so many labels are, at most 1.
func (s Config) share(labels int) float64 { return min(1, float64(labels)/s.Batch) }

// Scale returns how the wide heads take their features: [Standard] if one is
// on dense features, or else [Unit].
func (s Config) Scale() Scale {
	for _, h := range s.Heads {
		if h.Wide != nil && h.Wide.Scale == Standard {
			return Standard
		}
	}
	return Unit
}

// Refreshes reports whether a head learns from Batch.Refresh.
func (s Config) Refreshes() bool {
	for _, h := range s.Heads {
		if h.Wide != nil && h.Wide.Refresh {
			return true
		}
	}
	return false
}

// Traits are properties of training data that decide which heads serve.
type Traits struct {
	Density  float64 // share of the features that are not zero
	Negative bool    // whether a feature is negative
	PerClass float64 // training rows for each class
}

// Inspect finds the traits of n training rows of d features and so many classes.
func Inspect(x Features, n, d, classes int) Traits {
	x.check(n, d)
	var (
		t      = Traits{PerClass: float64(n) / float64(max(classes, 1))}
		count  int
		buffer entries
	)
	for i := range n {
		_, value := x.entries(i, d, &buffer)
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

// sparseDensity is the density up to which features are taken for sparse.
const sparseDensity = 0.25

// enoughPerClass is how many training rows a class is to have for the encoder to
// have learned what dense features say: a wide head, which costs most, then adds
// nothing to those on the embedding.
const enoughPerClass = 100

// Default returns the heads and constants for training data with the given
// traits: one set for sparse features, one for dense ones. Naive Bayes is
// among the first where no feature is negative; a wide head is among the second
// where training rows are few.
func Default(t Traits) Config {
	online := posterior.DefaultConfig()
	labels := []HeadConfig{
		{Name: "labels", Label: &Label{Evidence: Counts}},
		{Name: "labels-scaled", Label: &Label{Evidence: Scaled}},
		{Name: "labels-second", Label: &Label{Evidence: Second}},
	}
	s := Config{
		Weights: Weights{Total: 1.5, WeightSD: 0.2, BiasSD: 0.5, Floor: -8, Lambda: 0.97, Steps: 8},
		Batch:   50,
	}
	if t.Density > sparseDensity {
		s.Heads = []HeadConfig{
			{Name: "static", Static: &Static{}},
			{Name: "online", Online: &online},
			{Name: "joint", Joint: &Joint{Lambda: 0.99, Share: 0.01, Variance: 1, Passes: 3}},
		}
		if t.PerClass < enoughPerClass {
			s.Heads = append(s.Heads, HeadConfig{Name: "wide", Wide: &Wide{Neighbours: true, Scale: Standard, Variance: 30, Lambda: 0.99, Passes: 5, TrainingPasses: 40}})
		}
		s.Heads = append(append(s.Heads, labels...), HeadConfig{Name: "votes", Vote: &Vote{}})
		return s
	}
	s.Heads = []HeadConfig{
		{Name: "static", Shadow: true, Static: &Static{}},
		{Name: "online", Online: &online},
		{Name: "wide-own", Wide: &Wide{Scale: Unit, Variance: 30, Lambda: 1, Passes: 3, TrainingPasses: 40}},
		{Name: "wide", Wide: &Wide{Neighbours: true, Scale: Unit, Variance: 30, Lambda: 1, Passes: 3, TrainingPasses: 40, Refresh: true}},
	}
	if !t.Negative {
		s.Heads = append(s.Heads, HeadConfig{Name: "bayes", Bayes: &Bayes{Smoothing: 0.2}})
	}
	s.Heads = append(s.Heads, labels...)
	return s
}

// Validate reports everything that is wrong with the cfg, with the remedy.
func (s Config) Validate() error {
	var errs []error
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	serving := false
	scales := make(map[Scale]bool)
	seen := make(map[string]bool)
	for _, h := range s.Heads {
		refuse(h.Name != "" && h.Name != poolName && !seen[h.Name], "head %q: give each head a name of its own, other than %q", h.Name, poolName)
		seen[h.Name] = true
		serving = serving || !h.Shadow
		if h.Wide != nil {
			scales[h.Wide.Scale] = true
		}
		if err := h.validate(); err != nil {
			errs = append(errs, fmt.Errorf("head %q: %w", h.Name, err))
		}
	}
	refuse(serving, "no head has a part in the pool: give one that is not a shadow")
	refuse(len(scales) < 2, "wide heads differ in scale: give all of them %q or all %q", Unit, Standard)
	w := s.Weights
	refuse(isPositive(w.Total), "weights: total %v: give a positive number, such as 1.5", w.Total)
	refuse(isPositive(w.WeightSD), "weights: weight_sd %v: give a positive number, such as 0.2", w.WeightSD)
	refuse(isPositive(w.BiasSD), "weights: bias_sd %v: give a positive number, such as 0.5", w.BiasSD)
	refuse(isPositive(-w.Floor), "weights: floor %v: give a negative number, such as -8", w.Floor)
	refuse(isShare(w.Lambda), "weights: lambda %v: give a number above 0 and up to 1, such as 0.97", w.Lambda)
	refuse(w.Steps > 0, "weights: steps %d: give a positive number, such as 8", w.Steps)
	refuse(isPositive(s.Batch), "batch %v: give a positive number of labels, such as 50", s.Batch)
	return errors.Join(errs...)
}

func (h HeadConfig) validate() error {
	var errs []error
	refuse := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	kinds := 0
	if h.Static != nil {
		kinds++
	}
	if c := h.Online; c != nil {
		kinds++
		if err := c.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if f := h.Full; f != nil {
		kinds++
		refuse(isShare(f.Lambda), "lambda %v: give a number above 0 and up to 1, such as 0.99", f.Lambda)
		refuse(f.Steps > 0, "steps %d: give a positive number, such as 3", f.Steps)
	}
	if j := h.Joint; j != nil {
		kinds++
		refuse(isShare(j.Lambda), "lambda %v: give a number above 0 and up to 1, such as 0.99", j.Lambda)
		refuse(isShare(j.Share), "share %v: give a number above 0 and up to 1, such as 0.01", j.Share)
		refuse(isPositive(j.Variance), "variance %v: give a positive number, such as 1", j.Variance)
		refuse(j.Passes > 0, "passes %d: give a positive number, such as 3", j.Passes)
	}
	if w := h.Wide; w != nil {
		kinds++
		refuse(w.Scale == Unit || w.Scale == Standard, "scale %q: give %q or %q", w.Scale, Unit, Standard)
		refuse(isPositive(w.Variance), "variance %v: give a positive number, such as 30", w.Variance)
		refuse(isShare(w.Lambda), "lambda %v: give a number above 0 and up to 1, such as 0.99", w.Lambda)
		refuse(w.Passes > 0 && w.TrainingPasses > 0, "passes %d and training_passes %d: give positive numbers, such as 5 and 40", w.Passes, w.TrainingPasses)
		refuse(!w.Refresh || w.Neighbours, "refresh without neighbours: a row's own features do not change")
	}
	if b := h.Bayes; b != nil {
		kinds++
		refuse(isPositive(b.Smoothing), "smoothing %v: give a positive number, such as 0.2", b.Smoothing)
	}
	if l := h.Label; l != nil {
		kinds++
		refuse(l.Evidence == Counts || l.Evidence == Scaled || l.Evidence == Second, "evidence %q: give %q, %q or %q", l.Evidence, Counts, Scaled, Second)
	}
	if h.Vote != nil {
		kinds++
	}
	refuse(kinds == 1, "%d kinds: give exactly one of static, online, full, joint, wide, bayes, label, vote", kinds)
	return errors.Join(errs...)
}

func isPositive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

func isShare(x float64) bool { return x > 0 && x <= 1 }
