package serve

import (
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Summary is the prequential scores of one head, over all labels so far: of its
// predictions as served, before it learned from their labels.
type Summary struct {
	Head string
	calibration.Prequential
}

// Tally adds up the scores of a head in one window.
func Tally(h *event.Head) (t calibration.Tally) {
	for i := range h.Scores {
		t.Add((*calibration.Score)(&h.Scores[i]))
	}
	return t
}

// Odds counts what was served for the watched class of a place in [event.Outcome.Watched], by the
// labels of a window.
func Odds(out *event.Outcome, place int) (o calibration.Odds) {
	for i := range out.Labelled {
		l := &out.Labelled[i]
		o.Add(float64(l.Watched[place]), l.Class == out.Watched[place], 1)
	}
	return o
}

// State declares the scores, with names that begin with the given one.
func (x *Summary) State(s *snapshot.Schema, name string) { declareSummaries(s, name, []*Summary{x}) }

// declareSummaries declares the scores of heads as two tensors, with a row for each head.
// shape is the shape of the list, empty for a list of one.
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
