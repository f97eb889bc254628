package pipeline_test

import (
	"context"
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// A model is trained on six nodes. Then three nodes arrive, and the label of one comes in
// the next window.
func Example() {
	warm, cold := gnn.Vector{Dense: []float32{1, 0}}, gnn.Vector{Dense: []float32{0, 1}}
	m, err := model.Train(context.Background(), model.Data{
		Name: "example", Dim: 2, Classes: []string{"warm", "cold"},
		X: []gnn.Vector{warm, cold, warm, cold, warm, cold}, Labels: []int32{0, 1, 0, 1, 0, 1},
		Src: []int32{0, 2, 1, 3}, Dst: []int32{2, 0, 3, 1},
	}, model.Config{Hidden: []int{8}, Embedding: 4, Epochs: 200, Dropout: -1, Normalization: gnn.NormalizeNone}, nil)
	if err != nil {
		panic(err)
	}
	engine, err := pipeline.New(m, pipeline.Config{})
	if err != nil {
		panic(err)
	}
	a, b, c := event.ID{Str: "a"}, event.ID{Str: "b"}, event.ID{Str: "c"}
	for number, window := range []event.Window{
		{Nodes: []event.Node{
			{ID: a, Dense: []float32{.9, .1}},
			{ID: b, Dense: []float32{.1, .8}},
			{ID: c, Dense: []float32{0, 1}, Neighbours: []event.ID{b}},
		}},
		{Labels: []event.Label{{Node: a, Class: "warm"}}},
	} {
		window.Number = int64(number)
		outcome := engine.Step(&window)
		for _, p := range outcome.Predictions {
			fmt.Println("node", p.Node, "is", p.Class)
		}
		for _, l := range outcome.Labelled {
			fmt.Println("learned from", l.Node, "served in window", l.Served)
		}
	}
	// Output:
	// node a is warm
	// node b is cold
	// node c is cold
	// learned from a served in window 0
}
