package worker

import "time"

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
}

// Cut is a policy's answer. A window is cut when Cause is not empty; it takes
// the oldest Nodes and Labels records.
type Cut struct {
	Nodes, Labels int
	Cause         string        // count, linger, …: a label of the metrics, so one of few
	Within        time.Duration // without a cut: ask again after this long, 0 for at the next fetch
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
