package pipeline

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Summary is the prequential scores of one head: of what it predicted when a node
// was served, before the node's label came.
type Summary struct {
	Head string
	calibration.Prequential
}

// declareSummaries declares the scores of some heads as two tensors, of which each
// has a row for a head in the given shape.
func declareSummaries(s *snapshot.Schema, name string, list []*Summary, shape ...int) {
	var counts []int64
	var sums []float64
	for _, x := range list {
		counts, sums = x.AppendState(counts, sums)
	}
	const c, m = calibration.StateCounts, calibration.StateSums
	snapshot.Slice(s, name+".counts", &counts, append(shape[:len(shape):len(shape)], c)...)
	snapshot.Slice(s, name+".sums", &sums, append(shape[:len(shape):len(shape)], m)...)
	s.Check(func() error {
		for i, x := range list {
			if err := x.SetState(counts[i*c:][:c], sums[i*m:][:m]); err != nil {
				return snapshot.Damaged("head %s: %v", x.Head, err)
			}
		}
		return nil
	})
}
