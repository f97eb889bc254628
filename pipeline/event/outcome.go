package event

import "github.com/gvbll/gvbll/posterior/calibration"

// Outcome is all that a window led to. It is a function of the model, the
// settings and the windows up to this one, and of nothing else.
type Outcome struct {
	Window      int64
	Model       string       // id of the model that served
	Predictions []Prediction // one for each arrival, in canonical order
	Revisions   []Prediction // of nodes that were served before, in the order in which they were due
	Refused     []Refusal    // the window's own, then the engine's, in canonical order
	Labelled    []Labelled   // labels joined to what was served, in the order learned
	Heads       []Head       // the pool; Heads[0] serves unless ServedBy says otherwise
	Counts      Counts
	Levels      Levels
	ServedBy    int       // whose probabilities were served, by place in Heads
	Lead        float64   // nats by which the static head is ahead, as far as it counts
	Drift       *Drift    // nil when nothing watches
	Coverage    *Coverage // nil when no sets are asked for
	Posterior   Hash      // of the state of every head; of a pool, of the one before and what the batch changed
	Chain       Hash      // of everything served and learned so far

	// Shadow is what the model in the shadow made of the same window, nil where
	// there is none.
	Shadow *Outcome
	// Promoted is the id of the model that serves from the next window on, where
	// that is another.
	Promoted string
}

// Hash is a SHA-256.
type Hash [32]byte

// Labelled is a label that found what was served for its node.
type Labelled struct {
	Node   ID
	Class  int32
	Served int64 // number of the window in which its node was served
	Time   int64 // event time of the label
	Delay  int64 // event time from arrival to label, milliseconds; 0 when either is not told

	By int // the head that served it, by place in Outcome.Heads

	// Where in the graph its node was served, for scores by slice.
	Predicted string // the class that was served
	Degree    int    // neighbours that came before it
	Fresh     int    // of these, how many came on the stream and not as context
}

// Head is one classifier of the pool after the window.
type Head struct {
	Name    string
	Scores  []calibration.Score // aligned with Outcome.Labelled: of what this head said at serving
	Version uint64              // updates taken, this window's included
	Clipped int                 // entries of the mean that this window's update clipped
	Step    float64             // Euclidean norm of this window's change of the mean
}

// Counts tells what happened in one window.
type Counts struct {
	Arrivals        int // nodes seen for the first time, or again after they left: served, unless they left in the same window
	Context         int // so, but not asked about
	Updates         int // nodes that came again: features replaced, edges added
	Edges           int // edges added
	DuplicateEdges  int // named again, dropped
	SelfLoops       int // dropped
	LabelsRepeated  int // equal to what is known, ignored
	LabelsOfContext int // of nodes that were not asked about: noted, neither scored nor learned
	Expired         int // served nodes forgotten before their label came
	EdgesDropped    int // waiting edges forgotten before their node came

	Departures        int // nodes that left
	DeparturesUnknown int // departures of nodes that were not there, ignored
	EdgesRemoved      int // edges that went with their nodes, waiting ones among them
}

// Levels tells how full the engine's stores are after the window.
type Levels struct {
	Nodes         int // that are there
	Edges         int
	Pending       int // served, label not yet come
	WaitingLabels int // label come, node not yet
	WaitingEdges  int // edge named, node not yet come
}

// Drift is what the detectors say after the window. Nothing that is served
// depends on it.
type Drift struct {
	Detectors []Detector

	// Over about the latest thousand rows: what is served says of its own
	// accuracy and calibration error before labels, and what labels said of those
	// they came for. All are 0 before the first row of their kind.
	Confidence                      float64
	EstimatedAccuracy, EstimatedECE float64
	RealisedAccuracy, RealisedECE   float64
	ServedRows, LabelledRows        float64 // that these are of, those of long ago counting less
	LogLoss                         float64 // mean of the labels since the last change, nats
	LogLossRows                     int     // these labels
}

// Detector is one of the drift detectors.
type Detector struct {
	Name      string
	Score     float64 // the latest; above Threshold is a change
	Threshold float64 // 0 while there is none
	Changes   int     // found in this window
	Worse     int     // of these, rises of a loss
	Total     int64   // changes since the beginning
}

// Coverage is how the sets that were served fared.
type Coverage struct {
	Target   float64
	Labels   []Covered // aligned with Outcome.Labelled
	Sets     int64     // whose label came, since the beginning
	Rate     float64   // the share of these that held it
	MeanSize float64   // their mean number of classes
}

// Covered is a set as served, held against its label.
type Covered struct {
	Held  bool
	Size  int
	Group string // the class or slice that has a threshold of its own, "" where none has
}
