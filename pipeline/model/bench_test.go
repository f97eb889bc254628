package model_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline/model"
)

// BenchmarkPhase1Cora measures an epoch of Phase 1 as the program trains, on all 2,708
// nodes of Cora: encoder, ELBO with S = 10, Adam. GVBLL_CORA names the folder of the data
// set. Use GOMAXPROCS=1.
func BenchmarkPhase1Cora(b *testing.B) {
	path := os.Getenv("GVBLL_CORA")
	if path == "" {
		b.Skip("set GVBLL_CORA to the folder of the data set")
	}
	d, err := dataset.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	data := model.Data{Dim: d.Dim, Classes: d.Classes, X: d.Features, Labels: d.Labels}
	all := make([]int32, len(d.Labels))
	for v := range all {
		all[v] = int32(v)
	}
	data.Src, data.Dst = d.Subgraph(all)
	for _, embedding := range []int{16, 32} {
		b.Run(fmt.Sprintf("d_e=%d", embedding), func(b *testing.B) {
			if _, err := model.Train(b.Context(), data, model.Config{Embedding: embedding, Epochs: b.N}, nil); err != nil {
				b.Fatal(err)
			}
		})
	}
}
