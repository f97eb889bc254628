package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
)

// decline refuses a command that cannot be done here. It is no part of the chain:
// what a model makes of the stream is the same whatever it is told to be.
func decline(c *event.Command, out *event.Outcome) {
	refuse(out, c.Origin, event.ImpossibleCommand, fmt.Sprintf("%s: nothing here can do that", c.Name))
}
