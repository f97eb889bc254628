package intake

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestInOrderOfTime: on a backlog, windows are the stream in order of time, in pieces of at most so
// many nodes or labels, however the records come from brokers. The sort of all records is the
// oracle, in which nodes are before labels of their time.
func TestInOrderOfTime(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 3))
			parts, n, count := 1+rng.IntN(3), 100+rng.IntN(200), 1+rng.IntN(60)
			nodes, labels := randomRecords(rng, true, parts, n, 20, 0, 30*20*int64(n)), randomRecords(rng, false, parts, n/2, 37, 0, 40*20*int64(n))
			d := h.inputs(CountOrLinger{Count: count, Linger: 0}, parts, nil)
			for i := range parts {
				d.Nodes.store.buffers[i].opened = last(nodes.parts[i]).offset + 1
				d.Labels.store.buffers[i].opened = last(labels.parts[i]).offset + 1
			}
			d.addAll(t, rng, nodes, labels)
			var sorted []timedRecord
			for i := range parts {
				for _, r := range nodes.parts[i] {
					sorted = append(sorted, timedRecord{r, false})
				}
			}
			for i := range parts {
				for _, r := range labels.parts[i] {
					sorted = append(sorted, timedRecord{r, true})
				}
			}
			slices.SortStableFunc(sorted, func(a, b timedRecord) int { return cmp.Compare(a.time, b.time) })
			for i, w := range d.windows {
				size := len(w.nodes) + len(w.labels)
				if size > len(sorted) || max(len(w.nodes), len(w.labels)) > count {
					t.Fatalf("seed %d: window %d has %d nodes and %d labels, of %d records and windows of %d", seed, i, len(w.nodes), len(w.labels), len(sorted), count)
				}
				if i+1 < len(d.windows) && max(len(w.nodes), len(w.labels)) < count {
					t.Errorf("seed %d: window %d of %d has %d nodes and %d labels, want %d of one", seed, i, len(d.windows), len(w.nodes), len(w.labels), count)
				}
				var want cutWindow
				for _, r := range sorted[:size] {
					if r.label {
						want.labels = append(want.labels, r.record)
					} else {
						want.nodes = append(want.nodes, r.record)
					}
				}
				canonical := func(a, b record) int {
					return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
				}
				slices.SortFunc(want.nodes, canonical)
				slices.SortFunc(want.labels, canonical)
				if !slices.Equal(w.nodes, want.nodes) || !slices.Equal(w.labels, want.labels) {
					t.Fatalf("seed %d: window %d has nodes %v and labels %v, want %v and %v", seed, i, w.nodes, w.labels, want.nodes, want.labels)
				}
				sorted = sorted[size:]
			}
			if len(sorted) > 0 {
				t.Errorf("seed %d: %d records are in no window", seed, len(sorted))
			}
			checkReplay(t, h, rng, d.windows, nodes, labels, nil)
		}
	})
}

// timedRecord is a record of a node or a label.
type timedRecord struct {
	record
	label bool
}

func last(records []record) record { return records[len(records)-1] }

// TestNothingWaitsLive: a partition that is read to its end is not waited for, one of which brokers
// have more is, also past the bounds on what is held.
func TestNothingWaitsLive(t *testing.T) {
	onFake(t, func(t *testing.T, h *harness) {
		d := h.inputs(CountOrLinger{Count: 10, Linger: 0}, 2, nil)
		nodes := &topicRecords{node: true, parts: [][]record{nil, {{1, 0, baseTime + 5}}}}
		for i := range int64(maxHeld) {
			nodes.parts[0] = append(nodes.parts[0], record{0, i, baseTime + i})
		}
		next := []int{0, 0}
		addNext(t, &d.Nodes, nodes, next, []int{3, 0})
		d.cutAll(t)
		if len(d.windows) != 1 || len(d.windows[0].nodes) != 3 {
			t.Fatalf("windows %v, want one of 3 nodes", d.windows)
		}
		d.Nodes.store.buffers[1].opened = 1
		addNext(t, &d.Nodes, nodes, next, []int{maxHeld, 0})
		d.held(t, maxHeld-3, 1)
		for i := range int64(3) { // the bound
			nodes.parts[0] = append(nodes.parts[0], record{0, maxHeld + i, baseTime + maxHeld + i})
		}
		addNext(t, &d.Nodes, nodes, next, []int{3, 0})
		d.held(t, maxHeld, 1)
		if d.Nodes.Ready() == nil {
			t.Fatal("a cut waits for a partition of a topic that is not fetched")
		}
		addNext(t, &d.Nodes, nodes, next, []int{0, 1})
		d.cutAll(t)
		if w := d.windows[1]; len(w.nodes) != 10 || w.nodes[9] != (record{1, 0, baseTime + 5}) {
			t.Errorf("the nodes %v make a window, want the ten oldest", w.nodes)
		}
		if d.Nodes.awaited || d.Nodes.store.held != 0 {
			t.Errorf("%d records are held, awaited %v, want 0 and false", d.Nodes.store.held, d.Nodes.awaited)
		}
	})
}

// held checks that no window is cut, although so many nodes are held.
func (d *driver) held(t *testing.T, nodes, windows int) {
	t.Helper()
	if c := d.Cut(d.policy, int64(len(d.windows))); c.Cause != "" || c.Within <= 0 || d.Nodes.store.held != nodes || len(d.windows) != windows {
		t.Fatalf("cut as %+v with %d nodes, want to wait with %d", c, d.Nodes.store.held, nodes)
	}
}

// TestWithoutEventTimes: records are compared by event time where both have one, else by their
// timestamps, and a time far ahead of the clock is none.
func TestWithoutEventTimes(t *testing.T) {
	for _, c := range []struct {
		a, b   moment
		before bool
	}{
		{moment{1, 20}, moment{2, 10}, true},
		{moment{2, 10}, moment{2, 20}, false},
		{moment{noTime, 10}, moment{2, 20}, true},
		{moment{1, 20}, moment{noTime, 10}, false},
		{moment{noTime, 10}, moment{noTime, 20}, true},
	} {
		if got := c.a.before(c.b); got != c.before {
			t.Errorf("%v before %v: %v, want %v", c.a, c.b, got, c.before)
		}
	}
	onFake(t, func(t *testing.T, h *harness) {
		d := h.inputs(CountOrLinger{Count: 1, Linger: 0}, 2, nil)
		far := time.Now().Add(24 * time.Hour).UnixMilli()
		nodes := &topicRecords{node: true, parts: [][]record{{{0, 0, far}}, {{1, 0, baseTime}}}}
		addNext(t, &d.Nodes, nodes, []int{0, 0}, []int{1, 1})
		d.cutAll(t) // all have the timestamp 0
		if len(d.windows) != 2 || d.windows[0].nodes[0].time != far {
			t.Errorf("windows %v, want first the node whose time cannot be", d.windows)
		}
	})
}
