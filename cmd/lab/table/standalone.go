package table

// standalone is a GNN that is trained once and never updated: the paper's GNN
// baselines. Its last layer's outputs are the logits of the classes.
type standalone struct {
	unchanging
	classes int
	logits  [][]float32 // by step
}

// newStandalone returns a classifier: the baseline of an encoder, or a member of an
// ensemble.
func newStandalone(tr *trainer, stream *replay, protocol string, m member) (*standalone, error) {
	c, err := tr.classifier(m)
	if err != nil {
		return nil, err
	}
	return &standalone{classes: c.Out(), logits: stream.embeddings(c, protocol)}, nil
}

func (s *standalone) predict(t int, probs []float64) { probabilities(s.logits[t], s.classes, 1, probs) }
