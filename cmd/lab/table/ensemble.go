package table

import (
	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/gnn"
)

// ensemble is a deep ensemble (Lakshminarayanan, Pritzel and Blundell 2017): several
// GraphSAGEs, trained on the same nodes from different initial weights, whose
// probabilities are averaged. The first member is the GraphSAGE baseline.
type ensemble struct {
	unchanging
	members []*standalone
}

func newEnsemble(tr *trainer, stream *replay, protocol string) (*ensemble, error) {
	e := &ensemble{}
	for k := range tr.settings.Members {
		m, err := newStandalone(tr, stream, protocol, member{kind: gnn.KindSAGE, number: k})
		if err != nil {
			return nil, err
		}
		e.members = append(e.members, m)
	}
	return e, nil
}

func (e *ensemble) predict(t int, probs []float64) {
	member := make([]float64, len(probs))
	clear(probs)
	for _, m := range e.members {
		m.predict(t, member)
		floats.AddScaled(probs, 1/float64(len(e.members)), member)
	}
}
