package table

import "github.com/gvbll/gvbll/gnn"

// standalone is a GNN that is trained once and never updated: the paper's GNN
// baselines.
type standalone struct {
	unchanging
	head *linear
	z    [][]float32 // embeddings, by step
}

// newStandalone returns the baseline of an encoder.
func newStandalone(tr *trainer, stream *replay, protocol string, kind gnn.Kind) (*standalone, error) {
	return newMember(tr, stream, protocol, member{kind: kind})
}

// newMember returns a member of an ensemble.
func newMember(tr *trainer, stream *replay, protocol string, m member) (*standalone, error) {
	c, err := tr.classifier(m)
	if err != nil {
		return nil, err
	}
	return &standalone{head: c.head, z: stream.embeddings(c.encoder, protocol)}, nil
}

func (s *standalone) predict(t int, probs []float64) { s.head.predict(s.z[t], probs) }
