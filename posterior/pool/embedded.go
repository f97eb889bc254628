package pool

import "github.com/gvbll/gvbll/posterior"

// embedded is one of package posterior's heads. The training posterior that it
// starts from knows the training rows, so that they teach it nothing.
type embedded struct{ posterior.Head }

func (e embedded) predict(rows *Rows, logp []float64) {
	e.Predict(rows.Embedded, logp)
	for i, p := range logp {
		logp[i] = posterior.Log(p)
	}
}

func (e embedded) train(*Batch) {}

func (e embedded) learn(b *Batch, _ float64) posterior.Report {
	return e.Learn(b.Embedded, b.Labels)
}

func (e embedded) appendState(s *state) { s.section(e.AppendState) }

func (e embedded) appendChange(s *state) { e.appendState(s) }

func (e embedded) readState(r *reader) { r.section(e.SetState) }
