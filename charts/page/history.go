package page

import (
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// How much of the past is kept.
const (
	keptPredictions = 1 << 14
	keptWindows     = 256
	keptPoints      = 256 // of the curves; at that number, neighbours become one
)

// history is the part of the past that is shown. A lock of the server's guards
// it.
type history struct {
	classes int
	version uint64 // changes with all that is shown

	served  ring[served]
	place   map[event.ID]int // in served, by number since the beginning
	windows ring[windowSummary]
	curve   curve
	heads   []confusion // by head
	of      string      // id of the model whose heads these and the curve are

	scores  []pipeline.Summary // as of the last commit, as the metrics show them
	model   *model.Model       // that serves
	shadow  string             // id of the model in the shadow, "" for none
	beside  []pipeline.Summary // of that one
	levels  event.Levels
	watched *event.Outcome // the last, of which facts are shown
	refused int
	lag     map[string]int64
	owner   bool
	commit  time.Time // the last
	began   time.Time
}

// served is a prediction as it was served, and what came of it.
type served struct {
	event.Prediction
	label int32 // none before it comes
}

const none = -1

// Window is what is told of a window that was stepped.
type Window struct {
	Outcome  *event.Outcome
	Cause    string        // what cut it
	Replayed bool          // stepped again, or after another worker
	Took     time.Duration // to step it
	At       time.Time     // when
}

func newHistory(classes int, began time.Time) history {
	return history{
		classes: classes, began: began, place: make(map[event.ID]int), lag: make(map[string]int64),
		served: ring[served]{size: keptPredictions}, windows: ring[windowSummary]{size: keptWindows},
	}
}

// step notes a window. What is kept of predictions shares memory with no event and
// no outcome.
func (h *history) step(w Window) {
	out := w.Outcome
	h.levels = out.Levels
	h.watched = &event.Outcome{ServedBy: out.ServedBy, Heads: out.Heads, Drift: out.Drift, Coverage: out.Coverage}
	h.refused += len(out.Refused)
	h.version++
	for i := range out.Predictions {
		p := out.Predictions[i]
		p.Node = p.Node.Clone()
		p.Probabilities = append(h.served.next().Probabilities[:0], p.Probabilities...)
		if old, full := h.served.add(served{p, none}); full && h.place[old.Node] == h.served.first()-1 {
			delete(h.place, old.Node)
		}
		h.place[p.Node] = h.served.end() - 1
	}
	for _, l := range out.Labelled {
		if s := h.find(l.Node); s != nil {
			s.label = l.Class
		}
	}
	if out.Model != h.of {
		h.of, h.heads, h.curve = out.Model, nil, curve{}
	}
	h.count(out)
	h.curve.add(out)

	h.windows.add(summaryOf(&w))
}

// find returns what was served for a node, nil if it is no longer kept.
func (h *history) find(id event.ID) *served {
	i, kept := h.place[id]
	if !kept {
		return nil
	}
	return h.served.at(i)
}

// confusion counts by class what a head said and what was so.
type confusion struct {
	name                   string
	predicted, right, were []int64
}

func (h *history) count(out *event.Outcome) {
	for len(h.heads) < len(out.Heads) {
		h.heads = append(h.heads, confusion{
			name: out.Heads[len(h.heads)].Name, predicted: make([]int64, h.classes), right: make([]int64, h.classes), were: make([]int64, h.classes),
		})
	}
	for i := range out.Heads {
		c := &h.heads[i]
		for k, s := range out.Heads[i].Scores {
			c.predicted[s.Class]++
			c.were[out.Labelled[k].Class]++
			if s.Correct {
				c.right[s.Class]++
			}
		}
	}
}

// curve is the heads' scores over the windows that had labels. It has at most
// keptPoints points, each of as many such windows as it takes for that.
type curve struct {
	points []point
	span   int // windows a point
}

// point is the sums of some windows.
type point struct {
	windows int
	last    int64 // number of the last
	heads   []calibration.Tally
}

func (c *curve) add(out *event.Outcome) {
	if len(out.Labelled) == 0 {
		return
	}
	p := point{windows: 1, last: out.Window, heads: make([]calibration.Tally, len(out.Heads))}
	for h := range out.Heads {
		t := &p.heads[h]
		for i := range out.Heads[h].Scores {
			t.Add(&out.Heads[h].Scores[i])
		}
	}
	c.span = max(c.span, 1)
	if n := len(c.points); n > 0 && c.points[n-1].windows < c.span {
		c.points[n-1].merge(&p)
		return
	}
	if len(c.points) == keptPoints {
		c.span *= 2
		for i := range keptPoints / 2 {
			c.points[i] = c.points[2*i]
			c.points[i].merge(&c.points[2*i+1])
		}
		clear(c.points[keptPoints/2:])
		c.points = c.points[:keptPoints/2]
	}
	c.points = append(c.points, p)
}

func (p *point) merge(o *point) {
	p.windows += o.windows
	p.last = o.last
	for h := range p.heads {
		p.heads[h].Merge(&o.heads[h])
	}
}

// ring keeps the last so many of what is added, numbered from 0 in the order
// in which they came.
type ring[T any] struct {
	size  int
	items []T
	count int
}

// next is what will have to go for the next that is added, or the zero value.
func (r *ring[T]) next() (old T) {
	if len(r.items) == r.size {
		old = *r.at(r.count)
	}
	return old
}

// add returns what had to go for it.
func (r *ring[T]) add(x T) (old T, full bool) {
	if len(r.items) < r.size {
		r.items = append(r.items, x)
	} else {
		i := r.count % r.size
		old, full = r.items[i], true
		r.items[i] = x
	}
	r.count++
	return old, full
}

// first is the number of the oldest that is kept, end of the next to come.
func (r *ring[T]) first() int { return r.count - len(r.items) }
func (r *ring[T]) end() int   { return r.count }

func (r *ring[T]) at(i int) *T { return &r.items[i%r.size] }

// newest returns the last n that are kept, the newest first.
func (r *ring[T]) newest(n int) []T {
	n = min(n, len(r.items))
	list := make([]T, 0, n)
	for i := r.count - 1; i >= r.count-n; i-- {
		list = append(list, *r.at(i))
	}
	return list
}
