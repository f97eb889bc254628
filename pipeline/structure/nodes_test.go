package structure_test

import (
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestSurroundings: with a label, the outcome has the class that was served, and the number
// of neighbours that arrived before the node, with and without context nodes. Later
// neighbours do not count.
func TestSurroundings(t *testing.T) {
	e := pipelinetest.NewEngine(t, pipelinetest.SmallModel(t), pipeline.Config{})
	var offset int64
	for i, text := range []string{
		"node 1 x=1,0 context\nnode 2 x=0,1",
		"node 3 x=0,5 nbr=1,2,9",
		"node 9 x=1,0\nnode 4 x=0,1 nbr=3",
		"label 3 blue\nlabel 4 red\nlabel 9 red",
	} {
		w := pipelinetest.ParseWindow(t, text, &offset)
		w.Number = int64(i)
		out := e.Step(w)
		if i < 3 {
			continue
		}
		for j, want := range []event.Labelled{
			{Predicted: "blue", Degree: 2, Fresh: 1}, {Predicted: "blue", Degree: 1, Fresh: 1}, {Degree: 1, Fresh: 1},
		} {
			got := out.Labelled[j]
			if want.Predicted == "" {
				want.Predicted = got.Predicted
			}
			if got.Predicted != want.Predicted || got.Degree != want.Degree || got.Fresh != want.Fresh {
				t.Errorf("label %d: %+v, want %+v", j, got, want)
			}
		}
	}
}
