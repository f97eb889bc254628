package event

// Command is what an operator tells the workers of a graph. It goes through the
// stream, so that it takes effect between two windows, in every replay the same
// two.
type Command struct {
	Origin *Origin
	Name   string // one of those below
	Model  string // of Promote: the id of the model that is to serve
	Nodes  []ID   // of Forget: at least one
}

// The commands that there are.
const (
	Promote = "promote" // let the model in the shadow serve
	Forget  = "forget"  // have nodes never have come
)
