package pipeline

import (
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
)

// decline refuses the commands of a window, none of which an engine can do by
// itself; to forget nodes is to exchange it, and whoever steps it does that. It comes behind the chain: what a model made of the stream is the same
// whatever it was told to be.
func (e *Engine) decline(w *event.Window, out *event.Outcome) {
	for i := range w.Commands {
		c := &w.Commands[i]
		if c.Name == event.Forget {
			continue
		}
		refuse(out, c.Origin, event.ImpossibleCommand, fmt.Sprintf("%s: nothing here can do that", c.Name))
	}
}
