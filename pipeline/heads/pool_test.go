package heads_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// oracle serves and learns with a pool as the engine should. It computes everything from
// its own copy of the graph.
type oracle struct {
	next   int32 // of the sweep over labelled nodes
	m      *model.Model
	pool   *pool.Pool
	x      []gnn.Vector
	near   [][]int32
	y      []int32
	served map[int32]servedRow
}

// servedRow is what is kept of a served node until its label comes.
type servedRow struct {
	logProbs, labelled, second []float32
	z                          []float32
	probs                      []float64 // the pool's
}

func (o *oracle) Len() int                   { return len(o.near) }
func (o *oracle) Degree(v int32) int         { return len(o.near[v]) }
func (o *oracle) Neighbours(v int32) []int32 { return o.near[v] }

func (o *oracle) EachWeighed(int32, func(u int32, mean uint8, weight float32)) {}

// around computes the features and labels of all nodes' neighbourhoods from scratch.
func (o *oracle) around() *neighbourhood.Features {
	s := neighbourhood.New(o, *o.m.Pool, o.m.Shape(), nil)
	for v, x := range o.x {
		s.SetFeatures(int32(v), x)
	}
	for v, y := range o.y {
		if y != neighbourhood.None {
			s.SetLabel(int32(v), y)
		} else if r, is := o.served[int32(v)]; is {
			s.SetServed(int32(v), s.Reader.AppendPart(nil, r.probs))
		}
	}
	return s
}

// embed encodes the whole graph, and returns the rows of some nodes.
func (o *oracle) embed(nodes []int32) posterior.Rows {
	var src, dst []int32
	for v, list := range o.near {
		for _, u := range list {
			src, dst = append(src, u), append(dst, int32(v))
		}
	}
	all, d := o.m.Encoder.Encode(o.x, src, dst), o.m.Prior.Dim
	var rows posterior.Rows
	for _, v := range nodes {
		z := all[int(v)*d : int(v+1)*d]
		rows.Z, rows.Tau = append(rows.Z, z...), append(rows.Tau, o.m.Temperature.At(z))
	}
	return rows
}

// serve returns the probabilities of nodes, each predicted by itself.
func (o *oracle) serve(nodes []int32) (p [][]float64) {
	s := o.around()
	for _, v := range nodes {
		var rows pool.Rows
		s.Reader.Reset(&rows)
		s.Reader.Append(&rows, v)
		rows.Embedded = o.embed([]int32{v})
		logProbs := make([]float32, o.pool.LogProbsPerRow())
		o.pool.Predict(rows, logProbs)
		var row []float64
		for _, x := range logProbs[:len(o.m.Classes)] {
			row = append(row, math.Exp(float64(x)))
		}
		o.served[v] = servedRow{logProbs, rows.Labelled, rows.Second, rows.Embedded.Z, row}
		p = append(p, row)
	}
	return p
}

// join returns the batch that is learned from labels of served nodes that have just come.
// Labels of context nodes must be in y before.
func (o *oracle) join(nodes, labels []int32) pool.Batch {
	var b pool.Batch
	for i, v := range nodes {
		o.y[v] = labels[i]
	}
	s := o.around()
	s.Reader.Reset(&b.Rows)
	for _, v := range nodes {
		s.Reader.AppendFeatures(&b.Rows, v)
		r := o.served[v]
		b.LogProbs, b.Labelled, b.Second = append(b.LogProbs, r.logProbs...), append(b.Labelled, r.labelled...), append(b.Second, r.second...)
		b.Embedded.Z, b.Embedded.Tau = append(b.Embedded.Z, r.z...), append(b.Embedded.Tau, o.m.Temperature.At(r.z))
	}
	b.Labels, b.Nodes = labels, nodes
	s.FillBatch(&b, nodes)
	o.sweep(s, &b, nodes)
	return b
}

// sweep fills in what a batch of nodes replays: for each of them the next labelled nodes by number, if
// there are some among the next sixteen, and none twice.
func (o *oracle) sweep(s *neighbourhood.Features, b *pool.Batch, nodes []int32) {
	s.Reader.Reset(&b.Replay)
	b.ReplayLabels, b.ReplayNodes = b.ReplayLabels[:0], b.ReplayNodes[:0]
	left := len(o.y)
	for range len(nodes) * o.pool.Config().Replays() {
		for range min(16, left) {
			v := o.next % int32(len(o.y))
			o.next, left = v+1, left-1
			if o.y[v] != neighbourhood.None && !slices.Contains(nodes, v) {
				s.Reader.Append(&b.Replay, v)
				b.ReplayLabels, b.ReplayNodes = append(b.ReplayLabels, o.y[v]), append(b.ReplayNodes, v)
				break
			}
		}
	}
}

// TestEngineServesThePool compares the engine with package pool, given rows computed from
// the whole graph. Nodes name earlier nodes, some are context nodes with labels, and labels
// come at once, later or never. With a lag, what a window was joined to is learned so many
// windows later, as it was then.
func TestEngineServesThePool(t *testing.T) {
	for i := range 6 {
		sparse, lag := i%2 == 0, []int{0, 1, 4}[i/2]
		rng := rand.New(rand.NewPCG(7, 7))
		m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
		pipelinetest.AddPool(t, m, sparse)
		p, err := m.NewPool()
		if err != nil {
			t.Fatal(err)
		}
		o := &oracle{m: m, pool: p, served: map[int32]servedRow{}}
		e := pipelinetest.NewEngine(t, m, pipeline.Config{LearnLag: lag})
		var waiting []int32
		var batches []pool.Batch
		for number := range int64(40) {
			w := &event.Window{Number: number}
			var arrived []int32
			first := int32(len(o.x))
			for range 1 + rng.IntN(5) {
				v := int32(len(o.x))
				x := make([]float32, m.Encoder.In())
				for j := range x {
					if !sparse || rng.IntN(3) == 0 {
						x[j] = float32(rng.NormFloat64())
					}
				}
				n := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: int64(v)}, Dense: x, Context: rng.IntN(4) == 0}
				o.x, o.near, o.y = append(o.x, gnn.Vector{Dense: x}), append(o.near, nil), append(o.y, neighbourhood.None)
				for u := range v {
					if rng.IntN(4) == 0 {
						n.Neighbours = append(n.Neighbours, event.ID{Num: int64(u)})
						o.near[v], o.near[u] = append(o.near[v], u), append(o.near[u], v)
					}
				}
				w.Nodes = append(w.Nodes, n)
				if !n.Context {
					arrived = append(arrived, v)
				}
			}
			var nodes, labels []int32
			tell := func(v, y int32) {
				w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: event.ID{Num: int64(v)}, Index: y})
			}
			waiting = append(waiting, arrived...)
			for len(waiting) > 0 && rng.IntN(4) > 0 {
				v, y := waiting[0], rng.Int32N(3)
				waiting = waiting[1:]
				if rng.IntN(5) > 0 {
					nodes, labels = append(nodes, v), append(labels, y)
					tell(v, y)
				}
			}
			known := map[int32]int32{}
			for i := range w.Nodes {
				if v := first + int32(i); w.Nodes[i].Context && rng.IntN(2) == 0 {
					known[v] = rng.Int32N(3)
					tell(v, known[v])
				}
			}
			got := e.Step(w)
			if last := int(number) - 1 - lag; last >= 0 {
				o.pool.Learn(batches[last]) // nothing, if it has no labels
			}
			for i, want := range o.serve(arrived) {
				for c, q := range got.Predictions[i].Probabilities {
					if math.Abs(float64(q)-want[c]) > 1e-4 {
						t.Fatalf("sparse %t, lag %d, window %d, node %d, class %d: probability %v, want %v", sparse, lag, number, arrived[i], c, q, want[c])
					}
				}
				u := got.Predictions[i]
				if u.Total < 0 || u.Epistemic < 0 || u.Aleatoric < 0 || math.Abs(float64(u.Total-u.Epistemic-u.Aleatoric)) > 1e-6 {
					t.Fatalf("prediction %+v, want a total uncertainty that is the sum of its parts", u)
				}
			}
			for v, y := range known {
				o.y[v] = y
			}
			batches = append(batches, o.join(nodes, labels))
			if lag > 0 && got.Heads[0].Version != o.pool.Version() {
				t.Fatalf("lag %d, window %d: %d batches learned, want %d", lag, number, got.Heads[0].Version, o.pool.Version())
			}
		}
		if s := e.Summaries()[0]; s.Head != "pool" || s.Total().Labels == 0 {
			t.Errorf("first summary %+v, want the pool's, with labels", s)
		}
		if v := e.Pooled(); len(v.Heads) != len(v.Weights) || len(v.Compatibility) != 9 || v.Weights[1] == o.pool.Config().Weights.Total {
			t.Errorf("pool report %+v, want a weight that was learned for each head, and 9 compatibilities", v)
		}
	}
}

// TestPaperServes: the paper's head serves if the model has no pool or the settings ask for
// that head, with the same bits. The error for a missing pool says what to do.
func TestPaperServes(t *testing.T) {
	m := pipelinetest.ModelOf(t, rand.New(rand.NewPCG(1, 1)), gnn.KindSAGE, 2)
	plain := pipelinetest.NewEngine(t, m, pipeline.Config{})
	if _, err := pipeline.New(m, pipeline.Config{Head: pipeline.HeadPool}); err == nil || !strings.Contains(err.Error(), "--head paper") {
		t.Errorf("a pool that the model does not have: got %v, want an error with --head paper", err)
	}
	if _, err := pipeline.New(m, pipeline.Config{Head: "best"}); err == nil || !strings.Contains(err.Error(), `"pool" or "paper"`) {
		t.Errorf("an unknown head: got %v, want an error with the known ones", err)
	}
	pipelinetest.AddPool(t, m, true)
	paper, pooled := pipelinetest.NewEngine(t, m, pipeline.Config{Head: pipeline.HeadPaper}), pipelinetest.NewEngine(t, m, pipeline.Config{})
	if plain.Settings() != pooled.Settings() || !strings.Contains(paper.Settings(), `"head":"paper"`) {
		t.Errorf("settings without a pool %s\nwith one %s\nwith one that must not serve %s", plain.Settings(), pooled.Settings(), paper.Settings())
	}
	l := pipelinetest.NewRandomStream(rand.New(rand.NewPCG(2, 2)), m)
	for range 20 {
		w := l.Window()
		if a, b := plain.Step(w), paper.Step(w); a.Chain != b.Chain {
			t.Fatalf("window %d: chain %x with a pool that does not serve, want %x", w.Number, b.Chain, a.Chain)
		}
	}
	if paper.Pooled() != nil {
		t.Error("Pooled is not nil though the paper's head serves")
	}
}

// TestQueriesOfThePool: with a pool too, Suppose predicts what is then served, and queries
// change nothing.
func TestQueriesOfThePool(t *testing.T) {
	for _, sparse := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(3, 8))
		m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
		pipelinetest.AddPool(t, m, sparse)
		queried, other := pipelinetest.NewEngine(t, m, pipeline.Config{}), pipelinetest.NewEngine(t, m, pipeline.Config{})
		l := pipelinetest.NewRandomStream(rng, m)
		for range 30 {
			w := l.Window()
			if got, want := queried.Step(w), other.Step(w); got.Chain != want.Chain {
				t.Fatalf("window %d: queries changed the bits", w.Number)
			}
			n := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: 1<<50 + w.Number}, Dense: make([]float32, m.Encoder.In())}
			for j := range n.Dense {
				n.Dense[j] = float32(rng.NormFloat64())
			}
			for range 6 {
				n.Neighbours = append(n.Neighbours, l.ID())
			}
			supposed, known, reason, _ := queried.Suppose(&n)
			if known || reason != "" {
				t.Fatalf("node %v: known %v, reason %q, want a new node that is not refused", n.ID, known, reason)
			}
			one := &event.Window{Number: l.Number, Nodes: []event.Node{n}}
			l.Number++
			served := queried.Step(one).Predictions[0]
			other.Step(one)
			for c, p := range supposed.Probabilities {
				if math.Abs(float64(p-served.Probabilities[c])) > 1e-6 {
					t.Fatalf("sparse %t, class %d: Suppose gave %v, served is %v", sparse, c, p, served.Probabilities[c])
				}
			}
			r, _ := queried.Node(n.ID)
			if math.Abs(float64(r.Now.Confidence-served.Confidence)) > 1e-6 || r.Served == nil || r.Served.Confidence != served.Confidence || r.Now.Heads[0].Head != "pool" {
				t.Fatalf("current prediction %+v, want the one just served, %+v", r.Now, served)
			}
			if len(r.Neighbours) != r.Degree {
				t.Fatalf("influences of %d neighbours, want %d", len(r.Neighbours), r.Degree)
			}
		}
	}
}
