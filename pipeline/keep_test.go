package pipeline_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// ages is a naive implementation of what an engine with Config.Keep removes.
type ages struct {
	pipelinetest.OracleGraph
	keep      structure.Keep
	began     int64
	watermark int64
	now       int64              // of what a window names: its number, or the watermark
	nodes     map[event.ID]int64 // when each was last named
	over      map[event.ID]int64 // when those that were due got their label
	held      map[event.ID]bool  // due, and without their label
	edges     map[[2]event.ID]int64
	// By the median: the times of windows, how many of them the clock has left, and by keep the steps that the
	// watermark came to, with that number.
	times  [][]int64
	oldest int
	steps  map[int64][][2]int64
}

// tell moves the watermark to the median of event times, and returns the number of the window.
func (a *ages) tell(times []int64) (number int64) {
	number = int64(len(a.times))
	if len(times) > 0 {
		a.times = append(a.times, times)
	}
	events := slices.Concat(a.times[a.oldest:]...)
	for len(a.times)-a.oldest > 16 && len(events)-len(a.times[a.oldest]) >= 1024 {
		events = events[len(a.times[a.oldest]):]
		a.oldest++
	}
	if len(events) < 1024 {
		return number
	}
	slices.Sort(events)
	a.watermark = max(a.watermark, events[(len(events)-1)/2])
	for _, keep := range []int64{a.keep.Nodes, a.keep.Edges} {
		if s, now := a.steps[keep], floor(a.watermark, max(keep, 1)); len(s) == 0 || s[len(s)-1][0] < now {
			a.steps[keep] = append(s, [2]int64{now, int64(a.oldest)})
		}
	}
	return number
}

// passed reports whether a keep has passed since what was named at a time.
func (a *ages) passed(at, keep int64) bool {
	now := floor(a.watermark, keep) - keep
	if !a.keep.Median {
		return max(at, a.began) < now
	}
	return slices.ContainsFunc(a.steps[keep], func(s [2]int64) bool { return s[0] < now && at < s[1] })
}

func newAges(k structure.Keep) *ages {
	return &ages{
		OracleGraph: pipelinetest.OracleGraph{X: map[event.ID][]float32{}}, keep: k,
		nodes: map[event.ID]int64{}, over: map[event.ID]int64{}, held: map[event.ID]bool{}, edges: map[[2]event.ID]int64{}, steps: map[int64][][2]int64{},
	}
}

func pair(a, b event.ID) [2]event.ID {
	if b.Compare(a) < 0 {
		a, b = b, a
	}
	return [2]event.ID{a, b}
}

// floor returns x rounded down to a thousandth, about, of a keep.
func floor(x, keep int64) int64 {
	step := max(keep/1024, 1)
	for x%step != 0 {
		x--
	}
	return x
}

// due returns what leaves before the next window, given which nodes wait for their label.
func (a *ages) due(waits func(event.ID) bool) (nodes map[event.ID]bool, edges map[[2]event.ID]bool) {
	nodes, edges = map[event.ID]bool{}, map[[2]event.ID]bool{}
	if a.watermark == 0 {
		return nodes, edges
	}
	for id := range a.X {
		at, late := a.over[id]
		switch {
		case a.keep.Nodes == 0 || a.held[id]:
		case late:
			nodes[id] = max(at, a.began) < floor(a.watermark, a.keep.Nodes)
		case a.passed(a.nodes[id], a.keep.Nodes):
			nodes[id], a.held[id] = !waits(id), waits(id)
		}
		if !nodes[id] {
			delete(nodes, id)
		}
	}
	for _, e := range a.Edges {
		if p := pair(e[0], e[1]); a.keep.Edges > 0 && !nodes[e[0]] && !nodes[e[1]] && a.passed(a.edges[p], a.keep.Edges) {
			edges[p] = true
		}
	}
	return nodes, edges
}

// named takes note of what a window names, once the graph has stepped it with what was due before
// its own events.
func (a *ages) named(w, all *event.Window) {
	var times []int64
	for _, n := range w.Nodes {
		t := n.Time
		if at := n.Origin.Time; at > 0 && (t == 0 || at < t) {
			t = at
		}
		if t == 0 {
			continue
		}
		if times = append(times, min(t, 253_402_300_799_999)); a.keep.Median {
			continue
		}
		if a.watermark == 0 {
			a.began = t
		} else {
			shorter := slices.Min(slices.DeleteFunc([]int64{a.keep.Nodes, a.keep.Edges}, func(x int64) bool { return x == 0 }))
			t = min(t, a.watermark+max(shorter/16, 1))
		}
		a.watermark = max(a.watermark, t)
	}
	a.now = a.watermark
	if a.keep.Median {
		a.now = a.tell(times)
	}
	came := map[[2]event.ID]bool{} // edges that waited or that the window names
	for _, x := range a.Waits {
		came[pair(x.Ends[0], x.Ends[1])] = true
	}
	a.Step(all)
	for _, x := range a.Waits { // those that still wait
		delete(came, pair(x.Ends[0], x.Ends[1]))
	}
	for _, n := range w.Nodes {
		if !n.Departed && !n.OnlyEdges() {
			for _, u := range n.Neighbours {
				came[pair(n.ID, u)] = true
			}
			a.renew(n.ID)
		}
		for _, e := range n.AllEdges() {
			if !e.Remove {
				came[pair(e.Source, e.Target)] = true
			}
		}
	}
	edges := map[[2]event.ID]int64{}
	for _, e := range a.Edges {
		p := pair(e[0], e[1])
		if edges[p] = a.edges[p]; came[p] {
			edges[p] = a.now
			a.renew(e[0])
			a.renew(e[1])
		}
	}
	a.edges = edges
}

func (a *ages) renew(id event.ID) {
	a.nodes[id] = a.now
	delete(a.over, id)
	delete(a.held, id)
}

// answered takes note of nodes that were due and do not wait for their label any more.
func (a *ages) answered(waits func(event.ID) bool) {
	for id := range a.held {
		if _, here := a.X[id]; !here || !waits(id) {
			if delete(a.held, id); here {
				a.over[id] = a.watermark
			}
		}
	}
	for id := range a.nodes {
		if _, here := a.X[id]; !here {
			delete(a.nodes, id)
			delete(a.over, id)
		}
	}
}

// TestKeepEqualsTombstones: an engine that removes what was kept for long enough has the outcomes
// and the state, to the bit, of one that keeps all and is sent tombstones and removals of edges
// in the same windows, and they are of what a naive implementation says: by every encoder and
// both kinds of serving, with late labels, predictions that expire, sets, lag and predictions
// that are made again, and over restarts from snapshots.
func TestKeepEqualsTombstones(t *testing.T) {
	for _, kind := range pipelinetest.Kinds {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) { keepEqualsTombstones(t, kind, seed, false) })
		}
		t.Run(fmt.Sprint(kind, " by the median"), func(t *testing.T) { keepEqualsTombstones(t, kind, 4, true) })
	}
}

func keepEqualsTombstones(t *testing.T, kind gnn.Kind, seed uint64, median bool) {
	rng := rand.New(rand.NewPCG(seed, 45))
	m := pipelinetest.ModelOf(t, rng, kind, 1+int(seed)%2)
	if seed%4 >= 2 {
		pipelinetest.AddPool(t, m, seed%2 == 0)
	}
	sent := pipeline.Config{Samples: 2, LearnLag: int(seed % 3), Bounds: pipeline.Bounds{Pending: 12}}
	if seed%2 == 1 {
		sent.Bounds.Pending = 1000
		sent.Rescore = pipeline.Rescoring{After: 1}
		sent.Coverage = pipeline.Coverage{Target: 0.8}
	}
	kept := sent
	kept.Keep = []structure.Keep{{Nodes: 450, Edges: 350}, {Nodes: 500}, {Edges: 400}, {Nodes: 2048, Edges: 300}}[seed%4]
	windows := 150
	if kept.Keep.Median = median; median {
		windows = 600 // a clock has some twenty of them
	}
	a, b, v := pipelinetest.NewEngine(t, m, kept), pipelinetest.NewEngine(t, m, sent), newAges(kept.Keep)
	l := pipelinetest.NewRandomStream(rng, m)
	nodes, edges, late := 0, 0, 0
	for i := range windows {
		l.Nodes = min(l.Nodes, 100)
		w := l.Window()
		for j := 0; median && j < 45; j++ { // what fills the clock
			w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Str: "tick"}, Dense: make([]float32, m.Encoder.In()), Context: true})
		}
		for j := range w.Nodes { // the clock has begun after some windows, and runs with jumps
			n := &w.Nodes[j]
			n.Time, n.Origin.Time = 0, 0
			if i < 5 {
				continue
			}
			now := int64(1_000_000 + 80*i + rng.IntN(60))
			switch rng.IntN(6) {
			case 0: // without a time
			case 1:
				n.Time, n.Origin.Time = 1<<50, now
			case 2:
				n.Origin.Time = now
			default:
				n.Time = now - rng.Int64N(200)
			}
			if rng.IntN(100) == 0 {
				n.Time, n.Origin.Time = 1<<62, 0
			}
		}
		wantNodes, wantEdges := v.due(a.Waits)
		late += len(v.held)
		a.Enter(w)
		overdue := slices.Clone(a.Overdue())
		gotNodes, gotEdges := map[event.ID]bool{}, map[[2]event.ID]bool{}
		for _, n := range overdue {
			if n.Departed {
				gotNodes[n.ID] = true
			}
			for _, e := range n.Edges {
				gotEdges[pair(e.Source, e.Target)] = true
			}
		}
		if !maps.Equal(gotNodes, wantNodes) || !maps.Equal(gotEdges, wantEdges) {
			t.Fatalf("window %d: nodes %v and edges %v leave, want %v and %v", i, gotNodes, gotEdges, wantNodes, wantEdges)
		}
		a.Serve()
		got := a.Learn()
		if got.Figures.Int(event.NodesExpired) != len(gotNodes) || got.Figures.Int(event.EdgesExpired) != len(gotEdges) {
			t.Errorf("window %d: counts %+v, want %d nodes and %d edges", i, got.Figures.Kept(), len(gotNodes), len(gotEdges))
		}
		// Who sends departures sees them as such.
		got.Figures.Count(event.Departures, len(gotNodes))
		got.Figures.Set(event.NodesExpired, 0)
		got.Figures.Set(event.EdgesExpired, 0)
		told := got.Figures.Of(event.KeepWatermark)
		got.Figures.Set(event.KeepWatermark, 0)
		all := *w
		all.Nodes = append(overdue, w.Nodes...)
		if want := b.Step(&all); !reflect.DeepEqual(got, want) {
			t.Fatalf("window %d (-sent +kept)\n%s", i, cmp.Diff(want, got))
		}
		if v.named(w, &all); told != float64(v.watermark)/1000 {
			t.Errorf("window %d: the watermark is at %v s, want %d ms", i, told, v.watermark)
		}
		v.answered(a.Waits)
		nodes, edges = nodes+len(gotNodes), edges+len(gotEdges)
		if i%25 == 24 {
			file := pipelinetest.SnapshotOf(t, a, nil)
			sameState(t, file, pipelinetest.SnapshotOf(t, b, nil))
			restored, _, err := pipelinetest.Restore(m, kept, file)
			if err != nil {
				t.Fatal(err)
			}
			if a = restored; !bytes.Equal(pipelinetest.SnapshotOf(t, a, nil), file) {
				t.Fatal("the restored engine is saved as other bytes")
			}
		}
	}
	if kept.Keep.Nodes > 0 && kept.Keep.Nodes < 2000 && (nodes < 40 || late < 10) || kept.Keep.Edges > 0 && edges < 20 {
		t.Errorf("%d nodes and %d edges left, %d times a node waited for its label: too few", nodes, edges, late)
	}
}

// sameState fails the test unless a snapshot has the tensors of another, and beside them only
// those of what is kept.
func sameState(t *testing.T, kept, sent []byte) {
	t.Helper()
	tensors := func(b []byte) map[string]safetensors.Tensor {
		f, err := safetensors.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(f.Tensors, func(name string, _ safetensors.Tensor) bool {
			return name == "checksums" || len(name) > 5 && name[:5] == "keep."
		})
		return f.Tensors
	}
	if want, got := tensors(sent), tensors(kept); !reflect.DeepEqual(got, want) {
		t.Fatalf("snapshots (-sent +kept)\n%s", cmp.Diff(want, got))
	}
}

// steady is a stream of small nodes at a constant rate: each has an edge to its merchant, which
// is implicit, and to the node before it, and its label comes some windows late, if it comes.
type steady struct {
	number, next int64
	dim          int
	each         int   // nodes a window
	pace         int64 // milliseconds from one window to the next
	late         int64 // windows from a node to its label
}

func (s *steady) window() *event.Window {
	w := &event.Window{Number: s.number}
	at := 1_000_000_000_000 + s.number*s.pace
	x := make([]float32, s.dim)
	x[s.number%int64(s.dim)] = 1
	for range s.each {
		shop := event.ID{Str: fmt.Sprint("shop-", s.next%97)}
		w.Nodes = append(w.Nodes, event.Node{
			Origin: &event.Origin{Time: at}, ID: event.ID{Num: s.next}, Dense: x, Time: at,
			Neighbours: []event.ID{shop, {Num: s.next - 1}}, Implicit: []event.ID{shop},
		})
		if v := s.next - s.late*int64(s.each); v >= 0 && v%5 != 0 {
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{Time: at}, Node: event.ID{Num: v}, Index: int32(v % 3), Time: at})
		}
		s.next++
	}
	s.number++
	return w
}

// TestKeepBoundsMemory: on a stream of 200,000 nodes whose labels come up to two keeps late, or
// not at all, the graph has the nodes of a keep and those that wait for their label, shops that
// are named again stay, and the heap of the last three quarters does not grow.
func TestKeepBoundsMemory(t *testing.T) {
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 46)), gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 1, Bounds: pipeline.Bounds{Pending: 8000}, Local: pipeline.Local{Unwatched: true}, Keep: structure.Keep{Nodes: 100_000, Edges: 50_000, Median: true}})
	s := &steady{dim: m.Encoder.In(), each: 50, pace: 1000, late: 150}
	var heap []int64
	for range 4 {
		var out *event.Outcome
		for range 1000 {
			out = e.Step(s.window())
			e.Recycle(out)
		}
		// A keep is 100 windows. One of five waits until 8,000 others came, the rest for 150 windows.
		if n := out.Figures.Int(event.GraphNodes); n < 7_600 || n > 13_600 {
			t.Errorf("window %d: %d nodes in the graph, want about 10,000", out.Window, n)
		}
		if n := out.Figures.Int(event.GraphEdges); n < 6_900 || n > 7_500 { // of the last 50 windows, and the 22 of the clock
			t.Errorf("window %d: %d edges in the graph, want about 7,200", out.Window, n)
		}
		if out.Figures.Int(event.ContextNodes) > 0 {
			t.Error("a shop came again that was named in each window")
		}
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		heap = append(heap, int64(now.HeapAlloc))
	}
	t.Logf("live heap after each quarter: %d", heap)
	if most := max(heap[1], heap[2], heap[3]); most > heap[0]*105/100 {
		t.Errorf("the heap has %d bytes, want at most 5%% more than %d", most, heap[0])
	}
}
