package intake

import (
	"math"
	"time"
)

// Policy decides where windows are cut. It need not be deterministic: its decisions
// are written to the ledger, and a replay follows the ledger instead.
type Policy interface {
	// Cut returns how many of the held records make the next window. It is called
	// after every fetch, and after the Within of its last answer.
	Cut(b Buffered) Cut
}

// Longest returns for how long a policy may leave a window open while events come, 0 if it is not
// one of time.
func Longest(p Policy) time.Duration {
	switch p := p.(type) {
	case CountOrLinger:
		return p.Linger
	case EventTime: // the watermark passes its end, or all partitions are idle
		return p.Width + p.Lateness + p.Idle
	}
	return 0
}

// Buffered describes the records that were fetched and are in no window yet.
type Buffered struct {
	Window int64         // number of the window that would be cut
	Nodes  int           // records
	Labels int           // records
	Waited time.Duration // since the oldest of them was fetched
	// Times returns their event times. The result is valid until the next call.
	Times func() times
}

// noTime means no event time. It is less than all event times.
const noTime = math.MinInt64

// times are the event times of the held records, in milliseconds since 1970. An
// untimed record has no usable one: it has none, it cannot be decoded, it lies too
// far ahead of the clock, or it came after its window was closed.
type times struct {
	Oldest     int64         // the lowest, noTime if there is none
	Untimed    bool          // there are untimed records
	Waited     time.Duration // since the oldest untimed one was fetched
	Full       bool          // a topic is not fetched until some of its records are claimed
	Partitions []Progress    // of nodes and labels
}

// Progress is the progress of event time in one partition.
type Progress struct {
	Latest int64         // largest event time so far, noTime before the first
	Quiet  time.Duration // how long the partition has answered without a record
}

// Cut is a policy's answer. A window is cut if Cause is not empty: either the Nodes and Labels
// records that were fetched first, or those that come first in time, or by event time.
type Cut struct {
	Nodes, Labels int
	// InOrder cuts records in the order of time over all partitions of nodes and labels, until
	// these are Nodes nodes or Labels labels. It waits for the next record of a partition that is
	// behind: of which brokers have records that are not fetched.
	InOrder bool
	Cause   string        // count, linger, …: one of a few, because it labels metrics
	Within  time.Duration // without a cut: ask again after this time; 0 means after the next fetch

	// ByTime cuts the records before Before and all untimed ones instead of Nodes
	// and Labels. (If they form too many ranges, it cuts some of them, and the policy
	// is asked again.)
	ByTime bool
	Before int64
	// Closed is the event time before which windows are closed, 0 for none: an event
	// before it that arrives later is late. It never decreases, and applies even
	// without a cut.
	Closed int64

	commands int // records; set by Inputs, never by a policy
}

// Lingered is the cause of a window that is cut before it is full, because its events have
// waited.
const Lingered = "linger"

// OfCommands reports whether the window is one of commands alone.
func (c Cut) OfCommands() bool { return c.commands > 0 }

// CountOrLinger cuts when Count nodes or Count labels are held, or when the oldest
// event has waited for Linger, whichever is first. A window is in order of time, so that on
// a backlog labels do not come before older nodes.
type CountOrLinger struct {
	Count  int           // at least 1
	Linger time.Duration // 0 cuts what was fetched at once
}

// Cut implements Policy.
func (p CountOrLinger) Cut(b Buffered) Cut {
	c := Cut{Nodes: p.Count, Labels: p.Count, InOrder: true}
	switch {
	case b.Nodes >= p.Count || b.Labels >= p.Count:
		c.Cause = "count"
	case b.Nodes+b.Labels == 0:
		return Cut{}
	case b.Waited >= p.Linger:
		c.Cause = Lingered
	default:
		return Cut{Within: p.Linger - b.Waited}
	}
	return c
}

// Schedule cuts windows of the listed sizes, by window number, for the steps of an
// experiment. After the last it asks Then, and cuts nothing if that is nil.
type Schedule struct {
	Windows []Size
	Then    Policy
}

// Size is the number of records in a window.
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
// A window is cut when the watermark has passed its end. The watermark is the minimum,
// over all partitions that are not idle, of the partition's largest event time so far
// less Lateness. So an event out of order is in its own window if no earlier record of
// its partition has an event time more than Lateness after its own. A later event goes
// into the next window that is cut, as do records without a usable time; these wait no
// longer than Idle. If all partitions are idle, windows are closed without the
// watermark. If a topic is full, the held records of the oldest window are cut. Empty
// windows are not cut.
type EventTime struct {
	Width    time.Duration // at least 1 ms
	Lateness time.Duration // 0 when the events of each partition come in order
	Idle     time.Duration // a partition is idle after this long without an event; above 0
}

// soonest is the least time after which EventTime asks to be called again, because
// its input changes only with the answers of brokers.
const soonest = 10 * time.Millisecond

// Cut implements Policy.
func (p EventTime) Cut(b Buffered) Cut {
	t := b.Times()
	watermark, idle, within := p.watermark(t.Partitions)
	c := Cut{ByTime: true, Before: noTime + 1}
	if watermark != noTime {
		c.Closed = p.begin(watermark)
	}
	if t.Oldest != noTime {
		c.Before = p.begin(t.Oldest) + p.Width.Milliseconds()
	}
	switch {
	case t.Oldest != noTime && watermark >= c.Before:
		c.Cause = "event-time"
	case t.Full:
		c.Cause = "full"
	case t.Oldest != noTime && idle:
		c.Cause, c.Closed = "idle", c.Before
	case t.Untimed && t.Waited >= p.Idle:
		c.Cause, c.Before = "idle", noTime+1
	default:
		if t.Untimed {
			within = min(within, p.Idle-t.Waited)
		}
		if !t.Untimed && t.Oldest == noTime {
			within = 0
		} else {
			within = max(within, soonest)
		}
		return Cut{Within: within, Closed: c.Closed}
	}
	return c
}

// watermark returns the watermark, noTime if it is not known; whether all partitions
// are idle; and the time until the next one may become idle.
func (p EventTime) watermark(parts []Progress) (watermark int64, idle bool, within time.Duration) {
	watermark, idle, within = math.MaxInt64, true, p.Idle
	for _, part := range parts {
		if part.Quiet >= p.Idle {
			continue
		}
		idle = false
		within = min(within, p.Idle-part.Quiet)
		if part.Latest == noTime {
			watermark = noTime
			continue
		}
		watermark = min(watermark, part.Latest-p.Lateness.Milliseconds())
	}
	if idle {
		watermark = noTime
	}
	return watermark, idle, within
}

func (p EventTime) begin(t int64) int64 {
	w := p.Width.Milliseconds()
	k := t / w
	if t%w < 0 {
		k--
	}
	return k * w
}
