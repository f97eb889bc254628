package table

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/posterior/gp"
)

// process is a Gaussian-process classifier on the embeddings of the
// deterministic GNN of its kind, in the manner of deep kernel learning (Wilson
// et al. 2016) with the network trained first. It is fitted to the training
// nodes' embeddings in their own subgraph.
type process struct {
	unchanging
	classifier *gp.Classifier
	z          [][]float32 // by step
}

func newProcess(s *trainer, stream *replay, protocol string, kind gnn.Kind) (*process, error) {
	c, err := s.classifier(member{kind: kind})
	if err != nil {
		return nil, err
	}
	type key struct{ kind gnn.Kind }
	fitted, err := recall(&s.memo, key{kind}, func() (*gp.Classifier, error) {
		z := c.encoder.Encode(s.seen.X, s.seen.Src, s.seen.Dst)
		return gp.Fit(s.ctx, z, c.encoder.Out(), len(s.data.Classes), s.data.Labels, processConfig(s.settings.GP, len(s.nodes), s.seed), nil)
	})
	if err != nil {
		return nil, fmt.Errorf("gaussian process on %s: %w", kind, err)
	}
	return &process{classifier: fitted, z: stream.embeddings(c.encoder, protocol)}, nil
}

// processConfig goes over to minibatches, unless the settings say how many rows
// are in one, where all rows a step would take long: 2000 steps of 1000 rows.
func processConfig(c gp.Config, rows int, seed uint64) gp.Config {
	const batch, steps = 1000, 2000
	c.Seed = seed
	if c.Batch == 0 && rows > 5*batch {
		c.Batch = batch
		c.Epochs = max(1, steps*batch/rows)
	}
	return c
}

func (p *process) predict(t int, probs []float64) { p.classifier.Predict(p.z[t], probs) }
