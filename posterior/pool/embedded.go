package pool

import "github.com/gvbll/gvbll/posterior"

// embedded is one of package posterior's heads. The training posterior that it
// starts from knows the training rows, so that they teach it nothing.
type embedded struct {
	layer
	u []float64 // z/τ of the rows
}

type layer interface {
	posterior.Head
	// Posterior returns that in force.
	Posterior() *posterior.Gaussian
}

func (e *embedded) predict(rows *Rows, logp []float64) {
	q := e.Posterior()
	e.u = resize(e.u, len(rows.Embedded.Z))
	scale(e.u, rows.Embedded)
	clear(logp)
	posterior.AddProduct(logp, e.u, q.Mean, rows.N, q.Dim, q.Classes)
}

// scale writes z/τ of every row to u.
func scale(u []float64, rows posterior.Rows) {
	d := len(u) / max(len(rows.Tau), 1)
	for i, tau := range rows.Tau {
		by, to := 1/tau, u[i*d:(i+1)*d]
		for j, z := range rows.Z[i*d : (i+1)*d] {
			to[j] = float64(z) * by
		}
	}
}

func (e *embedded) train(*Batch) {}

func (e *embedded) learn(b *Batch, _ float64) posterior.Report {
	return e.Learn(b.Embedded, b.Labels)
}

func (e *embedded) appendState(s *state) { s.section(e.AppendState) }

func (e *embedded) appendChange(s *state) { e.appendState(s) }

func (e *embedded) readState(r *reader) { r.section(e.SetState) }
