package structure

import (
	"fmt"
	"math"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/pipeline/store"
)

// Keep is for how long nodes and edges stay that nothing names, in milliseconds of event time;
// 0 is for ever. Median has the median of event times tell the time, see [clock]; without it, as in ledgers of 1.0.0, each
// event moves it by a part of the shorter Keep.
type Keep struct {
	Nodes, Edges int64
	Median       bool
}

// medianClock is Median in ledgers.
const medianClock = "median"

// keepUnits are the units of a Keep's text, the largest first.
var keepUnits = []struct {
	name string
	ms   int64
}{{"d", 86_400_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1000}, {"ms", 1}}

// Declare declares the times.
func (k *Keep) Declare(l *setting.List) {
	l.Add(setting.Setting{
		Name: "keep", Group: "state", Kept: setting.Optional, Placeholder: "nodes=TIME,edges=TIME",
		Help: "How long nodes and edges stay that no event names, such as nodes=90d,edges=30d " +
			"(docs/forgetting.md). For ever when left out.",
		Value: setting.Func(k.String, func(text string) error {
			read, err := ParseKeep(text)
			if err == nil {
				k.Nodes, k.Edges = read.Nodes, read.Edges
			}
			return err
		}),
	})
	l.Add(setting.Setting{Name: "keep-clock", Kept: setting.Optional, Value: setting.Func(
		func() string {
			if k.Median && k.on() {
				return medianClock
			}
			return ""
		},
		func(text string) error {
			if text != medianClock {
				return fmt.Errorf("clock %.20q is unknown: use the program that wrote it", text)
			}
			k.Median = true
			return nil
		},
	)})
	l.Check(func() error {
		if min(k.Nodes, k.Edges) < 0 {
			return fmt.Errorf("keep %d ms for nodes and %d for edges: give positive times, or 0 for ever", k.Nodes, k.Edges)
		}
		return nil
	})
}

// on reports whether anything leaves by its age.
func (k *Keep) on() bool { return k.Nodes > 0 || k.Edges > 0 }

// ParseKeep reads a text such as nodes=90d,edges=30d, and "" for ever.
func ParseKeep(text string) (k Keep, err error) {
	if text == "" {
		return k, nil
	}
	for _, item := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		to := map[string]*int64{"nodes": &k.Nodes, "edges": &k.Edges}[name]
		if to == nil || *to != 0 {
			return Keep{}, fmt.Errorf("%.60q: give nodes=TIME, edges=TIME or both, with a comma between, such as nodes=90d,edges=30d", item)
		}
		if *to = spelling.Span(value); *to == 0 {
			return Keep{}, fmt.Errorf("%.60q: give a whole number of d, h, m, s or ms, at least 1ms and at most 100 "+
				"years, such as %s=90d", item, name)
		}
	}
	return k, nil
}

// String returns the text of k, "" for the zero value.
func (k Keep) String() string {
	var items []string
	for _, x := range []struct {
		name string
		ms   int64
	}{{"nodes", k.Nodes}, {"edges", k.Edges}} {
		for _, u := range keepUnits {
			if x.ms != 0 && x.ms%u.ms == 0 {
				items = append(items, fmt.Sprintf("%s=%d%s", x.name, x.ms/u.ms, u.name))
				break
			}
		}
	}
	return strings.Join(items, ",")
}

// expiry removes what nothing has named for the time of a [Keep]: it puts departures and
// removals before the events of a window. Methods do nothing on nil.
//
// Time is the watermark, which node events move, see tell. A node is as old as its last event
// or the last edge that came to it, an edge as the last event that named it: the time of either
// is the watermark once its window has left the clock, so that only later events say how late it
// was; by the rule of 1.0.0, that of its window. A node whose prediction waits for its label
// stays, and is due when the prediction waits no longer.
//
// Invariant between windows: every node of the graph is in nodes, in over, or waits for its
// label; every edge of the graph is in edges.
type expiry struct {
	Keep
	graph     *gnn.Graph
	numbers   *numbers
	pending   pending
	clock     clock // of Median
	watermark int64
	began     int64 // the first watermark: nothing is older
	now       int64 // of what the window names: its number in the clock, or the watermark of 1.0.0
	// When a keep has passed, by the clock.
	pastNodes, pastEdges passed
	// By time, the oldest first. They are empty where nodes or edges are kept for ever.
	nodes *store.Queue[int32, int64]
	over  *store.Queue[int32, int64]    // nodes that were due before their label came, with its time
	edges *store.Queue[[2]int32, int64] // by their ends, the lower number first
	// events are the departures and removals of the window, overdue in number, and then its own
	// events.
	events  []event.Node
	overdue int
	times   []int64 // of the window; reused
}

const (
	// noTime is the watermark before the first event.
	noTime = math.MinInt64
	// firstTime and lastTime bound event times: the years 1 and 9999.
	firstTime, lastTime = -62_135_596_800_000, 253_402_300_799_999
	// leastRoom is how many nodes, with their edges, and edges may leave in any window.
	leastRoom = 8192
	// leaveSteps is in how many steps a Keep passes. What is due leaves at the next of them: a
	// hub that loses neighbours is then recomputed once a step, and not in every window.
	leaveSteps = 1024
	// mostMoves is how many events together move the watermark by a Keep, at least, by the rule of 1.0.0.
	mostMoves = 16
)

func newExpiry(k Keep, graph *gnn.Graph, ids *numbers, p pending) *expiry {
	if !k.on() {
		return nil
	}
	return &expiry{
		Keep: k, graph: graph, numbers: ids, pending: p, watermark: noTime, began: noTime,
		pastNodes: newPassed(k.Nodes), pastEdges: newPassed(k.Edges),
		nodes: store.NewNodeQueue[int64](), over: store.NewNodeQueue[int64](), edges: store.NewQueue[[2]int32, int64](),
	}
}

// enter returns the events of a window after departures and removals of what is due by the
// watermark of the windows before, and moves the watermark. What leaves in a window is bounded
// by leastRoom and twice what the window brings: it stays short, and what is due does not pile
// up. The rest leaves in the windows that follow.
func (k *expiry) enter(events []event.Node, out *event.Outcome) []event.Node {
	if k == nil {
		return events
	}
	room := leastRoom
	for i := range events {
		room += 2 * (1 + len(events[i].Neighbours) + len(events[i].Edges))
	}
	if k.watermark != noTime {
		k.leaveNodes(k.over, k.pastNodes.floor(k.watermark), &room)
		k.leaveNodes(k.nodes, k.limit(&k.pastNodes), &room)
		out.Figures.Count(event.NodesExpired, len(k.events))
		out.Figures.Count(event.Departures, -len(k.events)) // they leave like others, and are counted apart
		out.Figures.Count(event.EdgesExpired, k.leaveEdges(room))
	}
	k.tell(events)
	if k.watermark != noTime {
		out.Figures.Set(event.KeepWatermark, float64(k.watermark)/1000)
	}
	if k.overdue = len(k.events); k.overdue == 0 {
		return events
	}
	k.events = append(k.events, events...)
	return k.events
}

// dropWindow forgets what points into the window's memory.
func (k *expiry) dropWindow() {
	if k != nil {
		clear(k.events)
		k.events, k.overdue = k.events[:0], 0
	}
}

// due returns the key of a queue's oldest entry if that is before the given one.
func due[K comparable](q *store.Queue[K, int64], before int64) (x K, due bool) {
	if q.Len() == 0 {
		return x, false
	}
	e := q.At(q.Oldest())
	return e.Key, e.Value < before
}

// limit returns the time, or the window of the clock, before which what was named is older than a keep
// at its last step.
func (k *expiry) limit(p *passed) int64 {
	if k.Median {
		return p.before(k.watermark)
	}
	if before := p.floor(k.watermark) - p.keep; k.began < before {
		return before
	}
	return noTime
}

// leaveNodes adds departures of the nodes of a queue that are before the given one.
func (k *expiry) leaveNodes(q *store.Queue[int32, int64], before int64, room *int) {
	for *room > 0 {
		v, old := due(q, before)
		if !old {
			return
		}
		q.Remove(v)
		*room--
		if k.pending.Waits(v) {
			continue
		}
		*room -= k.graph.Degree(v)
		k.leaving([]int32{v})
		k.events = append(k.events, event.Node{ID: k.numbers.id(v), Departed: true})
	}
}

// leaveEdges adds the removal of the edges that are due, of those that do not leave with a
// node, and returns their number.
func (k *expiry) leaveEdges(room int) int {
	var edges []event.Edge
	before := k.limit(&k.pastEdges)
	for len(edges) < room {
		e, old := due(k.edges, before)
		if !old {
			break
		}
		edges = append(edges, event.Edge{Source: k.numbers.id(e[0]), Target: k.numbers.id(e[1]), Remove: true})
		k.edges.Remove(e)
	}
	if len(edges) > 0 {
		k.events = append(k.events, event.Node{ID: edges[0].Source, Edges: edges})
	}
	return len(edges)
}

// tell moves the watermark to what the events of a window say.
func (k *expiry) tell(events []event.Node) {
	k.times = k.times[:0]
	for i := range events {
		if t := timeOf(&events[i]); t != noTime {
			k.times = append(k.times, t)
		}
	}
	if !k.Median {
		for _, t := range k.times {
			k.move(t)
		}
		k.now = k.watermark
		return
	}
	k.now = k.clock.next
	k.clock.add(k.times)
	k.watermark = max(k.watermark, k.clock.median())
	if k.watermark == noTime {
		return
	}
	if k.began == noTime {
		k.began = k.watermark
	}
	k.pastNodes.come(k.watermark, k.clock.oldest)
	k.pastEdges.come(k.watermark, k.clock.oldest)
}

// timeOf returns the time of an event: its event time, or the time of its record if that is earlier or
// the event has none, since an event cannot come before it happened. It is noTime if there is neither.
func timeOf(e *event.Node) int64 {
	t := e.Time
	if o := e.Origin; o != nil && o.Time > 0 && (t == 0 || o.Time < t) {
		t = o.Time
	}
	if t == 0 {
		return noTime
	}
	return min(max(t, firstTime), lastTime)
}

// move moves the watermark to the time of an event by the rule of 1.0.0: by at most a part of the shorter Keep.
func (k *expiry) move(t int64) {
	if k.watermark != noTime {
		shorter := max(k.Nodes, k.Edges)
		if k.Nodes > 0 && k.Edges > 0 {
			shorter = min(k.Nodes, k.Edges)
		}
		t = min(t, k.watermark+max(shorter/mostMoves, 1))
	} else {
		k.began = t
	}
	k.watermark = max(k.watermark, t)
}

// renew makes an entry of a queue the newest one.
func renew[K comparable](k *expiry, q *store.Queue[K, int64], x K) {
	if at := q.Get(x); at != nil {
		if *at == k.now {
			return
		}
		q.Remove(x)
	}
	q.Put(x, k.now)
}

func (k *expiry) renewNode(v int32) {
	if k.Nodes > 0 {
		k.over.Remove(v)
		renew(k, k.nodes, v)
	}
}

// answered has node v leave if it was due and only its label was waited for. A node that has
// left must not be given.
func (k *expiry) answered(v int32) {
	if k != nil && k.Nodes > 0 && k.nodes.Get(v) == nil && k.over.Get(v) == nil {
		k.over.Put(v, k.watermark)
	}
}

// edgeOf is an edge as a key of edges.
func edgeOf(u, v int32) [2]int32 { return [2]int32{min(u, v), max(u, v)} }

// follower returns k as one that follows the graph.
func (k *expiry) follower() Follower {
	return Follower{Entered: func(v int32, _ gnn.Vector) { k.renewNode(v) }, Leaving: k.leaving, Unlinked: k.unlinked, Linked: k.linked}
}

func (k *expiry) leaving(nodes []int32) {
	for _, v := range nodes {
		k.nodes.Remove(v)
		k.over.Remove(v)
		if k.Edges > 0 {
			for _, u := range k.graph.Neighbours(v) {
				k.edges.Remove(edgeOf(u, v))
			}
		}
	}
}

func (k *expiry) unlinked(edges [][2]int32) {
	for _, e := range edges {
		k.edges.Remove(edgeOf(e[0], e[1]))
	}
}

func (k *expiry) linked(v int32, near, _ []int32) {
	k.renewNode(v)
	for _, u := range near {
		k.renewNode(u)
		if k.Edges > 0 {
			renew(k, k.edges, edgeOf(u, v))
		}
	}
}

// state declares the queues and the watermark. The graph, and which nodes wait for their label,
// must have been declared before.
func (k *expiry) state(s *snapshot.Schema) {
	if k == nil {
		return
	}
	snapshot.Value(s, "keep.watermark", &k.watermark)
	snapshot.Value(s, "keep.began", &k.began)
	if k.Median {
		k.clock.state(s)
		k.pastNodes.state(s, "keep.nodes-passed")
		k.pastEdges.state(s, "keep.edges-passed")
	}
	count, stamp := k.numbers.len(), func(x *int64) *int64 { return x }
	store.DeclareNodes(s, "keep.nodes", k.nodes, count, count)
	store.DeclareField(s, "keep.named", k.nodes, stamp)
	store.DeclareNodes(s, "keep.over", k.over, count, count)
	store.DeclareField(s, "keep.answered", k.over, stamp)
	k.edges.Freeze(s)
	next, room := k.edges.Walk(), make([]int32, 2)
	ends := snapshot.Lists(s, "keep.edges", func() []int32 {
		_, e := next()
		copy(room, e.Key[:])
		return room
	}, s.Len("keep.edges", k.edges.Len(), k.graph.Edges()), 2)
	s.Check(func() error {
		for i := 0; i < len(ends); i += 2 {
			e := [2]int32(ends[i:])
			if e[0] < 0 || e[0] >= e[1] || int(e[1]) >= count || k.edges.Get(e) != nil {
				return snapshot.Damaged("an edge between %d and %d of %d nodes is kept, or twice", e[0], e[1], count)
			}
			k.edges.Put(e, 0)
		}
		return nil
	})
	store.DeclareField(s, "keep.seen", k.edges, stamp)
	s.Check(k.check)
}

// check checks the invariant of a restored expiry, and the order of its queues.
func (k *expiry) check() error {
	for v := range int32(k.numbers.len()) {
		entries := 0
		for _, q := range []*store.Queue[int32, int64]{k.nodes, k.over} {
			if q.Get(v) != nil {
				entries++
			}
		}
		here := k.Nodes > 0 && !k.numbers.gone(v)
		if entries > 1 || entries == 1 && !here || entries == 0 && here && !k.pending.Waits(v) {
			return snapshot.Damaged("node %d is kept %d times", v, entries)
		}
	}
	if n := k.edges.Len(); k.Edges > 0 && n != k.graph.Edges() || k.Edges == 0 && n > 0 {
		return snapshot.Damaged("%d edges of %d are kept", n, k.graph.Edges())
	}
	if (k.began == noTime) != (k.watermark == noTime) || k.began > k.watermark || k.watermark > lastTime {
		return snapshot.Damaged("the watermark is %d, and was first %d", k.watermark, k.began)
	}
	newest := k.watermark
	if k.Median {
		newest = k.clock.next
	}
	if !ordered(k.nodes, newest) || !ordered(k.over, k.watermark) || !ordered(k.edges, newest) {
		return snapshot.Damaged("nodes or edges are kept in another order than that of time")
	}
	return nil
}

// ordered reports whether no entry of a restored queue is older than the one before it, or
// newer than last.
func ordered[K comparable](q *store.Queue[K, int64], last int64) bool {
	before := int64(noTime)
	for i := range int32(q.Len()) {
		at := q.At(i).Value
		if at < before || at > last {
			return false
		}
		before = at
	}
	return true
}
