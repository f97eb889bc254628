package serve_test

import (
	"path/filepath"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestTrainingNodesAreNotScored: a node that the model was trained on is predicted if it
// arrives as any other, but its label is neither scored nor learned; its neighbours see it.
// The id 7 and the id "7" are two nodes. A departed node's label is treated alike.
func TestTrainingNodesAreNotScored(t *testing.T) {
	m := pipelinetest.TrainedOn(t, []event.ID{{Num: 7}, {Str: "x"}, {Num: 8}, {Num: 9}})
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	e := pipelinetest.NewEngine(t, again, pipeline.Config{})
	arrivals, labels := &event.Window{}, &event.Window{Number: 1}
	for i, id := range []event.ID{{Num: 7}, {Str: "7"}, {Str: "x"}, {Num: 1}} {
		o := &event.Origin{Offset: int64(i)}
		arrivals.Nodes = append(arrivals.Nodes, event.Node{Origin: o, ID: id, Dense: pipelinetest.OneOf(i), Neighbours: []event.ID{{Num: 7}}})
		labels.Labels = append(labels.Labels, event.Label{Origin: o, Node: id, Index: int32(i % 2)})
	}
	labels.Nodes = []event.Node{{ID: event.ID{Str: "x"}, Departed: true}}
	if out := e.Step(arrivals); len(out.Predictions) != 4 {
		t.Fatalf("%d predictions, want 4: a training node that arrives is predicted", len(out.Predictions))
	}
	out := e.Step(labels)
	if len(out.Labelled) != 2 || out.Labelled[0].Node.Str != "7" || out.Labelled[1].Node.Num != 1 {
		t.Errorf("labels joined: %v, want those of \"7\" and 1", out.Labelled)
	}
	if out.Figures.Int(event.LabelsOfTraining) != 2 || len(out.Refused) != 0 || out.Figures.Int(event.Pending) != 0 {
		t.Errorf("%d labels of training nodes, %d refused and %d predictions pending, want 2, 0 and 0", out.Figures.Int(event.LabelsOfTraining), len(out.Refused), out.Figures.Int(event.Pending))
	}
	if out.Labelled[1].Degree != 1 {
		t.Errorf("node 1 had %d neighbours, want 1", out.Labelled[1].Degree)
	}
}
