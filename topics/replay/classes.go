package replay

import (
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
)

// classes turn the numbers of classes in labels into names, where a number means another class to the
// engine.
type classes struct {
	engine []string
	// epoch are those of the epoch, if their order is another than that of the engine's; nil if
	// an index means the same class in both, and one list may only be longer.
	epoch []string
}

// note notes the classes of an epoch, nil where none begins.
func (c *classes) note(epoch []string) {
	if epoch == nil {
		return
	}
	c.epoch = nil
	if common := min(len(epoch), len(c.engine)); !slices.Equal(epoch[:common], c.engine[:common]) {
		c.epoch = epoch
	}
}

// name replaces the numbers of classes in the window's labels by names. One that the epoch's classes do
// not have is of no class of the engine either.
func (c *classes) name(w *event.Window) {
	if c.epoch == nil {
		return
	}
	for i := range w.Labels {
		l := &w.Labels[i]
		if l.Class != "" || l.Withdrawn {
			continue
		}
		if class, ok := l.In(c.epoch); ok {
			l.Class = c.epoch[class]
		} else {
			l.Index = event.NoClass
		}
	}
}
