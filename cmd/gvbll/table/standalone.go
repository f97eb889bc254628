package table

import "github.com/gvbll/gvbll/gnn"

// standalone is a GNN trained once and then left alone: the paper's GNN
// baselines.
type standalone struct {
	unchanging
	head *linear
	z    [][]float32 // by step
}

func newStandalone(s *trainer, stream *replay, protocol string, kind gnn.Kind) (*standalone, error) {
	return newMember(s, stream, protocol, member{kind: kind})
}

func newMember(s *trainer, stream *replay, protocol string, m member) (*standalone, error) {
	c, err := s.classifier(m)
	if err != nil {
		return nil, err
	}
	return &standalone{head: c.head, z: stream.embeddings(c.encoder, protocol)}, nil
}

func (s *standalone) predict(t int, probs []float64) { s.head.predict(s.z[t], probs) }
