package pool

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// paperHead is one of the paper's two heads, GVBLL-Static or GVBLL-Online:
//
//	p(y = c) = softmax(zᵀM/τ)_c,
//
// where M is the mean of a diagonal Gaussian over weights. Its prior is the
// training posterior, so it learns nothing from the training rows. GVBLL-Online
// updates and forgets as [posterior.Online] does; GVBLL-Static never does.
type paperHead struct {
	posterior.Head
	u []float64 // z/τ of the rows, n × d_e
}

func (p *paperHead) predict(rows *Rows, logp []float64) {
	q := p.Posterior()
	p.u = kernel.Resize(p.u, len(rows.Embedded.Z))
	divideByTau(p.u, rows.Embedded)
	clear(logp)
	double.AddProduct(logp, p.u, q.Mean, rows.N, q.Dim, q.Classes)
}

// divideByTau writes z/τ of every row to u, n × d_e.
func divideByTau(u []float64, rows posterior.Rows) {
	d := len(u) / max(len(rows.Tau), 1)
	for i, tau := range rows.Tau {
		by, to := 1/tau, u[i*d:(i+1)*d]
		for j, z := range rows.Z[i*d : (i+1)*d] {
			to[j] = float64(z) * by
		}
	}
}

func (p *paperHead) train(*Batch) {}

// takeOver does nothing: all weights are on the embedding.
func (p *paperHead) takeOver(classifier, float64) {}

func (p *paperHead) learn(b *Batch, _ float64) posterior.Report {
	if b.N == 0 {
		return posterior.Report{}
	}
	return p.Learn(b.Embedded, b.Labels)
}

func (p *paperHead) state(s *words.Stream) { s.Section(p.AppendState, p.SetState) }

func (p *paperHead) twin() classifier { return &paperHead{Head: p.Head} }

func (p *paperHead) change(s *words.Stream) { p.state(s) }
