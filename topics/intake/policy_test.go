package intake

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCountOrLinger: a window is cut when enough nodes or labels are held, or when the
// oldest event has waited for Linger.
func TestCountOrLinger(t *testing.T) {
	p := CountOrLinger{Count: 3, Linger: time.Second}
	for _, c := range []struct {
		name string
		b    Buffered
		want Cut
	}{
		{"nothing is held", Buffered{}, Cut{}},
		{"linger has not passed", Buffered{Nodes: 1, Waited: 300 * time.Millisecond}, Cut{Within: 700 * time.Millisecond}},
		{"linger has passed", Buffered{Nodes: 1, Waited: time.Second}, Cut{Nodes: 3, Labels: 3, InOrder: true, Cause: "linger"}},
		{"enough nodes", Buffered{Nodes: 5, Labels: 1}, Cut{Nodes: 3, Labels: 3, InOrder: true, Cause: "count"}},
		{"enough labels", Buffered{Labels: 4}, Cut{Nodes: 3, Labels: 3, InOrder: true, Cause: "count"}},
	} {
		if got := p.Cut(c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestSchedule: each window has the listed number of records, whatever else is held.
// After the last one the policy Then decides; without it nothing is cut.
func TestSchedule(t *testing.T) {
	p := Schedule{Windows: []Size{{Nodes: 2}, {Labels: 1}}}
	for _, c := range []struct {
		name string
		b    Buffered
		want Cut
	}{
		{"too few nodes are held", Buffered{Nodes: 1, Labels: 9}, Cut{}},
		{"surplus records stay for later windows", Buffered{Nodes: 5, Labels: 9}, Cut{Nodes: 2, Cause: "schedule"}},
		{"a window of labels", Buffered{Window: 1, Nodes: 3, Labels: 9}, Cut{Labels: 1, Cause: "schedule"}},
		{"after the last window", Buffered{Window: 2, Nodes: 3, Labels: 8}, Cut{}},
	} {
		if got := p.Cut(c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	p.Then = CountOrLinger{Count: 1}
	if got := p.Cut(Buffered{Window: 2, Nodes: 3}); got.Cause != "count" {
		t.Errorf("after the last window, with the policy Then: %+v, want the cause %q", got, "count")
	}
}

// TestEventTime checks single decisions of a policy with windows of 10 s, a lateness of
// 5 s and partitions that are idle after 2 s.
func TestEventTime(t *testing.T) {
	const s = 1000
	p := EventTime{Width: 10 * time.Second, Lateness: 5 * time.Second, Idle: 2 * time.Second}
	active := func(latest ...int64) (parts []Progress) {
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
		t    times
		want Cut
	}{
		{"no event was fetched", times{Oldest: noTime, Partitions: active(noTime, noTime)}, Cut{}},
		{"a partition without an event holds the watermark back", times{Oldest: 3 * s, Partitions: active(40*s, noTime)}, Cut{Within: 2 * time.Second}},
		{"the watermark is just below the window's end", times{Oldest: 3 * s, Partitions: active(14999, 40*s)}, Cut{Within: 2 * time.Second}},
		{"the watermark is at the window's end", times{Oldest: 3 * s, Partitions: active(15*s, 40*s)}, cut("event-time", 10*s, 10*s)},
		{"an empty window is not cut", times{Oldest: 23 * s, Partitions: active(40*s, 41*s)}, cut("event-time", 30*s, 30*s)},
		{"of two windows that have ended the oldest is cut", times{Oldest: 3 * s, Partitions: active(40 * s)}, cut("event-time", 10*s, 30*s)},
		{"windows are closed though no record is held", times{Oldest: noTime, Partitions: active(40 * s)}, Cut{Closed: 30 * s}},
		{"a window before 1970", times{Oldest: -3 * s, Partitions: active(5 * s)}, Cut{ByTime: true, Cause: "event-time", Before: 0}},
		{"a window contains its beginning", times{Oldest: -10 * s, Partitions: active(4 * s)}, Cut{Within: 2 * time.Second, Closed: -10 * s}},
		{"a quiet partition holds the watermark back", times{Oldest: 3 * s, Partitions: append(active(40*s), quiet(4*s, time.Second))}, Cut{Within: time.Second, Closed: -10 * s}},
		{"an idle partition does not hold the watermark back", times{Oldest: 3 * s, Partitions: append(active(40*s), quiet(4*s, 2*time.Second))}, cut("event-time", 10*s, 30*s)},
		{"an idle partition without an event does not either", times{Oldest: 3 * s, Partitions: append(active(40*s), quiet(noTime, time.Minute))}, cut("event-time", 10*s, 30*s)},
		{"all partitions are idle", times{Oldest: 33 * s, Partitions: []Progress{quiet(33*s, time.Minute), quiet(4*s, time.Minute)}}, cut("idle", 40*s, 40*s)},
		{"all partitions are idle and no record is held", times{Oldest: noTime, Partitions: []Progress{quiet(33*s, time.Minute)}}, Cut{}},
		{"the next call is not before soonest", times{Oldest: 3 * s, Partitions: append(active(9*s), quiet(4*s, 2*time.Second-1))}, Cut{Within: soonest, Closed: -10 * s}},
		{"the topic is full", times{Oldest: 3 * s, Full: true, Partitions: active(9 * s)}, Cut{ByTime: true, Cause: "full", Before: 10 * s}},
		{"the topic is full of untimed records", times{Oldest: noTime, Full: true, Untimed: true, Partitions: active(noTime)}, Cut{ByTime: true, Cause: "full", Before: noTime + 1}},
		{"an untimed record waits for the next window", times{Oldest: 3 * s, Untimed: true, Waited: 500 * time.Millisecond, Partitions: active(9 * s)}, Cut{Within: 1500 * time.Millisecond}},
		{"an untimed record waits no longer than Idle", times{Oldest: 3 * s, Untimed: true, Waited: 2 * time.Second, Partitions: active(9 * s)}, Cut{ByTime: true, Cause: "idle", Before: noTime + 1}},
	} {
		if got := p.Cut(Buffered{Times: func() times { return c.t }}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestFloodOfCommands: however many commands are held, every other window is the policy's
// if it wants one. A command that comes later is the next window.
func TestFloodOfCommands(t *testing.T) {
	in := &Inputs{}
	var windows []string
	cut := func(n int) {
		for range n {
			c := in.Cut(fetchedFirst{CountOrLinger{Count: 10}}, int64(len(windows)))
			windows = append(windows, c.Cause)
			in.Nodes.store.held -= c.Nodes
			in.Commands.store.held -= c.commands
		}
	}
	in.Nodes.store.held, in.Commands.store.held = 35, 5*maxCommands+1
	cut(11)
	in.Nodes.store.held, in.Commands.store.held = 20, 1
	cut(4)
	want := []string{
		"command", "count", "command", "count", "command", "count", "command", "linger", "command", "command", "",
		"command", "count", "count", "",
	}
	if diff := cmp.Diff(want, windows); diff != "" {
		t.Errorf("windows, -want +got\n%s", diff)
	}
}

// fetchedFirst cuts as many records as CountOrLinger may, in whatever order they were fetched.
type fetchedFirst struct{ CountOrLinger }

func (p fetchedFirst) Cut(b Buffered) Cut {
	c := p.CountOrLinger.Cut(b)
	c.Nodes, c.Labels, c.InOrder = min(c.Nodes, b.Nodes), min(c.Labels, b.Labels), false
	return c
}
