package page

import (
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// keptPoints is the largest number of points of a curve. It must be even.
const keptPoints = 256

// curve is the heads' scores over the windows that had labels. When it has keptPoints
// points, they are merged in pairs. So its size is bounded, and no label is lost.
type curve struct {
	points []point
	span   int // number of windows in each point but the last, which has at most as many
}

// point is the scores of some consecutive windows.
type point struct {
	windows int   // at least 1
	last    int64 // number of the last window
	heads   []calibration.Tally
}

// add adds a window. Windows without labels are ignored.
func (c *curve) add(out *event.Outcome) {
	if len(out.Labelled) == 0 {
		return
	}
	p := point{windows: 1, last: out.Window, heads: make([]calibration.Tally, len(out.Heads))}
	for h := range out.Heads {
		p.heads[h] = serve.Tally(&out.Heads[h])
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

// merge adds the windows of o, which come after those of p.
func (p *point) merge(o *point) {
	p.windows += o.windows
	p.last = o.last
	for h := range p.heads {
		p.heads[h].Merge(&o.heads[h])
	}
}
