package event

import (
	"encoding/hex"
	"fmt"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/figure"
)

// Outcome is the engine's result for a window. It is a function of the model, the
// settings and the windows up to this one.
type Outcome struct {
	Window      int64
	Model       string       // id of the model that served
	Predictions []Prediction // one for each arrival, in canonical order
	Revisions   []Prediction // of nodes served before: those due in the order in which they became so, then those asked for
	Refused     []Refusal    // the window's, then the engine's: of nodes, edges and labels, each in canonical order
	Labelled    []Labelled   // labels joined to predictions, in the order learned
	Heads       []Head       // every head that is scored; Heads[ServedBy] served
	Figures     figure.Window
	ServedBy    int       // index in Heads
	Drift       *Drift    // nil if the detectors are off
	Coverage    *Coverage // nil unless sets are configured
	Cohorts     *Cohorts  // nil unless scores are told apart by an attribute
	Watched     []int32   // classes whose probabilities Labelled has, MaxWatched at most
	AsTrained   []int32   // arrivals by the class that the model as trained predicts; nil without any
	Posterior   Hash      // of the heads' state; for a pool, of the previous hash and the batch's changes
	Chain       Hash      // of everything served and learned so far

	Odd Odd

	// Shadow is the outcome of the shadow model, nil if there is none.
	Shadow *Outcome
	// Compared compares the two models on the window's labels.
	Compared Comparison
	// Promoted is the id of the model that serves from the next window on, if that
	// changes, or else "".
	Promoted string
}

// Odd is what events have that a model does not know, or that nothing answers.
type Odd struct {
	Unmet      []Unmet     // what waits for nodes that have not come, where that is much
	Classes    []string    // of the labels refused for [UnknownClass]: their names, and "#7" for index 7
	Attributes *Attributes // nil unless features came by name
}

// Refuse adds a refusal.
func (out *Outcome) Refuse(o *Origin, why Reason, detail string) {
	out.Refused = append(out.Refused, Refusal{Origin: o, Reason: why, Detail: detail})
}

// Decline refuses a command that is not supported. It is called after the chain is extended,
// since a model's chain must not depend on commands.
func (out *Outcome) Decline(c *Command) {
	out.Refuse(c.Origin, ImpossibleCommand, fmt.Sprintf("%s: nothing here can do that", c.Name))
}

// Comparison compares what a shadow predicted with what was served, by labels that came for
// both, of classes that both models have.
type Comparison struct {
	Labels int
	Lead   float64 // sum of the log loss of what was served, less that of the shadow, nats
}

// Hash is a SHA-256.
type Hash [32]byte

// Hex returns the hash in hexadecimal digits.
func (h Hash) Hex() string { return hex.EncodeToString(h[:]) }

// Labelled is a label joined to the prediction that was served for its node.
type Labelled struct {
	Node   ID
	Class  int32
	Served int64 // number of the window in which its node was served
	Time   int64 // event time of the label
	Delay  int64 // event time from arrival to label, milliseconds; 0 when either is not given
	By     int   // index in Outcome.Heads of the head that served the node
	// Asked is the probability with which the label was asked for, 0 if it came by itself.
	Asked float32

	Act *bool // whether the prediction said to act, shared and not changed; nil if that is not known

	Watched [MaxWatched]float32 // the probabilities that were served for Outcome.Watched

	// For scores by slice:
	Predicted string // the class that was served
	Degree    int    // neighbours that arrived before the node
	Fresh     int    // those among them that are not context
}

// MaxWatched bounds the classes that are scored one by one, see [Outcome.Watched].
const MaxWatched = 8

// Head is one classifier after the window.
type Head struct {
	Name    string
	Scores  []Score // of this head's predictions as served, aligned with Outcome.Labelled
	Version uint64  // batches learned, this window's included
	Clipped int     // entries of the mean that this window's update clipped
	Step    float64 // Euclidean norm of this window's change of the mean
	Lead    float64 // of the static head over the online one, nats, 0 for others; see Config.Fallback
}

// Score rates one prediction by its label. It is the same struct as calibration.Score,
// to which it converts, so that this package imports nothing of posterior.
type Score struct {
	Class      int32   // predicted class
	Confidence float64 // its probability
	Correct    bool    // Class is the label
	LogLoss    float64 // -log p(label) in nats, p(label) being at least 1e-12
	Brier      float64 // Σ_c (p_c - [c = label])², from 0 to 2
}

// Attributes counts the rows of a window whose features came by name, by attribute of the
// model's schema. It is the same struct as attributes.Tally, as Score is calibration.Score.
type Attributes struct {
	Rows    int64
	Gaps    []int64            // rows without the value
	Others  []int64            // rows with a value that the category lacks
	Clipped []int64            // rows with a number beyond all of training
	Sum     []float64          // of standardised numbers
	Unknown []spelling.Unknown // the names that the schema lacks, at most 65
}

// MostAttributes bounds the attributes that people are shown: the first of a schema.
const MostAttributes = 64

// Drift is the state of the drift detectors after the window. Predictions do not depend
// on it.
type Drift struct {
	Detectors []Detector

	// Over about the latest thousand rows: accuracy and calibration error, estimated
	// from predictions before labels, and realised over labels. All are 0 before the
	// first row of their kind.
	Confidence                      float64
	EstimatedAccuracy, EstimatedECE float64
	RealisedAccuracy, RealisedECE   float64
	ServedRows, LabelledRows        float64 // rows behind these, older ones counting less
	LogLoss                         float64 // mean over the labels since the last change, nats
}

// Detector is one of the drift detectors.
type Detector struct {
	Name      string
	Score     float64 // the latest; a score above Threshold is a change
	Threshold float64 // 0 before there is one
	Changes   int     // in this window, 0 or 1
	Rise      float64 // of the mean loss at that change, nats; 0 without one, and where no loss is watched
	Total     int64   // changes since window 0
}

// Coverage compares the sets that were served with the labels.
type Coverage struct {
	Target   float64
	Labels   []Covered // aligned with Outcome.Labelled
	Sets     int64     // sets whose label has come, since window 0
	Rate     float64   // share of them that hold the label
	MeanSize float64   // their mean number of classes
}

// Cohorts say which value of an attribute the nodes of labels have.
type Cohorts struct {
	By     string   // the attribute
	Values []string // aligned with Outcome.Labelled
	Odd    []uint64 // likewise, see [Node]
	Known  []string // the values so far that have scores of their own, shared and not changed
	// Class is the one that is acted on, or else the rarest, and Place its place in Outcome.Watched.
	Class string
	Place int
}

// Covered compares a set as served with its label.
type Covered struct {
	Held  bool
	Size  int
	Group string // the class whose threshold made the set, "" where one threshold serves all
}
