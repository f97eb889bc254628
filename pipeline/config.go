package pipeline

import (
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
)

// Version identifies what the engine makes of windows. It changes whenever the same windows
// would give other bits, or other events would be refused, so that a ledger is replayed only
// by an engine that can reproduce it. Others go on from it by an epoch.
const Version = 1

// reading numbers the rules by which events are read. A ledger without one is read as by 1.0.0.
const reading = 2

// MostPending is the largest Bounds.Pending. Rows of pending predictions are numbered
// by an int32, and there may be twice as many as predictions.
const MostPending = 1 << 30

// Values of Config.Head.
const (
	HeadPool  = "pool"  // the model's pool of heads
	HeadPaper = "paper" // GVBLL-Online, with GVBLL-Static beside it
)

// Config configures an [Engine]. The zero value of every field means its default, so
// Config{} is valid; see [Config.WithDefaults].
//
// Outcomes depend on every field but Local. The ledger therefore holds a Config without it; see
// [Config.Settings].
type Config struct {
	// Head selects the heads that serve: [HeadPool], [HeadPaper], or, if empty, the
	// model's pool if it has one and the paper's heads otherwise.
	Head string
	// Update holds λ, η, β, δ and ε of the paper's Proposition 1, for the online
	// head. It has no effect on a pool, whose constants are in the model file. The
	// zero value means [posterior.DefaultConfig].
	Update posterior.Config
	// Samples is the number of posterior samples that split the uncertainty of the
	// paper's heads into aleatoric and epistemic. Zero means 16.
	Samples int
	// Bins is the number of equal-mass bins of a window's ECE. Zero means 10.
	Bins int
	// Bounds are those of what waits.
	Bounds Bounds
	// Labels says which label of a node stands when it gets different ones.
	Labels serve.Standing
	// LabelRates says for which share of each class's nodes a label comes. It is for a pool.
	LabelRates LabelRates
	Reading    structure.Reading
	// Keep is for how long nodes and edges stay that nothing names. Zero is for ever.
	Keep structure.Keep
	// LearnLag, ℓ, is the number of windows by which the heads learn labels late: window s
	// is served by heads that have learned the labels of windows up to s-1-ℓ. Their scores,
	// the counts of labels around a node, and everything else follow labels at once. With a
	// lag of 1 or more, learning can run beside the graph, see Local. An outcome reports the
	// updates and the posterior that its window was served with. At most MostLearnLag.
	LearnLag int
	// BFloat16 halves the memory of the graph's rows, see [gnn.BFloat16].
	BFloat16 bool
	// Fallback is θ, in nats: the static head serves once its cumulative log
	// likelihood is ahead of the online head's by θ, and until it is no longer
	// ahead. Zero means 20, a negative number disables the fallback. It has no effect
	// on a pool, which weights its heads.
	Fallback float64
	// Coverage adds a set of classes to every prediction. The zero value adds none.
	Coverage parts.Coverage
	// Act says on which predictions to act, as [parts.ParseActing] reads it. "" says nothing.
	Act string
	// Reasons says which predictions say what moved them, as [parts.ParseReasoning] reads it. "" is none.
	Reasons string
	// By is an attribute by whose values scores are told apart, as [parts.ParseBy] reads it. "" says nothing.
	By string
	// Ask says of how many nodes labels are asked for. The zero value asks for none.
	Ask parts.Asking
	// Rescore says when a served node is predicted again. The zero value means never.
	Rescore parts.Rescoring
	Local   Local
}

// Bounds are those of what waits.
type Bounds struct {
	// Pending bounds the predictions kept until their label comes. When it is
	// exceeded, the oldest expires: its label will be refused as late. At most
	// MostPending; zero means 262,144.
	Pending int
	// Labels bounds the labels kept until their node arrives. When it is
	// exceeded, or when their records exceed 1 KiB on average, the oldest is
	// refused as an orphan. Zero means 65,536.
	Labels int
	// Edges bounds the edges kept until their other node arrives. When it
	// is exceeded, or when the ids of these nodes exceed 256 bytes per edge, the
	// oldest are dropped. Zero means 262,144.
	Edges int
}

// Local is how an engine runs here. Outcomes and state have the same bits whatever it is.
type Local struct {
	// PendingMemory bounds the bytes of memory for what was served of pending
	// predictions: embeddings, and outputs of heads. What has been kept longest is in
	// Blocks beyond it. About 50 bytes for each prediction are always in memory, and
	// more with Coverage and Rescore. Zero means no bound.
	PendingMemory int64
	Blocks        serve.Blocks
	// Unwatched disables the drift detectors. Predictions do not depend on them.
	Unwatched bool
	// Embeddings has predictions carry the embeddings of their nodes. Nothing else depends on it.
	Embeddings bool
	// Reserve preallocates memory for this many nodes.
	Reserve int
	// Workers is the number of goroutines that share a window's matrix products. The
	// results have the same bits for any number. Zero means 1.
	Workers int
	// Run runs a job beside the engine: the learning of a batch, or the prediction of half of a
	// window's arrivals. It starts job, on a goroutine if it likes, and returns a function that
	// waits for its end. Outcomes do not depend on it; nil means at once. The engine has one job at a time.
	Run func(job func()) (wait func())
}

// MostLearnLag is the largest Config.LearnLag. The labels of that many windows wait in
// memory, and in every snapshot.
const MostLearnLag = 1000

// WithDefaults returns c with defaults in place of zero values. If c is invalid, the
// error joins all problems, each with its remedy.
func (c Config) WithDefaults() (Config, error) {
	err := c.Declare().Err()
	return c, err
}

// servesPool reports whether the model's pool serves, and not the paper's heads.
func (c Config) servesPool(m *model.Model) bool {
	return c.Head == HeadPool || c.Head == "" && m.Pool != nil
}

// Watches returns the names of classes that are watched beside the rarest: the one that is acted on, and those that By names.
func (c Config) Watches() []string {
	acting, _ := parts.ParseActing(c.Act) // Declare checks both
	by, _ := parts.ParseBy(c.By)
	if acting.Class != "" {
		return slices.Concat([]string{acting.Class}, by.Classes)
	}
	return by.Classes
}

func (c Config) graphOptions() []gnn.Option {
	options := []gnn.Option{gnn.Workers(c.Local.Workers), gnn.Reserve(c.Local.Reserve)}
	if c.BFloat16 {
		options = append(options, gnn.BFloat16())
	}
	return options
}

// heads returns the settings of the heads.
func (c Config) heads() heads.Config {
	return heads.Config{Update: c.Update, Samples: c.Samples, Lag: c.LearnLag, Beside: c.Local.Run}
}

// waiting returns the bounds of predictions that wait.
func (c Config) waiting() serve.PendingConfig {
	return serve.PendingConfig{Max: c.Bounds.Pending, Memory: c.Local.PendingMemory, Blocks: c.Local.Blocks}
}

// structure returns the settings of what enters, for a model.
func (c Config) structure(m *model.Model) structure.Config {
	return structure.Config{
		Encoder: m.Encoder, Normalizer: m.Normalizer, Schema: m.Schema, Classes: len(m.Classes), Names: m.Classes,
		WaitingEdges: c.Bounds.Edges, Kinds: m.Kinds, Readout: m.Readout, Reading: c.Reading, Keep: c.Keep,
	}
}
