package serve_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// smallBounds are bounds that a flood reaches within a few windows.
var smallBounds = pipeline.Config{Bounds: pipeline.Bounds{Pending: 64, Labels: 256, Edges: 1024}}

// town is a stream of honest events, each window a function of its number: nodes that name
// earlier ones, and labels one window later.
type town struct{ m *model.Model }

func (h town) id(window int64, i int) event.ID {
	return event.ID{Str: fmt.Sprintf("honest-%d-%d", window, i)}
}

func (h town) window(number int64) *event.Window {
	const arrivals = 3
	rng := rand.New(rand.NewPCG(11, uint64(number)))
	w := &event.Window{Number: number}
	for i := range arrivals {
		n := event.Node{Origin: &event.Origin{}, ID: h.id(number, i), Time: 1_700_000_000_000 + number}
		for range h.m.Encoder.In() {
			n.Dense = append(n.Dense, float32(rng.NormFloat64()))
		}
		for range min(number, 4) {
			n.Neighbours = append(n.Neighbours, h.id(rng.Int64N(number), rng.IntN(arrivals)))
		}
		w.Nodes = append(w.Nodes, n)
		if number > 0 {
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: h.id(number-1, i), Index: int32(rng.IntN(len(h.m.Classes)))})
		}
	}
	return w
}

// flood adds events that take much memory to windows, and counts them.
type flood struct {
	rng                   *rand.Rand
	in                    int // dimension of the features
	serial                int
	edges, labels, poison int
}

var megabyte = strings.Repeat("é", 1<<19)

// fresh returns an id that no node has or will have. Like a decoder's strings, it may be a
// small part of a large block of memory.
func (f *flood) fresh() event.ID {
	f.serial++
	switch n := f.rng.IntN(1000); {
	case n < 5:
		return event.ID{Str: fmt.Sprint(f.serial, megabyte)}
	case n < 100:
		return event.ID{Str: fmt.Sprint(f.serial, megabyte[:1000])}
	case n < 200:
		return event.ID{Num: -f.rng.Int64() - 1}
	}
	return event.ID{Str: fmt.Sprintf("%10d%s", f.serial, megabyte[:8<<10])[:10]}
}

// pour adds a flood to a window: known nodes that name unknown ones, with any times and
// numbers; labels of unknown nodes; and records that cannot be decoded.
func (f *flood) pour(w *event.Window) {
	times := []int64{0, math.MinInt64, math.MaxInt64, -1, 884_541_340_800_000} // the last in the year 30000
	sizes := []float32{1, 1e6, 1e38, -1e38, math.MaxFloat32, math.SmallestNonzeroFloat32}
	for i := range 20 { // the same nodes in every window
		n := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: int64(i)}, Time: times[f.rng.IntN(len(times))]}
		for range f.in {
			n.Dense = append(n.Dense, sizes[f.rng.IntN(len(sizes))]*f.rng.Float32())
		}
		for range 50 {
			n.Neighbours = append(n.Neighbours, f.fresh())
			f.edges++
		}
		n.Neighbours = append(n.Neighbours, event.ID{Num: 0}) // a hub
		w.Nodes = append(w.Nodes, n)
	}
	for i := range 100 {
		o := &event.Origin{Value: make([]byte, 1<<f.rng.IntN(10)), Headers: make([]event.Header, f.rng.IntN(10))}
		if i%20 == 0 && w.Number%40 <= 20 { // long records in half of the windows
			o.Value = make([]byte, 100<<10)
		}
		w.Labels = append(w.Labels, event.Label{Origin: o, Node: f.fresh(), Time: times[f.rng.IntN(len(times))]})
		f.labels++
		w.Refused = append(w.Refused, event.Refusal{Origin: o, Reason: event.Undecodable})
		f.poison++
	}
}

// live returns the size of the live heap in bytes.
func live() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestFlood: in a flood of events that take much memory, memory stops growing at the
// bounds, every event is counted, and predictions for unrelated nodes have the same bits
// as without the flood.
func TestFlood(t *testing.T) {
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 2)), gnn.KindSAGE, 2)
	h := town{m}
	calm := pipelinetest.NewEngine(t, m, smallBounds)
	e := pipelinetest.NewEngine(t, m, smallBounds)
	f := &flood{rng: rand.New(rand.NewPCG(3, 4)), in: m.Encoder.In()}
	full, windows := int64(20), int64(200)
	if testing.Short() {
		windows = 80
	}
	before, atBound := live(), 0
	got := make(map[event.Reason]int)
	dropped := 0
	var last figure.Window
	for number := range windows {
		want := calm.Step(h.window(number))
		w := h.window(number)
		f.pour(w)
		out := e.Step(w)
		honest := out.Predictions[:len(want.Predictions)]
		if diff := cmp.Diff(want.Predictions, honest); diff != "" {
			t.Fatalf("window %d: predictions of honest nodes differ in a flood (-want +got)\n%s", number, diff)
		}
		if diff := cmp.Diff(want.Labelled, out.Labelled); diff != "" {
			t.Fatalf("window %d: honest labels are joined differently in a flood (-want +got)\n%s", number, diff)
		}
		for _, p := range out.Predictions {
			sound(t, p)
		}
		for _, r := range out.Refused {
			got[r.Reason]++
		}
		dropped += out.Figures.Int(event.EdgesDropped)
		last = out.Figures
		if last.Int(event.Pending) > smallBounds.Bounds.Pending || last.Int(event.WaitingEdges) > smallBounds.Bounds.Edges || last.Int(event.WaitingLabels) > smallBounds.Bounds.Labels {
			t.Fatalf("window %d: levels %+v are beyond the bounds", number, last.Kept())
		}
		if number == full {
			atBound = live()
		}
	}
	end := live()
	// Ids and records take a quarter of a megabyte each; the rest is for the queues, the
	// current window and the honest nodes.
	const most = 3 << 19
	if atBound-before > most || end-before > most {
		t.Errorf("the heap grew by %d KiB until the bounds and by %d KiB in %d times as many windows, want at most %d", (atBound-before)>>10, (end-before)>>10, windows/full, most>>10)
	}
	t.Logf("the heap grew by %d KiB until the bounds and by %d KiB in %d times as many windows", (atBound-before)>>10, (end-before)>>10, windows/full)
	if dropped+last.Int(event.WaitingEdges) != f.edges {
		t.Errorf("%d edges dropped and %d waiting, want %d together", dropped, last.Int(event.WaitingEdges), f.edges)
	}
	if got[event.OrphanLabel]+last.Int(event.WaitingLabels) != f.labels || got[event.Undecodable] != f.poison || len(got) != 2 {
		t.Errorf("refused %v and %d labels waiting, want all of %d labels and %d poisoned records", got, last.Int(event.WaitingLabels), f.labels, f.poison)
	}
	runtime.KeepAlive(e)
}

// sound fails unless a prediction has probabilities that sum to 1, and finite
// uncertainties.
func sound(t *testing.T, p event.Prediction) {
	t.Helper()
	sum := 0.0
	for _, q := range p.Probabilities {
		if !(q >= 0 && q <= 1) {
			t.Fatalf("probability %v in %+v", q, p)
		}
		sum += float64(q)
	}
	if math.Abs(sum-1) > 1e-4 {
		t.Fatalf("probabilities sum to %v, want 1: %+v", sum, p)
	}
	for _, x := range []float32{p.Confidence, p.Total, p.Aleatoric, p.Epistemic} {
		if !(x >= 0 && x <= math.MaxFloat32) {
			t.Fatalf("confidence or uncertainty %v in %+v", x, p)
		}
	}
}

// TestNumbersBeyondFloat32: nodes whose sums overflow float32 are predicted as z = 0, and
// the posterior stays finite when their labels are learned.
func TestNumbersBeyondFloat32(t *testing.T) {
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 2)), gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{})
	h := town{m}
	for number := range int64(50) {
		w := h.window(number)
		huge := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: number}, Neighbours: []event.ID{{Num: number - 1}}}
		for i := range m.Encoder.In() {
			huge.Dense = append(huge.Dense, []float32{math.MaxFloat32, -math.MaxFloat32, 1e6}[(int(number)+i)%3])
		}
		w.Nodes = append(w.Nodes, huge)
		w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: huge.ID, Index: int32(number % 3)})
		out := e.Step(w)
		for _, p := range out.Predictions {
			sound(t, p)
		}
		if len(out.Labelled) != len(w.Labels) {
			t.Fatalf("window %d: %d of %d labels joined", number, len(out.Labelled), len(w.Labels))
		}
		for _, head := range out.Heads {
			for _, s := range head.Scores {
				if !(s.LogLoss >= 0 && s.LogLoss <= math.MaxFloat64) || !(s.Brier >= 0) {
					t.Fatalf("window %d, head %s: score %+v is not finite", number, head.Name, s)
				}
			}
			if math.IsNaN(head.Step) {
				t.Fatalf("window %d: the step of head %s is NaN", number, head.Name)
			}
		}
		if number%20 == 0 {
			// Overflowed sums do not prevent restoring.
			restored, _, err := pipelinetest.Restore(m, e.Config(), pipelinetest.SnapshotOf(t, e, nil))
			if err != nil {
				t.Fatalf("window %d: %v", number, err)
			}
			e = restored
		}
	}
}

// TestHub: a node that a million others name, and that is sent a thousand times in every
// window, does not change the predictions of other nodes.
func TestHub(t *testing.T) {
	edges := 1_000_000
	if testing.Short() {
		edges = 50_000
	}
	m := pipelinetest.SmallModel(t)
	h := town{m}
	calm := pipelinetest.NewEngine(t, m, pipeline.Config{})
	e := pipelinetest.NewEngine(t, m, smallBounds)
	hub := event.ID{Str: "hub"}
	const windows = 20
	next := int64(0)
	for number := range int64(windows) {
		want := calm.Step(h.window(number))
		w := h.window(number)
		for i := range 1000 {
			w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: hub, Dense: []float32{float32(number), float32(i)}, Neighbours: []event.ID{{Num: int64(i)}}})
		}
		for range edges / windows {
			w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: next}, Dense: []float32{1, 0}, Context: true, Neighbours: []event.ID{hub}})
			next++
		}
		out := e.Step(w)
		if diff := cmp.Diff(want.Predictions, out.Predictions[:len(want.Predictions)]); diff != "" {
			t.Fatalf("window %d: predictions differ beside a hub (-want +got)\n%s", number, diff)
		}
		if out.Figures.Int(event.EdgesAdded) < edges/windows {
			t.Fatalf("window %d: %d edges were added, want at least %d", number, out.Figures.Int(event.EdgesAdded), edges/windows)
		}
	}
}

// TestUnknownClasses: labels with a million distinct names of classes that the model does
// not have are refused one by one, and none of the names is kept.
func TestUnknownClasses(t *testing.T) {
	labels := 1_000_000
	if testing.Short() {
		labels = 50_000
	}
	m := pipelinetest.SmallModel(t)
	h := town{m}
	e := pipelinetest.NewEngine(t, m, smallBounds)
	const windows = 10
	refused, before := 0, live()
	for number := range int64(windows) {
		w := h.window(number)
		for i := range labels / windows {
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: h.id(0, 0), Class: fmt.Sprintf("class %d of %d", i, number), Index: -1})
		}
		for _, r := range e.Step(w).Refused {
			if r.Reason == event.UnknownClass {
				refused++
			}
		}
	}
	if refused != labels {
		t.Errorf("%d labels are refused, want all %d", refused, labels)
	}
	const most = 1 << 20 // for the honest nodes and the last outcome
	if grew := live() - before - labels/windows*int(unsafe.Sizeof(event.Refusal{})); grew > most {
		t.Errorf("the heap grew by %d KiB, want at most %d", grew>>10, most>>10)
	}
	runtime.KeepAlive(e)
}

// TestMemoryOfDistinct: of each kind of event, ten times as many distinct ones as a store has room for take no more memory than
// those that fill it. Nodes stay, and take memory in proportion to their number.
func TestMemoryOfDistinct(t *testing.T) {
	few := 20_000
	if testing.Short() {
		few = 5_000
	}
	const perWindow, known = 500, 50
	rng := rand.New(rand.NewPCG(5, 7))
	plain := pipelinetest.SmallModel(t)
	origin := func() *event.Origin { return &event.Origin{Value: make([]byte, 100)} }
	node := func(i int) event.Node {
		return event.Node{Origin: &event.Origin{}, ID: event.ID{Str: fmt.Sprintf("node %d", i)}, Dense: []float32{1, 0}}
	}
	for _, test := range []struct {
		what  string
		m     *model.Model
		cfg   pipeline.Config
		most  int // KiB, of ten times as many
		bytes int // for each event, of those that stay
		put   func(w *event.Window, i int)
	}{
		{"ids of nodes", plain, smallBounds, 1024, 1024, func(w *event.Window, i int) {
			w.Nodes = append(w.Nodes, node(known+i))
		}},
		{"ids of nodes that leave", plain, smallBounds, 1024, 0, func(w *event.Window, i int) {
			gone := event.Node{Origin: &event.Origin{}, ID: event.ID{Str: fmt.Sprintf("node %d", known+i)}, Departed: true}
			w.Nodes = append(w.Nodes, node(known+i), gone)
		}},
		{"unknown nodes that edges name", plain, smallBounds, 1024, 0, func(w *event.Window, i int) {
			n := node(i % known)
			n.Neighbours = []event.ID{{Str: fmt.Sprintf("unknown %d", i)}}
			w.Nodes = append(w.Nodes, n)
		}},
		{"unknown nodes of labels", plain, smallBounds, 1024, 0, func(w *event.Window, i int) {
			w.Labels = append(w.Labels, event.Label{Origin: origin(), Node: event.ID{Str: fmt.Sprintf("unknown %d", i)}, Class: "a"})
		}},
		{"unknown nodes of questions", plain, smallBounds, 1024, 0, func(w *event.Window, i int) {
			w.Nodes = append(w.Nodes, event.Node{Origin: origin(), ID: event.ID{Str: fmt.Sprintf("unknown %d", i)}, Featureless: true, Predict: true})
		}},
		{"classes", plain, smallBounds, 1024, 0, func(w *event.Window, i int) {
			w.Labels = append(w.Labels, event.Label{Origin: origin(), Node: node(i % known).ID, Class: fmt.Sprintf("class %d", i), Index: -1})
		}},
		{"commands", plain, smallBounds, 1024, 0, func(w *event.Window, i int) {
			w.Commands = append(w.Commands, event.Command{Origin: origin(), Name: event.Promote, Model: fmt.Sprintf("model %d", i)})
		}},
		{"names of attributes", pipelinetest.AccountModel(t, rng), smallBounds, 1024, 0, func(w *event.Window, i int) {
			n := node(i % known)
			n.Dense, n.Named = nil, []event.Attribute{{Name: fmt.Sprintf("name %d", i), Kind: event.Text, Text: "x"}}
			w.Nodes = append(w.Nodes, n)
		}},
		{"values of attributes, of partial updates", pipelinetest.AccountModel(t, rng), pipeline.Config{
			Reading: structure.Reading{Partial: true}, Bounds: pipeline.Bounds{Pending: 64, Labels: 256, Edges: 1024},
		}, 1024, 0, func(w *event.Window, i int) {
			n := node(i % known)
			n.Dense, n.Named = nil, []event.Attribute{
				{Name: "country", Kind: event.Text, Text: fmt.Sprintf("C%d", i)},
				{Name: "note", Kind: event.Text, Text: fmt.Sprint("word ", i)},
				{Name: fmt.Sprintf("name %d", i), Kind: event.Text, Text: "x"},
			}
			w.Nodes = append(w.Nodes, n)
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			e := pipelinetest.NewEngine(t, test.m, test.cfg)
			number, sent := int64(0), 0
			step := func(n int) int {
				for end := sent + n; sent < end; number++ {
					w := &event.Window{Number: number}
					if number == 0 && test.m == plain {
						for i := range known {
							w.Nodes = append(w.Nodes, node(i))
						}
					}
					for range perWindow {
						test.put(w, sent)
						sent++
					}
					e.Step(w)
				}
				e.Step(&event.Window{Number: number}) // forgets the outcome of the window before
				number++
				return live()
			}
			before := live()
			full := step(few)
			end := step(9 * few)
			t.Logf("%d KiB at %d events, %d KiB at %d", (full-before)>>10, few, (end-before)>>10, 10*few)
			if grew := end - full - 9*few*test.bytes; grew > test.most<<10 {
				t.Errorf("the heap grew by %d KiB until %d events and by %d KiB until %d, want at most %d KiB and %d bytes for each event more",
					(full-before)>>10, few, (end-before)>>10, 10*few, test.most, test.bytes)
			}
			runtime.KeepAlive(e)
		})
	}
}
