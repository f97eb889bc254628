package event

// Command is an operator's instruction to the workers of a graph. It is part of the
// stream, so that it takes effect between the same two windows in every replay.
type Command struct {
	Origin *Origin
	Name   string // Promote, Shadow or Forget
	Model  string // Promote, Shadow: the id of the model to serve, or to try
	Rule   string // Shadow: when the model is to be promoted, "" for not by itself
	Nodes  []ID   // Forget: at least one
}

// Commands by name.
const (
	Shadow  = "shadow"  // try another model in the shadow of the one that serves
	Promote = "promote" // let the shadow model serve from the next window on
	Forget  = "forget"  // erase nodes, by a replay of the stream without them
)
