package event

import "github.com/gvbll/gvbll/posterior/calibration"

// Outcome is what the engine makes of a window. It is a function of the model, the
// settings and the windows up to this one, and of nothing else.
type Outcome struct {
	Window      int64
	Model       string       // id of the model that served
	Predictions []Prediction // one of each arrival, in canonical order
	Revisions   []Prediction // of nodes that were served before, in the order in which they came to be due
	Refused     []Refusal    // the window's own, then the engine's, in canonical order
	Labelled    []Labelled   // labels that found what was served for their nodes, in the order learned
	Heads       []Head       // every head that is scored; Heads[ServedBy] served
	Counts      Counts
	Levels      Levels
	ServedBy    int       // place in Heads
	Lead        float64   // of the static head over the online one, in nats, see Config.Fallback
	Drift       *Drift    // nil where detectors are off
	Coverage    *Coverage // nil where no sets are asked for
	Posterior   Hash      // of the heads' state; of a pool, of the last such hash and what the batch changed
	Chain       Hash      // of everything served and learned so far

	// Shadow is the outcome of the model in the shadow, nil where there is none.
	Shadow *Outcome
	// Promoted is the id of the model that serves from the next window on, if it is
	// not the one that served this one.
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
	Delay  int64 // event time from arrival to label, milliseconds; 0 when either is not given
	By     int   // place in Outcome.Heads of the head that served the node

	// For scores by slice:
	Predicted string // the class that was served
	Degree    int    // neighbours that came before the node
	Fresh     int    // of these, those that came on the stream and not as context
}

// Head is one classifier after the window.
type Head struct {
	Name    string
	Scores  []calibration.Score // aligned with Outcome.Labelled, of what this head predicted when the nodes were served
	Version uint64              // batches learned, this window's included
	Clipped int                 // entries of the mean that this window's update clipped
	Step    float64             // Euclidean norm of this window's change of the mean
}

// Counts are of what happened in one window.
type Counts struct {
	Arrivals        int // nodes that came for the first time, or again after they left; served unless they left in the same window
	Context         int // so, but not to be predicted
	Updates         int // nodes that came again: features replaced, edges added
	Edges           int // edges added
	DuplicateEdges  int // named again, dropped
	SelfLoops       int // dropped
	LabelsRepeated  int // equal to the node's label, ignored
	LabelsOfContext int // of context nodes: neighbours count them, but they are neither scored nor learned
	Expired         int // predictions dropped before their label came
	EdgesDropped    int // waiting edges dropped before their node came

	Departures        int // nodes that left
	DeparturesUnknown int // departures of nodes that are not in the graph, ignored
	EdgesRemoved      int // edges removed with their nodes, waiting ones among them
}

// Levels are how full the engine's stores are after the window.
type Levels struct {
	Nodes         int // in the graph
	Edges         int
	Pending       int // served nodes whose label has not come
	WaitingLabels int // labels whose node has not come
	WaitingEdges  int // edges whose other node has not come
}

// Drift is where the drift detectors are after the window. Nothing that is served
// depends on it.
type Drift struct {
	Detectors []Detector

	// Over about the latest thousand rows: accuracy and calibration error as
	// estimated from what is served, before labels, and as realised where labels
	// came. All are 0 before the first row of their kind.
	Confidence                      float64
	EstimatedAccuracy, EstimatedECE float64
	RealisedAccuracy, RealisedECE   float64
	ServedRows, LabelledRows        float64 // rows behind these, older ones counting less
	LogLoss                         float64 // mean over the labels since the last change, nats
	LogLossRows                     int     // how many labels that is
}

// Detector is one of the drift detectors.
type Detector struct {
	Name      string
	Score     float64 // the latest; above Threshold is a change
	Threshold float64 // 0 while there is no threshold yet
	Changes   int     // in this window
	Worse     int     // of these, those where a loss rose
	Total     int64   // changes since the beginning
}

// Coverage is how well the sets that were served covered the labels.
type Coverage struct {
	Target   float64
	Labels   []Covered // aligned with Outcome.Labelled
	Sets     int64     // sets whose label has come, since the beginning
	Rate     float64   // share of them that held the label
	MeanSize float64   // their mean number of classes
}

// Covered compares a set as served with its label.
type Covered struct {
	Held  bool
	Size  int
	Group string // the class or slice whose threshold made the set, "" where one threshold serves all
}
