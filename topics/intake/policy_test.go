package intake

import (
	"testing"
	"time"
)

func TestCountOrLinger(t *testing.T) {
	p := CountOrLinger{Count: 3, Linger: time.Second}
	for _, c := range []struct {
		name string
		b    Buffered
		want Cut
	}{
		{"nothing is waiting", Buffered{}, Cut{}},
		{"the first waits", Buffered{Nodes: 1, Waited: 300 * time.Millisecond}, Cut{Within: 700 * time.Millisecond}},
		{"it has waited long enough", Buffered{Nodes: 1, Waited: time.Second}, Cut{Nodes: 1, Cause: "linger"}},
		{"enough nodes", Buffered{Nodes: 5, Labels: 1}, Cut{Nodes: 3, Labels: 1, Cause: "count"}},
		{"enough labels", Buffered{Labels: 4}, Cut{Labels: 3, Cause: "count"}},
	} {
		if got := p.Cut(c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestSchedule(t *testing.T) {
	p := Schedule{Windows: []Size{{Nodes: 2}, {Labels: 1}}}
	for _, c := range []struct {
		name string
		b    Buffered
		want Cut
	}{
		{"not all of the step is here", Buffered{Nodes: 1, Labels: 9}, Cut{}},
		{"what comes early waits", Buffered{Nodes: 5, Labels: 9}, Cut{Nodes: 2, Cause: "schedule"}},
		{"then the labels", Buffered{Window: 1, Nodes: 3, Labels: 9}, Cut{Labels: 1, Cause: "schedule"}},
		{"after the end, nothing", Buffered{Window: 2, Nodes: 3, Labels: 8}, Cut{}},
	} {
		if got := p.Cut(c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	p.Then = CountOrLinger{Count: 1}
	if got := p.Cut(Buffered{Window: 2, Nodes: 3}); got.Cause != "count" {
		t.Errorf("after the end, with another policy: %+v", got)
	}
}

// TestEventTime tells what a policy by event time makes of what it is shown, in
// windows of 10 s with a lateness of 5 s.
func TestEventTime(t *testing.T) {
	const s = 1000
	p := EventTime{Width: 10 * time.Second, Lateness: 5 * time.Second, Idle: 2 * time.Second}
	came := func(latest ...int64) (parts []Progress) {
		for _, l := range latest {
			parts = append(parts, Progress{Latest: l})
		}
		return parts
	}
	quiet := func(latest int64, d time.Duration) Progress { return Progress{Latest: latest, Quiet: d} }
	cut := func(cause string, before, closed int64) Cut {
		return Cut{ByTime: true, Cause: cause, Before: before, Closed: closed}
	}
	for _, c := range []struct {
		name string
		t    Times
		want Cut
	}{
		{"nothing has come", Times{Oldest: NoTime, Partitions: came(NoTime, NoTime)}, Cut{}},
		{"one partition has not begun", Times{Oldest: 3 * s, Partitions: came(40*s, NoTime)}, Cut{Within: 2 * time.Second}},
		{"the window's end has come, late events may", Times{Oldest: 3 * s, Partitions: came(14999, 40*s)}, Cut{Within: 2 * time.Second}},
		{"no more is expected before its end", Times{Oldest: 3 * s, Partitions: came(15*s, 40*s)}, cut("event-time", 10*s, 10*s)},
		{"an empty window lies between", Times{Oldest: 23 * s, Partitions: came(40*s, 41*s)}, cut("event-time", 30*s, 30*s)},
		{"two windows have ended, the oldest is cut", Times{Oldest: 3 * s, Partitions: came(40 * s)}, cut("event-time", 10*s, 30*s)},
		{"windows end though nothing is in them", Times{Oldest: NoTime, Partitions: came(40 * s)}, Cut{Closed: 30 * s}},
		{"before the epoch, too", Times{Oldest: -3 * s, Partitions: came(5 * s)}, Cut{ByTime: true, Cause: "event-time", Before: 0}},
		{"the beginning belongs to the window", Times{Oldest: -10 * s, Partitions: came(4 * s)}, Cut{Within: 2 * time.Second, Closed: -10 * s}},
		{"a partition that is quiet is waited for", Times{Oldest: 3 * s, Partitions: append(came(40*s), quiet(4*s, time.Second))}, Cut{Within: time.Second, Closed: -10 * s}},
		{"but not for ever", Times{Oldest: 3 * s, Partitions: append(came(40*s), quiet(4*s, 2*time.Second))}, cut("event-time", 10*s, 30*s)},
		{"nor one that never began", Times{Oldest: 3 * s, Partitions: append(came(40*s), quiet(NoTime, time.Minute))}, cut("event-time", 10*s, 30*s)},
		{"all are silent", Times{Oldest: 33 * s, Partitions: []Progress{quiet(33*s, time.Minute), quiet(4*s, time.Minute)}}, cut("idle", 40*s, 40*s)},
		{"all are silent, and nothing is left", Times{Oldest: NoTime, Partitions: []Progress{quiet(33*s, time.Minute)}}, Cut{}},
		{"an answer is asked for again soon, not at once", Times{Oldest: 3 * s, Partitions: append(came(9*s), quiet(4*s, 2*time.Second-1))}, Cut{Within: soonest, Closed: -10 * s}},
		{"a buffer is full", Times{Oldest: 3 * s, Full: true, Partitions: came(9 * s)}, Cut{ByTime: true, Cause: "full", Before: 10 * s}},
		{"it is full of what has no time", Times{Oldest: NoTime, Full: true, Untimed: true, Partitions: came(NoTime)}, Cut{ByTime: true, Cause: "full", Before: NoTime + 1}},
		{"what has no time waits for the next window", Times{Oldest: 3 * s, Untimed: true, Waited: 500 * time.Millisecond, Partitions: came(9 * s)}, Cut{Within: 1500 * time.Millisecond}},
		{"but not for long", Times{Oldest: 3 * s, Untimed: true, Waited: 2 * time.Second, Partitions: came(9 * s)}, Cut{ByTime: true, Cause: "idle", Before: NoTime + 1}},
	} {
		if got := p.Cut(Buffered{Times: func() Times { return c.t }}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
