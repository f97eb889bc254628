package structure_test

import (
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// graphStream is a stream of graphs to classify, of which the first trained the model.
type graphStream struct {
	d     *dataset.Dataset
	train int
	m     *model.Model
}

func newGraphStream(t *testing.T, graphs int, drift float64, kind gnn.Kind) *graphStream {
	t.Helper()
	d, err := dataset.Motifs(dataset.MotifsConfig{Graphs: graphs, Drift: drift, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &graphStream{d: d, train: graphs / 5}
	list := make([]int32, s.train)
	for i := range list {
		list[i] = int32(i)
	}
	data := model.Data{Name: d.Name, Dim: d.Dim, Classes: d.Classes, Labels: d.Labels[:s.train], Ordered: true, Graphs: d.Graphs.Part(list)}
	s.m, err = holdout.Train(t.Context(), data, model.Config{Encoder: kind, Hidden: []int{32}, Embedding: 16, Epochs: 20, Samples: 4, Dropout: -1, Pool: true, Seed: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *graphStream) event(i int) event.Node {
	x, ends := s.d.Graphs.At(int32(i))
	g := &event.Graph{Ends: ends}
	for _, v := range x {
		g.Nodes = append(g.Nodes, v.Dense)
	}
	return event.Node{Origin: &event.Origin{Offset: int64(i)}, ID: event.ID{Num: int64(i)}, Graph: g}
}

// window returns windows of 50 graphs, whose labels come so many windows later.
func (s *graphStream) window(number, delay int) *event.Window {
	const size = 50
	w := &event.Window{Number: int64(number)}
	for i := range size {
		if at := s.train + number*size + i; at < len(s.d.Labels) {
			w.Nodes = append(w.Nodes, s.event(at))
		}
		if at := s.train + (number-delay)*size + i; at >= s.train && at < len(s.d.Labels) {
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: event.ID{Num: int64(at)}, Index: s.d.Labels[at]})
		}
	}
	return w
}

// TestGraphs is the story of a stream of graphs that drift: each is predicted once, labels come
// ten windows late and find what was predicted although the graph has gone, what learns stays
// right while the model as trained does not, and an engine restored from a snapshot goes on with
// the same bits. What is kept is what waits.
func TestGraphs(t *testing.T) {
	s := newGraphStream(t, 10_000, 0.6, gnn.KindGIN)
	e := pipelinetest.NewEngine(t, s.m, pipeline.Config{})
	const windows, delay, restart = 170, 10, 80
	sums := make(map[string]float64)
	var restored *pipelinetest.Engine
	predicted, labels := 0, 0
	for number := range windows {
		out := e.Step(s.window(number, delay))
		predicted += len(out.Predictions)
		labels += len(out.Labelled)
		if len(out.Refused) > 0 {
			t.Fatalf("window %d: %s", number, out.Refused[0].Detail)
		}
		for _, h := range out.Heads {
			for _, score := range h.Scores {
				sums[h.Name] += score.LogLoss
			}
		}
		if nodes := out.Figures.Int(event.GraphNodes); nodes > 50 {
			t.Fatalf("window %d: %d nodes are in the graph, want those of the window alone", number, nodes)
		}
		if number == restart {
			snapshot := e.Snapshot(nil)
			b, err := io.ReadAll(snapshot)
			if err != nil {
				t.Fatal(err)
			}
			snapshot.Close()
			if restored, _, err = pipelinetest.Restore(s.m, pipeline.Config{}, b); err != nil {
				t.Fatal(err)
			}
			if len(b) > 2<<20 {
				t.Errorf("a snapshot of %d bytes after %d graphs, of which %d wait", len(b), predicted, delay*50)
			}
		}
		if number > restart {
			if again := restored.Step(s.window(number, delay)); again.Chain != out.Chain {
				t.Fatalf("window %d: after a restart the chain is another", number)
			}
		}
	}
	if predicted != 8000 || labels != 8000 {
		t.Errorf("%d predictions and %d labels, want 8,000 of each", predicted, labels)
	}
	served, static := sums["pool"]/8000, sums["static"]/8000
	if !(served < 0.9*static) {
		t.Errorf("log loss %.3f, that of the model as trained %.3f", served, static)
	}
}

// TestGraphsRefused: what does not fit the model is refused with a reason.
func TestGraphsRefused(t *testing.T) {
	s := newGraphStream(t, 200, 0, gnn.KindSAGE)
	e, err := pipeline.New(s.m, pipeline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	origin, good := &event.Origin{}, s.event(0)
	again := s.event(1)
	again.ID = good.ID
	out := e.Step(&event.Window{Nodes: []event.Node{
		good, again, // the last of a window counts
		{Origin: origin, ID: event.ID{Num: 900}, Dense: []float32{1}},
		{Origin: origin, ID: event.ID{Num: 901}, Graph: &event.Graph{Nodes: [][]float32{{1, 2}}}},
		{Origin: origin, ID: event.ID{Num: 902}, Edges: []event.Edge{{Source: event.ID{Num: 902}, Target: good.ID}}},
	}})
	var reasons []event.Reason
	for _, r := range out.Refused {
		reasons = append(reasons, r.Reason)
	}
	slices.Sort(reasons)
	if want := []event.Reason{event.BadFeatures, event.BadFeatures, event.WrongDimension}; !slices.Equal(reasons, want) || len(out.Predictions) != 1 {
		t.Errorf("%d predictions, refused for %v, want 1 and %v", len(out.Predictions), reasons, want)
	}
	// The same id again is another graph, and the prediction before it expires.
	out = e.Step(&event.Window{Number: 1, Nodes: []event.Node{good}})
	if len(out.Predictions) != 1 || out.Figures.Int(event.PredictionsExpired) != 1 {
		t.Errorf("%d predictions, %d expired, want 1 of each", len(out.Predictions), out.Figures.Int(event.PredictionsExpired))
	}
}

// TestReadout: the embedding of a graph is the mean and the scaled sum of its nodes' states, does
// not depend on the graphs beside it, and a model has it after it is saved and opened.
func TestReadout(t *testing.T) {
	s := newGraphStream(t, 200, 0, gnn.KindGCN)
	path := t.TempDir() + "/model.safetensors"
	if err := s.m.Save(path); err != nil {
		t.Fatal(err)
	}
	opened, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if opened.ID != s.m.ID {
		t.Errorf("model %s is %s after it was saved", s.m.ID, opened.ID)
	}
	all, r := opened.Readout.Encode(s.d.Graphs), opened.Readout
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		i := int32(rng.IntN(s.d.Graphs.Len()))
		g := s.d.Graphs.Part([]int32{i})
		z := r.Encode(g)
		if !slices.Equal(z, all[int(i)*r.Out():][:r.Out()]) {
			t.Fatalf("graph %d has another embedding by itself", i)
		}
		var x []gnn.Vector
		for _, v := range g.X {
			x = append(x, r.Normalizer.Apply(gnn.Vector{}, v))
		}
		h, width := r.Encoder.Encode(x, g.Src, g.Dst), r.Encoder.Out()
		for k := range width {
			sum := 0.0
			for v := range g.X {
				sum += float64(h[v*width+k])
			}
			if math.Abs(sum/float64(len(g.X))-float64(z[k])) > 1e-5 || math.Abs(sum/float64(r.Size)-float64(z[width+k])) > 1e-5 {
				t.Fatalf("graph %d, column %d: %v and %v of a sum of %v", i, k, z[k], z[width+k], sum)
			}
		}
	}
}

// BenchmarkReadout embeds 1,000 graphs of 30 nodes and 45 edges at once, and one after the other as
// an engine does.
func BenchmarkReadout(b *testing.B) {
	const graphs, nodes, edges = 1000, 30, 45
	d, err := dataset.Motifs(dataset.MotifsConfig{Graphs: graphs, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	m, err := model.Train(b.Context(), model.Data{Name: d.Name, Dim: d.Dim, Classes: d.Classes, Labels: d.Labels, Graphs: d.Graphs}, model.Config{Encoder: gnn.KindGIN, Epochs: 1, Seed: 1}, nil)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var x [graphs][]gnn.Vector
	var ends [graphs][]uint32
	all := gnn.NewGraphs(d.Dim)
	for i := range graphs {
		for range nodes {
			v := gnn.Vector{Dense: make([]float32, d.Dim)}
			for j := range v.Dense {
				v.Dense[j] = rng.Float32()
			}
			x[i] = append(x[i], v)
		}
		for range 2 * edges {
			ends[i] = append(ends[i], uint32(rng.IntN(nodes)))
		}
		all.Add(x[i], ends[i])
	}
	measure := func(name string, encode func()) {
		b.Run(name, func(b *testing.B) {
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				encode()
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			b.ReportMetric(float64(after.Utime.Nano()-before.Utime.Nano())/1e6/float64(b.N), "cpu-ms/op")
		})
	}
	measure("together", func() { m.Readout.Encode(all) })
	measure("each", func() {
		for i := range graphs {
			g := gnn.NewGraphs(d.Dim)
			g.Add(x[i], ends[i])
			m.Readout.Encode(g)
		}
	})
}
