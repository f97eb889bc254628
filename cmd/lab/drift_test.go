package main

import (
	"flag"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/sender"
)

var (
	driftSeeds = flag.Uint64("drift-seeds", 2, "number of streams of each kind in TestDriftIsFound")
	driftNodes = flag.Int("drift-nodes", 2000, "their nodes")
)

// TestDriftIsFound: in streams of the demo's generator without drift, nothing is found. In those
// with drift a change is found within 500 labels, in nearly all of them: strong drift begins with
// the first class that is born, after 8.5 % of the stream, the abrupt change comes half way. Of
// 2,000 nodes, an abrupt change has 287 labels behind it, too few.
//
//	go test ./cmd/lab -run TestDriftIsFound -v -drift-seeds 20 -drift-nodes 16000 -timeout 1h
func TestDriftIsFound(t *testing.T) {
	kinds := map[string]float64{"none": 0, "strong": .085, "abrupt": .5}
	if *driftNodes < 16000 {
		delete(kinds, "abrupt")
	}
	for kind, begins := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var missed []uint64
			for seed := uint64(1); seed <= *driftSeeds; seed++ {
				labels, found := driftIn(t, kind, *driftNodes, seed)
				begins := int(begins * float64(labels))
				t.Logf("seed %d: found after labels %v of %d", seed, found, labels)
				switch {
				case len(found) > 0 && (kind == "none" || found[0] < begins):
					t.Errorf("seed %d: a change is found after %v labels, before there is one", seed, found)
				case kind != "none" && (len(found) == 0 || found[0] > begins+500):
					missed = append(missed, seed)
				}
			}
			if len(missed) > int(*driftSeeds)/10 {
				t.Errorf("seeds %v of %d: the change is not found within 500 labels", missed, *driftSeeds)
			}
		})
	}
}

// driftIn steps a stream of the generator as the demo does, two steps' labels late, and returns its
// number of labels, and how many had come before the window in which each change was found.
func driftIn(t *testing.T, kind string, nodes int, seed uint64) (labels int, found []int) {
	graph, err := flags.Synthetic(kind, seed)
	if err != nil {
		t.Fatal(err)
	}
	graph.Nodes = nodes
	d, split, err := dataset.Drift(graph)
	if err != nil {
		t.Fatal(err)
	}
	set := &flags.DataSet{Dataset: d, Split: split, Seed: seed}
	cfg := model.Config{Pool: true, Seed: seed}
	if nodes < 16000 {
		cfg.Epochs = 30
	}
	m, err := holdout.Train(t.Context(), set.Training(), cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.New(m, pipeline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	step := func(items []sender.Item, labelled bool) {
		w := event.Window{Number: e.Next()}
		for _, i := range items {
			i.Node.Origin = &event.Origin{}
			if labelled {
				w.Labels = append(w.Labels, event.Label{Origin: i.Node.Origin, Node: i.Node.ID, Class: i.Class})
			} else {
				w.Nodes = append(w.Nodes, i.Node)
			}
		}
		out := e.Step(&w)
		for _, d := range out.Drift.Detectors {
			if d.Changes > 0 {
				found = append(found, labels)
			}
		}
		labels += len(out.Labelled)
	}
	stream := set.Stream()
	step(stream.Context, false)
	step(stream.Context, true)
	for i, late := 0, 2; i < len(stream.Steps)+late; i++ {
		if i < len(stream.Steps) {
			step(stream.Steps[i], false)
		}
		if i >= late {
			step(stream.Steps[i-late], true)
		}
	}
	return labels, found
}
