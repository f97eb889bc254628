package pipeline

import (
	"errors"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/posterior"
)

// Version changes whenever the same windows would give other bits, so that a
// ledger is never replayed by an engine that cannot agree with it.
const Version = 5

// What serves: Config.Head.
const (
	HeadPool  = "pool"  // the model's pool of heads
	HeadPaper = "paper" // the paper's: GVBLL-Online, with GVBLL-Static beside it
)

// Config bounds what the engine keeps and says how it predicts and learns. Outcomes
// depend on it, so that a ledger holds one, see [Config.Settings]. The zero value of a
// field means its default, see [Config.WithDefaults].
type Config struct {
	// Head says what serves: [HeadPool], [HeadPaper], or, empty, the model's pool
	// if it has one and the paper's heads otherwise.
	Head string
	// Update holds λ, η, β, δ and ε of the paper's Proposition 1, for the paper's
	// online head. The heads of a pool have their constants in the model file.
	Update posterior.Config
	// Samples is the number of posterior samples behind the split of the paper's
	// uncertainty into aleatoric and epistemic. Zero means 16.
	Samples int
	// Bins is the number of equal-mass bins of a window's ECE. Zero means 10.
	Bins int
	// MaxPending bounds the served nodes whose prediction is kept until their
	// label comes; beyond it the oldest expires. Zero means 262,144.
	MaxPending int
	// MaxWaitingLabels bounds the labels kept for a node that has not come;
	// beyond it, or where their records take more than 1 KiB each on average,
	// the oldest is refused as an orphan. Zero means 65,536.
	MaxWaitingLabels int
	// MaxWaitingEdges bounds the edges kept for a node that has not come;
	// beyond it, or where the ids waited for take more than 256 bytes an edge
	// on average, the oldest are dropped. Zero means 262,144.
	MaxWaitingEdges int
	// BFloat16 keeps the graph's rows in half the memory, see [gnn.BFloat16].
	BFloat16 bool
	// Fallback is θ of the rule that lets the static head serve in place of the
	// online one, in nats: it does once it is ahead by θ in log likelihood, until
	// it no longer is ahead. Zero means 20; a negative number lets the online head
	// always serve. A pool has its weights instead.
	Fallback float64
	// Coverage asks for a set of classes with every prediction. The zero value
	// asks for none.
	Coverage Coverage
	// Unwatched leaves out the drift detectors. They have no part in what is
	// served: a ledger is not bound to it.
	Unwatched bool
	// Rescore says when nodes are predicted again. The zero value is never.
	Rescore Rescoring
	// Reserve preallocates memory for this many nodes. A ledger is not bound to it.
	Reserve int
	// Workers is how many goroutines share a window's products, with the same
	// bits: a ledger is not bound to it. Zero means 1.
	Workers int
}

// String returns the settings that outcomes depend on as one line: canonical, so that a
// snapshot is of the Config whose line it has. What is off by default is left out
// while it is off.
func (c Config) String() string {
	u := c.Update
	s := fmt.Sprintf("engine=%d lambda=%g eta=%g beta=%g clip=%g epsilon=%g gradient=%v samples=%d bins=%d pending=%d waiting-labels=%d waiting-edges=%d",
		Version, u.Lambda, u.Eta, u.Beta, u.Clip, u.Epsilon, u.Gradient, c.Samples, c.Bins, c.MaxPending, c.MaxWaitingLabels, c.MaxWaitingEdges)
	if c.BFloat16 {
		s += " rows=bfloat16"
	}
	if c.Head == HeadPaper {
		s += " head=paper"
	}
	if r := c.Rescore; r.on() {
		s += fmt.Sprintf(" rescore-after=%d rescore-confidence=%g rescore-limit=%d", r.After, r.Confidence, r.Limit)
	}
	if u.Walk > 0 {
		s += fmt.Sprintf(" walk=%g", u.Walk)
	}
	if c.Fallback >= 0 {
		s += fmt.Sprintf(" fallback=%g", c.Fallback)
	}
	return s + c.Coverage.String()
}

// WithDefaults fills in the defaults and validates the rest. Its error joins all
// problems found, each with the remedy.
func (c Config) WithDefaults() (Config, error) {
	if c.Update == (posterior.Config{}) {
		c.Update = posterior.DefaultConfig()
	}
	var problems []error
	for _, count := range []struct {
		name  string
		value *int
		def   int
	}{
		{"samples", &c.Samples, 16},
		{"bins", &c.Bins, 10},
		{"max-pending", &c.MaxPending, 1 << 18},
		{"max-waiting-labels", &c.MaxWaitingLabels, 1 << 16},
		{"max-waiting-edges", &c.MaxWaitingEdges, 1 << 18},
		{"workers", &c.Workers, 1},
		{"reserve", &c.Reserve, 0},
		{"rescore-after", &c.Rescore.After, 0},
		{"rescore-limit", &c.Rescore.Limit, 100},
	} {
		if *count.value == 0 {
			*count.value = count.def
		}
		if *count.value < 0 {
			problems = append(problems, fmt.Errorf("%s %d is negative: give a positive number, or 0 for the default of %d", count.name, *count.value, count.def))
		}
	}
	switch c.Head {
	case "", HeadPaper, HeadPool:
	default:
		problems = append(problems, fmt.Errorf("head %q: give %q or %q", c.Head, HeadPool, HeadPaper))
	}
	if p := c.Rescore.Confidence; !(p >= 0 && p < 1) {
		problems = append(problems, fmt.Errorf("rescore-confidence %v: give a probability below 1, or 0 for none", p))
	}
	if c.Fallback == 0 {
		c.Fallback = defaultFallback
	}
	if math.IsNaN(c.Fallback) {
		problems = append(problems, errors.New("fallback NaN: give a number of nats such as 20, or a negative one for none"))
	}
	return c, errors.Join(append(problems, c.Update.Validate(), c.Coverage.validate())...)
}

func (c Config) graphOptions() []gnn.Option {
	options := []gnn.Option{gnn.Workers(c.Workers), gnn.Reserve(c.Reserve)}
	if c.BFloat16 {
		options = append(options, gnn.BFloat16())
	}
	return options
}
