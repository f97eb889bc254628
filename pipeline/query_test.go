package pipeline_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestQueriesChangeNothing: two engines step the same windows, and one of them is queried
// in all ways between them, also while a snapshot is read. Both serve and learn the same
// bits, and so does the engine restored from the snapshot. A worker may answer queries at
// any time because of this.
func TestQueriesChangeNothing(t *testing.T) {
	for _, kind := range pipelinetest.Kinds {
		for _, depth := range []int{1, 2, 3} {
			for _, half := range []bool{false, true} {
				t.Run(fmt.Sprint(kind, depth, half), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(1, uint64(depth)))
					m := pipelinetest.ModelOf(t, rng, kind, depth)
					cfg := pipeline.Config{BFloat16: half, Bounds: pipeline.Bounds{Pending: 20}}
					queried, plain := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, cfg)
					l := pipelinetest.NewRandomStream(rng, m)
					var snapshot *pipeline.Snapshot
					var since []*event.Window
					var file []byte
					for number := range 40 {
						if number == 20 {
							snapshot = queried.Snapshot(nil)
						}
						queryAll(queried, l, rng)
						w := l.Window()
						a, b := queried.Step(w), plain.Step(w)
						if diff := cmp.Diff(b, a); diff != "" {
							t.Fatalf("window %d (-want +got)\n%s", number, diff)
						}
						if snapshot != nil {
							since = append(since, w)
							piece := make([]byte, snapshot.Len()/20+1)
							n, _ := snapshot.Read(piece)
							file = append(file, piece[:n]...)
						}
					}
					snapshot.Close()
					restored, _, err := pipelinetest.Restore(m, cfg, file)
					if err != nil {
						t.Fatal(err)
					}
					for _, w := range since {
						restored.Step(w)
					}
					if restored.Chain() != plain.Chain() {
						t.Fatal("the engine restored from a snapshot that was read between queries differs")
					}
				})
			}
		}
	}
}

// queryAll makes every kind of query, about random nodes.
func queryAll(e *pipelinetest.Engine, l *pipelinetest.RandomStream, rng *rand.Rand) {
	for range 5 {
		e.Node(l.ID())
		x := make([]float32, l.M.Encoder.In())
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		e.Suppose(&event.Node{ID: l.ID(), Dense: x, Neighbours: []event.ID{l.ID(), l.ID(), l.ID()}})
	}
	e.PosteriorReport()
}

// TestSupposePredictsWhatIsServed: Suppose predicts what is served when the node arrives in
// a window of its own, including edges that wait for it.
func TestSupposePredictsWhatIsServed(t *testing.T) {
	for _, kind := range pipelinetest.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			m := pipelinetest.ModelOf(t, rng, kind, 2)
			e := pipelinetest.NewEngine(t, m, pipeline.Config{})
			l := pipelinetest.NewRandomStream(rng, m)
			compared := 0
			for range 60 {
				w := l.Window()
				w.Labels = nil
				if len(w.Nodes) > 1 {
					w.Nodes = w.Nodes[:1]
				}
				if len(w.Nodes) == 1 && (w.Nodes[0].Departed || w.Nodes[0].OnlyEdges()) {
					e.Step(w)
					continue
				}
				for i := range w.Nodes {
					w.Nodes[i].Context = false
				}
				var want *pipeline.Supposed
				if len(w.Nodes) == 1 {
					s, known, reason, detail := e.Suppose(&w.Nodes[0])
					if reason != "" {
						t.Fatal(detail)
					}
					if !known {
						want = s
					}
				}
				out := e.Step(w)
				if want == nil {
					continue
				}
				compared++
				out.Predictions[0].Origin = nil // nothing has asked for the other
				if diff := cmp.Diff(out.Predictions[0], want.Prediction); diff != "" {
					t.Fatalf("prediction of Suppose (-served +supposed)\n%s", diff)
				}
				r, ok := e.Node(want.Node)
				if !ok || r.Degree != want.Degree || r.Served == nil {
					t.Fatalf("report %+v, want what was served and degree %d as supposed", r, want.Degree)
				}
				if diff := cmp.Diff(want.Heads, r.Served.Heads); diff != "" {
					t.Fatalf("heads in the report (-supposed +reported)\n%s", diff)
				}
				if !slices.Equal(r.Now.Probabilities, want.Probabilities) || r.Now.Total != want.Total || r.Now.Epistemic != want.Epistemic {
					t.Fatalf("current prediction %+v, want the one just served, %+v", r.Now.Prediction, want.Prediction)
				}
			}
			if compared < 10 {
				t.Fatalf("%d nodes were compared, want at least 10", compared)
			}
		})
	}
}

// TestSupposeRefuses: features of a wrong dimension are refused, a node of the graph is
// reported as known, and the ids "3" and 3 are different nodes.
func TestSupposeRefuses(t *testing.T) {
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 1)), gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{})
	if _, _, reason, detail := e.Suppose(&event.Node{Dense: make([]float32, 4)}); reason != event.WrongDimension || detail == "" {
		t.Errorf("4 features where 5 are needed: reason %q, detail %q, want %s with a detail", reason, detail, event.WrongDimension)
	}
	e.Step(&event.Window{Nodes: []event.Node{{ID: event.ID{Num: 3}, Dense: make([]float32, 5)}}})
	if _, known, _, _ := e.Suppose(&event.Node{ID: event.ID{Num: 3}, Dense: make([]float32, 5)}); !known {
		t.Error("a node of the graph is reported as unknown")
	}
	if _, known := e.Node(event.ID{Str: "3"}); known {
		t.Error(`the node 3 was found by the id "3"`)
	}
}

// TestInfluences: the gain of a neighbour is the difference to an engine that never had the
// edge. Neighbours are in the order of their gains' sizes, with their labels.
func TestInfluences(t *testing.T) {
	for _, kind := range pipelinetest.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(8, 9))
			m := pipelinetest.ModelOf(t, rng, kind, 2)
			node := func(id int, near ...int) event.Node {
				n := event.Node{ID: event.ID{Num: int64(id)}, Dense: make([]float32, 5)}
				if id%2 == 1 { // both kinds of ids
					n.ID = event.ID{Str: fmt.Sprint("n", id)}
				}
				for i := range n.Dense {
					n.Dense[i] = float32(rng.NormFloat64())
				}
				for _, u := range near {
					n.Neighbours = append(n.Neighbours, event.ID{Num: int64(u)})
				}
				return n
			}
			nodes := []event.Node{node(0), node(2, 0), node(4, 2), node(1, 0, 2), node(6, 4, 0, 2)}
			nodes[2].Context = true // so that its label is known but not learned
			e := pipelinetest.NewEngine(t, m, pipeline.Config{})
			e.Step(&event.Window{Nodes: nodes})
			e.Step(&event.Window{Number: 1, Labels: []event.Label{{Node: event.ID{Num: 4}, Class: m.Classes[1]}}})
			r, ok := e.Node(event.ID{Num: 6})
			if !ok || len(r.Neighbours) != 3 || r.Degree != 3 {
				t.Fatalf("report %+v, want 3 neighbours", r)
			}
			for i, n := range r.Neighbours {
				if i > 0 && math.Abs(n.Gain) > math.Abs(r.Neighbours[i-1].Gain) {
					t.Errorf("gain %v of neighbour %d is larger than %v of the one before", n.Gain, i, r.Neighbours[i-1].Gain)
				}
				if want := map[int64]string{4: m.Classes[1]}[n.Node.Num]; n.Label != want {
					t.Errorf("neighbour %v has label %q, want %q", n.Node, n.Label, want)
				}
				fewer := slices.Clone(nodes)
				fewer[4].Neighbours = slices.DeleteFunc(slices.Clone(nodes[4].Neighbours), func(id event.ID) bool { return id == n.Node })
				other := pipelinetest.NewEngine(t, m, pipeline.Config{})
				other.Step(&event.Window{Nodes: fewer})
				o, _ := other.Node(event.ID{Num: 6})
				want := float64(r.Now.Confidence - o.Now.Probabilities[r.Now.ClassIndex])
				if math.Abs(n.Gain-want) > 1e-5 || n.Without != o.Now.Class {
					t.Errorf("neighbour %v has gain %v and without it class %q, want %v and %q", n.Node, n.Gain, n.Without, want, o.Now.Class)
				}
			}
		})
	}
}

// TestPosteriorReport: distance and KL from the prior are those of their formulas, version
// and hash those of the outcome, and the posterior in the report is a copy.
func TestPosteriorReport(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{})
	b := e.PosteriorReport()
	if b.Distance != 0 || math.Abs(b.KL) > 1e-12 || b.Version != 0 || len(b.Classes) != len(m.Classes) {
		t.Errorf("report before any label %+v, want no distance from the prior", b)
	}
	l := pipelinetest.NewRandomStream(rng, m)
	var out *event.Outcome
	for range 30 {
		out = e.Step(l.Window())
	}
	b = e.PosteriorReport()
	if b.Hash != out.Posterior || b.Version != out.Heads[0].Version || b.Version == 0 {
		t.Errorf("version %d and hash %x, want %d and %x", b.Version, b.Hash, out.Heads[0].Version, out.Posterior)
	}
	var square, kl float64
	for j := range m.Prior.Dim {
		for c := range m.Prior.Classes {
			i := j*m.Prior.Classes + c
			q, p := b.Posterior.Precision[i], m.Prior.Precision[i]
			d := b.Posterior.Mean[i] - m.Prior.Mean[i]
			square += d * d
			kl += .5 * (math.Log(q/p) + p/q + p*d*d - 1)
		}
	}
	if math.Abs(b.Distance-math.Sqrt(square)) > 1e-12 || math.Abs(b.KL-kl) > 1e-9 || b.KL <= 0 {
		t.Errorf("distance %v and KL %v, want %v and %v", b.Distance, b.KL, math.Sqrt(square), kl)
	}
	squares := 0.0
	for _, c := range b.Classes {
		squares += c.Distance * c.Distance
	}
	if math.Abs(squares-square) > 1e-9 {
		t.Errorf("the squared distances of the classes sum to %v, want %v", squares, square)
	}
	clear(b.Posterior.Mean)
	if e.PosteriorReport().Posterior.Mean[0] == 0 {
		t.Error("writing to the report changed the posterior of the engine")
	}
}
