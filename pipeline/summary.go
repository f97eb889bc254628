package pipeline

import "github.com/gvbll/gvbll/posterior/calibration"

// Summary is the prequential scores of one head: of what it predicted when a node
// was served, before the node's label came.
type Summary struct {
	Head string
	calibration.Prequential
}

// setState reads back what AppendState appended.
func (s *Summary) setState(counts []int64, sums []float64) error {
	if err := s.SetState(counts, sums); err != nil {
		return damaged("head %s: %v", s.Head, err)
	}
	return nil
}
