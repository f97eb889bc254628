package event

// Outcome is all that a window led to. It is a function of the model, the
// settings and the windows up to this one, and of nothing else.
type Outcome struct {
	Window      int64
	Predictions []Prediction // one for each arrival, in canonical order
	Refused     []Refusal    // the window's own, then the engine's, in canonical order
	Labelled    []Labelled   // labels joined to what was served, in the order learned
	Heads       []Head       // the pool; Heads[0] is the one that serves
	Counts      Counts
	Levels      Levels
	Posterior   Hash // of the state of every head; of a pool, of the one before and what the batch changed
	Chain       Hash // of everything served and learned so far
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

	// Where in the graph its node was served, for scores by slice.
	Predicted string // the class that was served
	Degree    int    // neighbours that came before it
	Fresh     int    // of these, how many came on the stream and not as context
}

// Head is one classifier of the pool after the window.
type Head struct {
	Name    string
	Scores  []Score // aligned with Outcome.Labelled: of what this head said at serving
	Version uint64  // updates taken, this window's included
	Clipped int     // entries of the mean that this window's update clipped
	Step    float64 // Euclidean norm of this window's change of the mean
}

// Score is one label held against what one head said when its node was served.
type Score struct {
	Class      int32 // most probable, as the head said
	Confidence float64
	Correct    bool
	LogLoss    float64 // nats
	Brier      float64 // sum over classes of (p - onehot)²
}

// Counts tells what happened in one window.
type Counts struct {
	Arrivals        int // nodes seen for the first time and served
	Context         int // nodes seen for the first time, not asked about
	Updates         int // nodes that came again: features replaced, edges added
	Edges           int // edges added
	DuplicateEdges  int // named again, dropped
	SelfLoops       int // dropped
	LabelsRepeated  int // equal to what is known, ignored
	LabelsOfContext int // of nodes that were not asked about: noted, neither scored nor learned
	Expired         int // served nodes forgotten before their label came
	EdgesDropped    int // waiting edges forgotten before their node came
}

// Levels tells how full the engine's stores are after the window.
type Levels struct {
	Nodes         int
	Edges         int
	Pending       int // served, label not yet come
	WaitingLabels int // label come, node not yet
	WaitingEdges  int // edge named, node not yet come
}
