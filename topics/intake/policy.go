package intake

import (
	"math"
	"time"
)

// Policy decides where windows are cut. It may go by the clock or by chance: its
// decisions are written to the ledger, and a replay follows the ledger and asks no
// policy.
type Policy interface {
	// Cut says how much of what is held makes the next window. It is called after
	// every fetch, and when the time that its last answer named has passed.
	Cut(b Buffered) Cut
}

// Buffered is what was fetched and is in no window yet.
type Buffered struct {
	Window int64         // number of the window that would be cut
	Nodes  int           // records
	Labels int           // records
	Waited time.Duration // since the oldest of them was fetched
	// Times returns their event times. The result is valid until the next call.
	Times func() Times
}

// NoTime stands for no event time. It is less than all others.
const NoTime = math.MinInt64

// Times are the event times of what is held, in milliseconds since 1970. An untimed
// record has no usable one: it tells none, it cannot be decoded, it lies too far
// ahead of the clock, or it came after its window was closed.
type Times struct {
	Oldest     int64         // the lowest, NoTime when there is none
	Untimed    bool          // there are untimed records
	Waited     time.Duration // since the oldest untimed one was fetched
	Full       bool          // a topic is not fetched until some of its records are claimed
	Partitions []Progress    // of nodes and labels
}

// Progress is how far event time has come in one partition.
type Progress struct {
	Latest int64         // largest event time that came, NoTime before the first
	Quiet  time.Duration // for how long the partition has answered without a record
}

// Cut is a policy's answer. A window is cut when Cause is not empty: either of the
// oldest Nodes and Labels records, or by event time.
type Cut struct {
	Nodes, Labels int
	Cause         string        // count, linger, …: one of few, it labels metrics
	Within        time.Duration // without a cut: ask again after this long, 0 for at the next fetch

	// ByTime cuts, instead, the records that lie before Before and all untimed ones.
	// (When these are in very many pieces it cuts some of them, and the policy is
	// asked again.)
	ByTime bool
	Before int64
	// Closed is the event time up to which windows are closed, 0 for none: an event
	// before it that comes from now on is late. It never decreases, and holds
	// without a cut, too.
	Closed int64

	commands int // records; set by Inputs, never by a policy
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

// Schedule cuts windows of the listed sizes, by window number, however the events
// come: the steps of an experiment. Behind the last it asks Then, and cuts nothing
// when that is nil.
type Schedule struct {
	Windows []Size
	Then    Policy
}

// Size is how many records are in a window.
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

// EventTime cuts tumbling windows [k·Width, (k+1)·Width) of event time.
//
// A window is cut when the watermark has passed its end. The watermark is the
// lowest, over all partitions that are not idle, of the largest event time that
// came less Lateness. So an event that comes out of order is in its own window as
// long as no event before it in its partition is more than Lateness younger. A later
// one goes with the next window that is cut, as do records without a usable time;
// these wait no longer than Idle. When all partitions are idle, windows are closed
// without the watermark. When a topic is full, what has come of the oldest window
// is cut. Empty windows are not cut.
type EventTime struct {
	Width    time.Duration // at least 1 ms
	Lateness time.Duration // 0 when the events of each partition come in order
	Idle     time.Duration // a partition is idle after this long without an event; above 0
}

// soonest is the least time after which EventTime asks to be called again: what it
// waits for changes with every answer of a broker, and not between them.
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
	case t.Untimed && t.Waited >= p.Idle:
		c.Cause, c.Before = "idle", NoTime+1
	default:
		if t.Untimed {
			within = min(within, p.Idle-t.Waited)
		}
		if !t.Untimed && t.Oldest == NoTime {
			within = 0
		} else {
			within = max(within, soonest)
		}
		return Cut{Within: within, Closed: c.Closed}
	}
	return c
}

// watermark returns the watermark, NoTime when it is not known; whether all
// partitions are idle; and how soon the next one may become idle.
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

// begin returns the beginning of the window that contains t.
func (p EventTime) begin(t int64) int64 {
	w := p.Width.Milliseconds()
	k := t / w
	if t%w < 0 {
		k--
	}
	return k * w
}
