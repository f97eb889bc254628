package ledger

import (
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Scores say how good the predictions were whose labels a window brought: each as it
// was served, before its label was learned. They are sums, so that those of many windows
// add up. No replay depends on them.
type Scores struct {
	Served Tally `json:"served"`
	// Bins are the bins of confidence that hold predictions, in ascending order.
	Bins []Bin `json:"bins"`
	// Heads are the scores of every head, whichever served.
	Heads []Group `json:"heads"`
	// Degrees are those of what was served, by the node's degree then.
	Degrees []Group `json:"degrees"`
	// Classes are those of what was served, by the class of the label: the most
	// frequent ones, MaxClasses at most.
	Classes []Group `json:"classes"`
	// Odds count the probabilities that were served for each class that is watched, whatever the
	// label.
	Odds []Odds `json:"odds,omitempty"`
	// Trained say what the classes would be by the model as trained, of the classes that Classes have.
	Trained []Trained `json:"trained,omitempty"`
	// Cohorts are those of what was served, by the value of an attribute; nil without --by.
	Cohorts *Cohorts `json:"cohorts,omitempty"`
	// Delay is the median time from a node's arrival to its label in milliseconds, of
	// the Delayed labels for which both times are given.
	Delay   int64 `json:"delay_ms,omitempty"`
	Delayed int   `json:"delayed,omitempty"`
}

// MaxClasses bounds Scores.Classes, and so the size of a record.
const MaxClasses = 100

// Tally sums scores over labels. Single precision keeps records short.
type Tally struct {
	Labels     int     `json:"labels"`
	Correct    int     `json:"correct"`
	LogLoss    float32 `json:"log_loss"` // nats
	Brier      float32 `json:"brier"`
	Confidence float32 `json:"confidence"`
}

// Bins is the number of bins of confidence, which have equal width.
const Bins = 20

// Bin counts the predictions of one bin.
type Bin struct {
	Bin        int     `json:"bin"` // from 0
	Count      int     `json:"count"`
	Correct    int     `json:"correct"`
	Confidence float32 `json:"confidence"` // sum
}

// Group is the tally of a part of the labels, or of a head.
type Group struct {
	Name string `json:"name"`
	Tally
	// Predicted counts the predictions of a class, whatever the label.
	Predicted int32 `json:"predicted,omitempty"`
	// Arrived counts the window's arrivals that were predicted as the class, whether or not their label ever comes.
	Arrived int32 `json:"arrived,omitempty"`
}

// Trained is how many of the window's arrivals the model as trained predicts as a class, and how many of its labels would be of the
// class, were they as in training; 0 if that is not known.
type Trained struct {
	Class    string  `json:"class"`
	Arrivals int32   `json:"arrivals,omitempty"`
	Labels   float32 `json:"labels,omitempty"`
}

// Odds are the probabilities of a class, in bins of equal widths of log odds.
type Odds struct {
	Class string    `json:"class"`
	Bins  []OddsBin `json:"bins"` // those that hold predictions
}

// OddsBins is the number of bins.
const OddsBins = 40

// OddsBin is a bin: its number, predictions, those whose label is the class, and the sum of the
// probabilities.
type OddsBin [4]float32

// Cohorts are scores by the value of an attribute.
type Cohorts struct {
	By    string   `json:"by"`              // the attribute
	Class string   `json:"class,omitempty"` // of the odds
	List  []Cohort `json:"list"`            // those with labels, 21 at most
}

// Cohort is the scores of one value.
type Cohort struct {
	Group
	Bins   []Bin     `json:"bins"`
	Odds   []OddsBin `json:"odds,omitempty"`
	Sets   int       `json:"sets,omitempty"`   // of classes, with a label
	Held   int       `json:"held,omitempty"`   // those that held it
	Caught int       `json:"caught,omitempty"` // acted on, and of the class
	Vain   int       `json:"vain,omitempty"`   // acted on, and not of the class
	Missed int       `json:"missed,omitempty"` // of the class, and not acted on
}

// Attribute says of one attribute how often it was missing from the rows of a window whose
// features came by name, a gap or a value that training did not have, and how far its mean moved.
type Attribute struct {
	Name    string  `json:"name"`
	Rows    int64   `json:"rows"`
	Missing int64   `json:"missing,omitempty"`
	Trained float32 `json:"trained,omitempty"` // rows of which it would be missing as in training
	Sum     float32 `json:"sum,omitempty"`     // of the value in standard deviations from the mean in training
	// Odd are the window's labels, with --by, whose node has no value, one that training had not, or one far out. OddLoss is the sum of
	// their log losses, OddTrained the share of such nodes in training.
	Odd        int     `json:"odd,omitempty"`
	OddLoss    float32 `json:"odd_loss,omitempty"`
	OddTrained float32 `json:"odd_trained,omitempty"`
}

// Unmet says of edges or labels that many wait for a node, with the id of one, in quotes where it is a text.
type Unmet struct {
	What      string `json:"what"`
	Waiting   int    `json:"waiting"`
	Node      string `json:"node"`
	Otherwise bool   `json:"otherwise,omitempty"` // a node has the same number as a text, or text as a number
}

// UnmetOf converts those of an outcome.
func UnmetOf(list []event.Unmet) (of []Unmet) {
	for _, u := range list {
		node := u.Node.String()
		if u.Node.Str != "" {
			node = strconv.Quote(node[:min(len(node), 60)])
		}
		of = append(of, Unmet{u.What, u.Waiting, node, u.Otherwise})
	}
	return of
}

// change is a change in the stream that a drift detector found in a window.
type change struct {
	Detector string `json:"detector"`
	Worse    bool   `json:"worse,omitempty"` // a loss rose
}

// Changes lists the changes that drift detectors found in a window.
func Changes(d *event.Drift) (found []change) {
	if d == nil {
		return nil
	}
	for i := range d.Detectors {
		if t := &d.Detectors[i]; t.Changes > 0 {
			found = append(found, change{Detector: t.Name, Worse: t.Rise > 0})
		}
	}
	return found
}
