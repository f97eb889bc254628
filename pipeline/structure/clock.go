package structure

import (
	"cmp"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
)

// clock is what the events of the last windows say of the time: of the last leastWindows that have times, and of as
// many more as it takes for leastEvents. Its median is a time that half of these events have reached: whoever sends
// fewer of them cannot move it beyond the times of the others.
type clock struct {
	ticks  []tick // by window, each in order of time
	events int    // of all
	oldest int64  // number of the first window of ticks
	next   int64  // and of the one that comes
	sorted []tick // reused
}

// tick is a time that so many events have reached. One without events ends a window.
type tick struct {
	time   int64
	events int32
}

const (
	leastWindows = 16
	leastEvents  = 1024
	// windowTicks is how many times of a window are told apart: an event counts for the next earlier one.
	windowTicks = 64
	// mostTicks is what none of these exceeds: all but the oldest window are fewer than leastWindows, or have fewer
	// than leastEvents events, each with one tick and another for its window.
	mostTicks = (leastWindows+1)*(windowTicks+1) + 2*leastEvents
)

// add adds the times of a window, which it sorts.
func (c *clock) add(times []int64) {
	n := len(times)
	if n == 0 {
		return
	}
	slices.Sort(times)
	for i, groups := 0, min(n, windowTicks); i < groups; i++ {
		from, to := i*n/groups, (i+1)*n/groups
		c.ticks = append(c.ticks, tick{times[from], int32(to - from)})
	}
	c.ticks = append(c.ticks, tick{})
	c.events += n
	for c.next++; c.next-c.oldest > leastWindows; c.oldest++ {
		events, end := 0, 0
		for ; c.ticks[end].events > 0; end++ {
			events += int(c.ticks[end].events)
		}
		if c.events-events < leastEvents {
			return
		}
		c.ticks, c.events = slices.Delete(c.ticks, 0, end+1), c.events-events
	}
}

// median returns the latest time that more than half of the events have reached, noTime before there are leastEvents.
func (c *clock) median() int64 {
	if c.events < leastEvents {
		return noTime
	}
	c.sorted = append(c.sorted[:0], c.ticks...)
	slices.SortFunc(c.sorted, func(a, b tick) int { return cmp.Compare(b.time, a.time) })
	reached := 0
	for _, t := range c.sorted {
		if reached += int(t.events); 2*reached > c.events {
			return t.time
		}
	}
	return noTime
}

// passed is from when on a keep has not passed, by a clock: in steps of a part of the keep.
type passed struct {
	keep, step int64
	// marks are the steps that the watermark came to, each with the windows that had left the clock then. The first is
	// the newest that is a keep ago, if one is.
	marks []mark
}

// mark says that the windows before one had left the clock when the watermark came to a time: all that it knew was of
// later events.
type mark struct{ time, window int64 }

func newPassed(keep int64) passed { return passed{keep: keep, step: max(keep/leaveSteps, 1)} }

// floor returns the last step of a time.
func (p *passed) floor(t int64) int64 { return t - (t%p.step+p.step)%p.step }

// come takes note of the watermark, and of the oldest window of the clock.
func (p *passed) come(watermark, oldest int64) {
	t := p.floor(watermark)
	if n := len(p.marks); n == 0 || p.marks[n-1].time < t {
		p.marks = append(p.marks, mark{t, oldest})
	}
	over := 0
	for over+1 < len(p.marks) && p.marks[over+1].time < t-p.keep {
		over++
	}
	p.marks = slices.Delete(p.marks, 0, over)
}

// before returns the window before which a keep has passed, at a watermark.
func (p *passed) before(watermark int64) int64 {
	if len(p.marks) == 0 || p.marks[0].time >= p.floor(watermark)-p.keep {
		return 0
	}
	return p.marks[0].window
}

// state declares the marks.
func (p *passed) state(s *snapshot.Schema, name string) {
	n := s.Len(name, len(p.marks), int(min(p.keep/p.step, 2*leaveSteps))+2)
	flat := make([]int64, 0, 2*n)
	for _, m := range p.marks {
		flat = append(flat, m.time, m.window)
	}
	snapshot.Slice(s, name, &flat, n, 2)
	s.Check(func() error {
		for i := 0; i < len(flat); i += 2 {
			if m := (mark{flat[i], flat[i+1]}); i > 0 && (m.time <= flat[i-2] || m.window < flat[i-1]) || m.time < firstTime-p.step ||
				m.time > lastTime || m.window < 0 {
				return snapshot.Damaged("%s: window %d at %d", name, m.window, m.time)
			}
			p.marks = append(p.marks, mark{flat[i], flat[i+1]})
		}
		return nil
	})
}

// state declares the ticks.
func (c *clock) state(s *snapshot.Schema) {
	n := s.Len("keep.ticks", len(c.ticks), mostTicks)
	times, events := make([]int64, 0, n), make([]int32, 0, n)
	for _, t := range c.ticks {
		times, events = append(times, t.time), append(events, t.events)
	}
	snapshot.Slice(s, "keep.ticks", &times, n)
	snapshot.Slice(s, "keep.reached", &events, n)
	snapshot.Value(s, "keep.windows", &c.next)
	s.Check(func() error {
		c.oldest = c.next
		for i, t := range times {
			first := i == 0 || events[i-1] == 0
			if e := events[i]; e < 0 || e == 0 && first || e > 0 && (t < firstTime || t > lastTime || !first && t < times[i-1]) {
				return snapshot.Damaged("tick %d of the clock is of %d events at %d", i, e, t)
			} else if e == 0 {
				c.oldest--
			}
			c.ticks, c.events = append(c.ticks, tick{t, events[i]}), c.events+int(events[i])
		}
		if n > 0 && events[n-1] != 0 || c.oldest < 0 {
			return snapshot.Damaged("the clock has %d of %d windows, or one without an end", c.next-c.oldest, c.next)
		}
		return nil
	})
}
