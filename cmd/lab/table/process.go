package table

import (
	"fmt"

	"github.com/gvbll/gvbll/cmd/lab/gp"
	"github.com/gvbll/gvbll/gnn"
)

// process is a Gaussian-process classifier on the embeddings of the deterministic GNN
// of its kind: deep kernel learning (Wilson et al. 2016) with the network trained
// first. It is fitted to the embeddings of the training nodes on their own subgraph.
type process struct {
	unchanging
	classifier *gp.Classifier
	z          [][]float32 // by step
}

func newProcess(tr *trainer, stream *replay, protocol string, kind gnn.Kind) (*process, error) {
	encoder, err := tr.encoder(kind)
	if err != nil {
		return nil, err
	}
	type key struct{ kind gnn.Kind }
	fitted, err := recall(&tr.memo, key{kind}, func() (*gp.Classifier, error) {
		seen := tr.seenBy(kind)
		z := encoder.Encode(seen.X, seen.Src, seen.Dst)
		return gp.Fit(tr.ctx, z, encoder.Out(), len(tr.data.Classes), tr.data.Labels, processConfig(tr.settings.GP, len(tr.nodes), tr.seed), nil)
	})
	if err != nil {
		return nil, fmt.Errorf("gaussian process on %s: %w", kind, err)
	}
	return &process{classifier: fitted, z: stream.embeddings(encoder, protocol)}, nil
}

// processConfig returns how the process is fitted. With more than 5000 rows it is fitted
// in 2000 steps with minibatches of 1000 rows, unless the settings give a batch size.
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
