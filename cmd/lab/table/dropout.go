package table

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/train"
)

// dropout is MC dropout (Gal and Ghahramani 2016): the trained GraphSAGE with its
// dropout left on, whose probabilities are averaged over stochastic passes. A pass
// drops features and hidden states of the whole graph on which a step's nodes are
// embedded.
type dropout struct {
	unchanging
	encoder  gnn.Encoder
	settings Settings
	seed     uint64
	stream   *replay
	protocol string
}

func newDropout(tr *trainer, stream *replay, protocol string) (*dropout, error) {
	c, err := tr.classifier(member{kind: gnn.KindSAGE})
	if err != nil {
		return nil, err
	}
	return &dropout{encoder: c, settings: tr.settings, seed: tr.seed, stream: stream, protocol: protocol}, nil
}

func (d *dropout) predict(t int, probs []float64) {
	passes := d.settings.Passes
	pass := make([]float64, len(probs))
	clear(probs)
	train.SampleDropout(d.encoder.(*gnn.SAGE), d.stream.known(t, d.protocol), d.stream.targets(t),
		max(d.settings.Phase1.Dropout, 0), passes, mix(d.seed, uint64(t)+1),
		func(a []float32) {
			probabilities(a, d.encoder.Out(), 1, pass)
			floats.AddScaled(probs, 1/float64(passes), pass)
		})
}
