package dataset_test

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/dataset"
)

func ExampleOpen() {
	d, err := dataset.Open("testdata/web") // nodes.csv and edges.csv
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Name, d.IDs.Texts, d.Classes, d.Labels, d.Time)
	fmt.Println(d.Dim, "features, of node 0:", d.Features[0].Index, d.Features[0].Value)
	fmt.Println(d.Edges)
	// Output:
	// web [home ada, about news] [page person] [0 1 0] [2016 2017 2019]
	// 8 features, of node 0: [0 7] [1 2.5]
	// [[0 2] [1 0]]
}

func ExampleDrift() {
	c, err := dataset.DriftPreset("strong")
	if err != nil {
		panic(err)
	}
	c.Nodes, c.Classes, c.Steps = 2000, 8, 20
	d, s, err := dataset.Drift(c)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(d.Features), "nodes,", len(d.Classes), "classes,", len(s.Train), "train,", len(s.Steps), "steps")
	// Output: 2000 nodes, 8 classes, 1074 train, 20 steps
}
