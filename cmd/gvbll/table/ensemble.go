package table

import "github.com/gvbll/gvbll/gnn"

// ensemble is a deep ensemble (Lakshminarayanan, Pritzel and Blundell 2017):
// GraphSAGE trained from several initial weights on all training nodes, and the
// members' probabilities averaged. Its first member is the GraphSAGE that stands
// alone.
type ensemble struct {
	unchanging
	members []*standalone
}

func newEnsemble(s *trainer, stream *replay, protocol string) (*ensemble, error) {
	e := &ensemble{}
	for k := range s.settings.Members {
		m, err := newMember(s, stream, protocol, member{kind: gnn.KindSAGE, number: k})
		if err != nil {
			return nil, err
		}
		e.members = append(e.members, m)
	}
	return e, nil
}

func (e *ensemble) predict(t int, probs []float64) {
	own := make([]float64, len(probs))
	clear(probs)
	for _, m := range e.members {
		m.predict(t, own)
		axpy(probs, 1/float64(len(e.members)), own)
	}
}
