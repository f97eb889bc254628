package event

// Command is an operator's instruction to the workers of a graph. It is part of the
// stream, so that it takes effect between the same two windows in every replay.
type Command struct {
	Origin *Origin
	Name   string // Promote or Forget
	Model  string // Promote: the id of the model to serve
	Nodes  []ID   // Forget: at least one
}

// Commands by name.
const (
	Promote = "promote" // let the shadow model serve from the next window on
	Forget  = "forget"  // erase nodes, by a replay of the stream without them
)
