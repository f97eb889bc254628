package gnn_test

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
)

// A node is added and embedded. A neighbour that arrives later changes its embedding.
func ExampleGraph() {
	enc, err := gnn.NewSAGE(2, gnn.ReLU, gnn.SAGELayer{
		Neigh: []float32{10, 0, 0, 10},
		Bias:  []float32{0, 1},
		Self:  []float32{1, 0, 0, 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := gnn.NewGraph(enc)
	z := make([]float32, enc.Out())

	v := g.Add([]gnn.Vector{{Dense: []float32{3, 4}}})
	g.Embed([]int32{v}, z)
	fmt.Println("alone:", z)

	u := g.Add([]gnn.Vector{{Index: []uint32{1}, Value: []float32{2}}})
	g.LinkAll(u, []int32{v})
	g.Embed([]int32{v}, z)
	fmt.Println("with a neighbour:", z)
	// Output:
	// alone: [3 5]
	// with a neighbour: [3 25]
}
