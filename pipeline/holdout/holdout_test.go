package holdout

import (
	"math"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// generated returns a graph without drift, of which the given number of nodes train, and its
// training data. The others are the stream, in fifty steps.
func generated(t *testing.T, nodes, trained int) (*dataset.Dataset, dataset.Stream, model.Data) {
	t.Helper()
	c, err := dataset.DriftPreset("words-none")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.Classes, c.Steps, c.Train = nodes, 5, 50, (float64(trained)+.5)/float64(nodes)
	c.Warmup = c.Train
	d, cut, err := dataset.Drift(c)
	if err != nil {
		t.Fatal(err)
	}
	data := model.Data{Name: d.Name, Dim: d.Dim, Classes: d.Classes, Ordered: cut.Ordered}
	for _, v := range cut.Train {
		data.IDs, data.X, data.Labels = append(data.IDs, event.ID{Num: int64(v)}), append(data.X, d.Features[v]), append(data.Labels, d.Labels[v])
	}
	data.Src, data.Dst = d.Subgraph(cut.Train)
	return d, cut, data
}

// quick trains quickly.
var quick = model.Config{Pool: true, Seed: 1, Epochs: 20, Hidden: []int{16}, Samples: 2}

// TestSplit: of nodes in order of arrival the latest fifth is held out, in that order; of
// others a fifth of each class, in another order. Each node is on one side. Of few nodes each is held out once, but for what
// is left of a class.
func TestSplit(t *testing.T) {
	for _, nodes := range []int{100, 400} {
		_, _, d := generated(t, 2000, nodes)
		for _, ordered := range []bool{true, false} {
			d.Ordered = ordered
			list := split(d, 1)
			if want := map[int]int{100: 5, 400: 1}[nodes]; len(list) != want {
				t.Fatalf("%d nodes: held out %d times, want %d", nodes, len(list), want)
			}
			held, classes := make(map[int32]bool), make([]int, 5)
			for k, s := range list {
				all := slices.Concat(s.fit, s.held)
				slices.Sort(all)
				for v := range all {
					if len(all) != nodes || all[v] != int32(v) {
						t.Fatalf("ordered %v: %v are not the nodes once each", ordered, all)
					}
				}
				of := make([]int, 5)
				for _, v := range s.held {
					if held[v] {
						t.Errorf("ordered %v: node %d is held out twice", ordered, v)
					}
					held[v] = true
					of[d.Labels[v]]++
				}
				if !ordered && k > 0 && !slices.Equal(of, classes) {
					t.Errorf("%v of each class in fold %d, %v in the one before it", of, k, classes)
				}
				classes = of
			}
			last := list[len(list)-1].held
			if sorted := slices.IsSorted(last); sorted != ordered || ordered && (len(last) != nodes/5 || int(last[0]) != nodes*4/5) {
				t.Errorf("ordered %v: %v held out", ordered, last)
			}
			if len(list) == 5 && len(held) < nodes-4*5 {
				t.Errorf("ordered %v: %d of %d nodes held out", ordered, len(held), nodes)
			}
		}
	}
}

// TestStream: the nodes held out stream in batches, each with its features, its label and
// the neighbours that came before it; every edge is named once.
func TestStream(t *testing.T) {
	_, _, d := generated(t, 900, 301)
	d.Ordered = false
	fit, held := split(d, 1)[0].fit, split(d, 1)[0].held
	h := &part{}
	h.cut(d, fit, held)
	nodes, labels := slices.Clone(h.context.Nodes), slices.Clone(h.context.Labels)
	for _, w := range h.stream {
		if len(w.nodes) > fullBatch {
			t.Errorf("a batch of %d nodes, want at most %d", len(w.nodes), fullBatch)
		}
		nodes, labels = append(nodes, w.nodes...), append(labels, w.labels...)
	}
	order, edges := slices.Concat(fit, held), 0
	for i, n := range nodes {
		v := order[i]
		if n.ID.Num != int64(i) || &n.Index[0] != &d.X[v].Index[0] || labels[i].Node != n.ID || labels[i].Index != d.Labels[v] || n.Context != (i < len(fit)) {
			t.Fatalf("node %d of the stream is %+v with label %+v, want node %d of the data", i, n, labels[i], v)
		}
		edges += len(n.Neighbours)
		for _, u := range n.Neighbours {
			if u.Num >= n.ID.Num || !linked(d, order[u.Num], v) {
				t.Errorf("node %d names node %d", n.ID.Num, u.Num)
			}
		}
	}
	if len(nodes) != 301 || len(h.stream) < 10 || edges != len(d.Src)/2 {
		t.Errorf("%d nodes, %d batches held out, %d edges, want 301, 10 or more and %d", len(nodes), len(h.stream), edges, len(d.Src)/2)
	}
}

func linked(d model.Data, u, v int32) bool {
	for e := range d.Src {
		if d.Src[e] == u && d.Dst[e] == v {
			return true
		}
	}
	return false
}

// TestNothingOfTheHeld: the model that streams the nodes held out does not know their labels.
func TestNothingOfTheHeld(t *testing.T) {
	_, _, d := generated(t, 900, 400)
	first, err := New(t.Context(), d, quick, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Labels = slices.Clone(d.Labels)
	for v := 320; v < 400; v++ {
		d.Labels[v] = (d.Labels[v] + 1) % 5
	}
	second, err := New(t.Context(), d, quick, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := first.parts[0].model.ID, second.parts[0].model.ID; a != b || first.nodes != 80 {
		t.Errorf("models %s and %s, %d nodes held out: want one model and 80 nodes", a, b, first.nodes)
	}
}

// TestFewNodes: of few training nodes none is held out. The model is that of model.Train.
func TestFewNodes(t *testing.T) {
	_, _, d := generated(t, 600, 55)
	want, err := model.Train(t.Context(), d, quick, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Train(t.Context(), d, quick, nil, nil)
	if err != nil || got.ID != want.ID || got.Pool.Start != nil {
		t.Errorf("model %s with start %v: %v, want model %s", got.ID, got.Pool.Start, err, want.ID)
	}
}

// TestStartPays: with labels that come ten steps late, a pool that starts with what it
// learned from 300 nodes held out in turn is better by far than one of the defaults, and its file
// holds the start. Both trainings are reported, and equal data give equal models.
func TestStartPays(t *testing.T) {
	d, cut, data := generated(t, 2000, 300)
	epochs := make(map[string]int)
	m, err := Train(t.Context(), data, quick, func(what string, _ train.Progress) { epochs[what]++ }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if epochs[rehearsal] != 5*20 || epochs[Model] != 20 || len(epochs) != 2 {
		t.Errorf("epochs reported: %v, want 20 of each training", epochs)
	}
	if again, err := Train(t.Context(), data, quick, nil, nil); err != nil || again.ID != m.ID {
		t.Errorf("the same data give models %s and %s: %v", m.ID, again.ID, err)
	}
	path := t.TempDir() + "/m.safetensors"
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if back, err := model.Open(path); err != nil || back.ID != m.ID {
		t.Fatalf("the file comes back as %+v: %v", back, err)
	}
	without, err := model.Train(t.Context(), data, quick, nil)
	if err != nil {
		t.Fatal(err)
	}
	with, plain := late(t, m, d, cut), late(t, without, d, cut)
	t.Logf("log loss %.3f, from the defaults %.3f", with, plain)
	if with > plain-0.03 {
		t.Errorf("log loss %.3f with a start that was learned, %.3f from the defaults: want .03 less", with, plain)
	}
}

// late returns the mean log loss of a model over the stream, with labels ten steps late.
func late(t *testing.T, m *model.Model, d *dataset.Dataset, cut dataset.Stream) float64 {
	t.Helper()
	e, err := pipeline.New(m, pipeline.Config{Local: pipeline.Local{Unwatched: true}, Samples: 1})
	if err != nil {
		t.Fatal(err)
	}
	batches := append([][]int32{cut.Train}, cut.Steps...)
	neighbours := d.Arrivals(batches)
	var sum, n float64
	for b, batch := range batches {
		w := event.Window{Number: e.Next()}
		for _, v := range batch {
			x := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: int64(v)}, Index: d.Features[v].Index, Value: d.Features[v].Value, Context: b == 0}
			for _, u := range neighbours[v] {
				x.Neighbours = append(x.Neighbours, event.ID{Num: int64(u)})
			}
			w.Nodes = append(w.Nodes, x)
		}
		out := e.Step(&w)
		for i, p := range out.Predictions {
			sum -= math.Log(float64(p.Probabilities[d.Labels[batch[i]]]))
			n++
		}
		w = event.Window{Number: e.Next()}
		due := b - 10
		if b == 0 {
			due = 0
		}
		if due >= 0 && (b == 0 || due > 0) {
			for _, v := range batches[due] {
				w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: event.ID{Num: int64(v)}, Index: d.Labels[v]})
			}
		}
		e.Step(&w)
	}
	return sum / n
}
