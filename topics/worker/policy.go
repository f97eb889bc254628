package worker

import (
	"math"
	"time"
)

// Policy decides where windows are cut. It may look at time and chance as it
// likes: what it decides is written to the ledger, and a replay follows the
// ledger and asks no policy.
type Policy interface {
	// Cut says how much of what is buffered makes the next window. It is asked
	// after every fetch and whenever the time named in the last answer is up.
	Cut(b Buffered) Cut
}

// Buffered is what was fetched and is in no window yet.
type Buffered struct {
	Window int64         // number of the window that would be cut
	Nodes  int           // records
	Labels int           // records
	Waited time.Duration // since the oldest of them was fetched
	// Times looks at the event times. What it returns is valid until the next
	// call.
	Times func() Times
}

// NoTime stands where there is no event time. It lies before all others.
const NoTime = math.MinInt64

// Times is what the event times of what is buffered are, in milliseconds since
// the Unix epoch. Loose records have none to go by: none is told, it cannot be
// decoded, it is too far ahead of the clock, or it came after its window was
// closed.
type Times struct {
	Oldest     int64         // lowest of them, NoTime when there is none
	Loose      bool          // there are loose records
	Waited     time.Duration // since the oldest loose one was fetched
	Full       bool          // an input is not fetched until something is taken
	Partitions []Progress    // of both inputs
}

// Progress is how far one partition has come.
type Progress struct {
	Latest int64         // largest event time that came, NoTime before the first
	Quiet  time.Duration // for how long nothing came, though it was asked
}

// Cut is a policy's answer. A window is cut when Cause is not empty; it takes
// the oldest Nodes and Labels records, or goes by time.
type Cut struct {
	Nodes, Labels int
	Cause         string        // count, linger, …: a label of the metrics, so one of few
	Within        time.Duration // without a cut: ask again after this long, 0 for at the next fetch

	// ByTime takes, instead, what Times has told of and lies before Before, and
	// all that is loose. (Or a part, if it is in very many pieces; the policy is
	// then asked again with what is left.)
	ByTime bool
	Before int64
	// Closed is the event time up to which windows are closed, 0 for none. What
	// comes before it from now on is late. It does not go back. It counts without
	// a cut, too.
	Closed int64

	commands int // records; no policy's to say
}

// CountOrLinger cuts when Count nodes or Count labels have come, or when the
// oldest event has waited for Linger, whichever is first.
type CountOrLinger struct {
	Count  int           // at least 1
	Linger time.Duration // 0 cuts at every fetch
}

// Cut implements Policy.
func (p CountOrLinger) Cut(b Buffered) Cut {
	c := Cut{Nodes: min(b.Nodes, p.Count), Labels: min(b.Labels, p.Count)}
	switch {
	case b.Nodes >= p.Count || b.Labels >= p.Count:
		c.Cause = "count"
	case b.Nodes+b.Labels == 0:
		return Cut{}
	case b.Waited >= p.Linger:
		c.Cause = "linger"
	default:
		return Cut{Within: p.Linger - b.Waited}
	}
	return c
}

// Schedule cuts windows of exactly the sizes that it lists, by window number,
// however the events come: an experiment's steps. After its end it cuts
// nothing more, unless Then is set.
type Schedule struct {
	Windows []Size
	Then    Policy
}

// Size is how many records a window takes.
type Size struct{ Nodes, Labels int }

// Cut implements Policy.
func (p Schedule) Cut(b Buffered) Cut {
	if b.Window >= int64(len(p.Windows)) {
		if p.Then == nil {
			return Cut{}
		}
		return p.Then.Cut(b)
	}
	w := p.Windows[b.Window]
	if b.Nodes < w.Nodes || b.Labels < w.Labels {
		return Cut{}
	}
	return Cut{Nodes: w.Nodes, Labels: w.Labels, Cause: "schedule"}
}

// EventTime cuts tumbling windows [k·Width, (k+1)·Width) of event time. One is
// cut when the watermark has passed its end: the lowest, of all partitions that
// are not idle, of the largest event time that came less Lateness. So an event
// that comes out of order is in its own window, if within its partition it comes
// behind none that is more than Lateness younger. One that is later still goes
// with the next window that is cut, as do records without a time; they wait for
// that no longer than Idle. When everything is idle, windows are closed without
// the watermark. When a buffer is full, the oldest window is cut as far as it has
// come. Empty windows are not cut.
type EventTime struct {
	Width    time.Duration // at least 1 ms
	Lateness time.Duration // 0 when each partition's events come in order
	Idle     time.Duration // after so long without an event a partition is not waited for; above 0
}

// soonest is the least time after which EventTime wants to be asked again: what
// it waits for is seen with every answer of a broker, and not between them.
const soonest = 10 * time.Millisecond

// Cut implements Policy.
func (p EventTime) Cut(b Buffered) Cut {
	t := b.Times()
	watermark, idle, within := p.watermark(t.Partitions)
	c := Cut{ByTime: true, Before: NoTime + 1}
	if watermark != NoTime {
		c.Closed = p.begin(watermark)
	}
	if t.Oldest != NoTime {
		c.Before = p.begin(t.Oldest) + p.Width.Milliseconds()
	}
	switch {
	case t.Oldest != NoTime && watermark >= c.Before:
		c.Cause = "event-time"
	case t.Full:
		c.Cause = "full"
	case t.Oldest != NoTime && idle:
		c.Cause, c.Closed = "idle", c.Before
	case t.Loose && t.Waited >= p.Idle:
		c.Cause, c.Before = "idle", NoTime+1
	default:
		if t.Loose {
			within = min(within, p.Idle-t.Waited)
		}
		if !t.Loose && t.Oldest == NoTime {
			within = 0
		} else {
			within = max(within, soonest)
		}
		return Cut{Within: within, Closed: c.Closed}
	}
	return c
}

// watermark returns the watermark, NoTime when it is not known; whether all
// partitions are idle; and when the next one may be.
func (p EventTime) watermark(parts []Progress) (watermark int64, idle bool, within time.Duration) {
	watermark, idle, within = math.MaxInt64, true, p.Idle
	for _, part := range parts {
		if part.Quiet >= p.Idle {
			continue
		}
		idle = false
		within = min(within, p.Idle-part.Quiet)
		if part.Latest == NoTime {
			watermark = NoTime
			continue
		}
		watermark = min(watermark, part.Latest-p.Lateness.Milliseconds())
	}
	if idle {
		watermark = NoTime
	}
	return watermark, idle, within
}

// begin returns the beginning of the window that a time lies in.
func (p EventTime) begin(t int64) int64 {
	w := p.Width.Milliseconds()
	k := t / w
	if t%w < 0 {
		k--
	}
	return k * w
}
