package pool

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// label predicts from the labels around a node. H, C × C, counts how often a node
// of class c had evidence of class k around it:
//
//	log p(c) = Σ_k e_v[k] log(H_ck/Σ_k' H_ck') + constant,
//
// naive Bayes on evidence e_v under a Dirichlet(1) prior for every class. H is a
// compatibility matrix, so homophily and heterophily are learned alike. The
// evidence is n_v, or n_v or q_v dampened (see dampen).
//
// The label y of node v adds e_v, as it was when v was served, to H[y,·]. Evidence
// from n_v is symmetric, so v is also evidence about its labelled neighbours:
// H[k,y] grows by e_v[k]. Edges between two nodes of the same batch were in neither
// e_v, and each adds 1 to H in both directions. Nothing is forgotten: a corrected label is
// counted again, with the evidence of then.
type label struct {
	labelConfig
	classes int
	version uint64
	h       []float64 // H, positive

	increments []float64 // Σ e_v over a batch's rows of each class, C × C
	evidence   []float64 // e of the rows, n × C
	log        []float64 // log(H_ck/Σ_k' H_ck') transposed: entry (k, c); kept up to date with h
}

func newLabel(cfg labelConfig, classes int) *label {
	l := &label{labelConfig: cfg, classes: classes, h: make([]float64, classes*classes), log: make([]float64, classes*classes)}
	for i := range l.h {
		l.h[i] = 1
	}
	l.refreshLogs()
	return l
}

// refreshLogs sets log from h.
func (l *label) refreshLogs() {
	for i, share := range l.shares() {
		l.log[i%l.classes*l.classes+i/l.classes] = share
	}
	double.Logarithms(l.log)
}

// setEvidence sets evidence to e of the rows.
func (l *label) setEvidence(rows *Rows) {
	l.evidence = kernel.Resize(l.evidence, rows.N*l.classes)
	for at := 0; at < len(l.evidence); at += l.classes {
		e, n := l.evidence[at:at+l.classes], rows.Labelled[at:at+l.classes]
		if l.Evidence != byCounts {
			dampen(e, n)
			continue
		}
		for k, x := range n {
			e[k] = float64(x)
		}
	}
}

func (l *label) predict(rows *Rows, logp []float64) {
	l.setEvidence(rows)
	clear(logp)
	double.AddProduct(logp, l.evidence, l.log, rows.N, l.classes, l.classes)
}

// shares returns H with rows that sum to 1.
func (l *label) shares() []float64 {
	shares := make([]float64, len(l.h))
	for c := range l.classes {
		var total float64
		for _, n := range l.h[c*l.classes : (c+1)*l.classes] {
			total += n
		}
		for k, n := range l.h[c*l.classes : (c+1)*l.classes] {
			shares[c*l.classes+k] = n / total
		}
	}
	return shares
}

func (l *label) train(b *Batch) { l.learn(b, 1) }

func (l *label) learn(b *Batch, _ float64) posterior.Report {
	l.count(&b.Rows, b.Labels)
	for _, pair := range b.Pairs {
		y, k := int(b.Labels[pair[0]]), int(b.Labels[pair[1]])
		l.h[y*l.classes+k]++
		l.h[k*l.classes+y]++
	}
	l.refreshLogs()
	l.version++
	return posterior.Report{}
}

// count adds the evidence of rows to H.
func (l *label) count(rows *Rows, labels []int32) {
	l.setEvidence(rows)
	l.increments = kernel.Resize(l.increments, len(l.h))
	clear(l.increments)
	for i, y := range labels {
		to := l.increments[int(y)*l.classes:][:l.classes]
		for k, e := range l.evidence[i*l.classes:][:l.classes] {
			to[k] += e
		}
	}
	for i, e := range l.increments {
		if e == 0 {
			continue
		}
		l.h[i] += e
		l.h[i%l.classes*l.classes+i/l.classes] += e
	}
}

// takeOver takes over all counts.
func (l *label) takeOver(from classifier, _ float64) {
	old := from.(*label)
	copyClasses(l.h, l.classes, old.h, old.classes, old.classes)
	l.refreshLogs()
}

func (l *label) state(s *words.Stream) {
	s.Uint(&l.version)
	if s.Positives(l.h, "an entry of the compatibility matrix"); s.Reads {
		l.refreshLogs()
	}
}

func (l *label) twin() classifier {
	return &label{labelConfig: l.labelConfig, classes: l.classes, h: l.h, log: l.log}
}

func (l *label) change(s *words.Stream) { l.state(s) }

// vote predicts the share of each class among a node's labelled neighbours,
//
//	p(c) = (n_v[c] + π_c)/(Σ_k n_v[k] + 1),
//
// where π is each class's share of all labels so far, plus one of each class: a
// Dirichlet prior with the weight of one neighbour. It assumes homophily instead of
// learning it. Nothing is forgotten but a label that is corrected.
type vote struct {
	classes int
	version uint64
	counts  []float64 // labels of each class, plus 1
}

func newVote(classes int) *vote {
	v := &vote{classes: classes, counts: make([]float64, classes)}
	for c := range v.counts {
		v.counts[c] = 1
	}
	return v
}

func (v *vote) predict(rows *Rows, logp []float64) {
	var all float64
	for _, n := range v.counts {
		all += n
	}
	for i := range rows.N {
		labelled := rows.Labelled[i*v.classes : (i+1)*v.classes]
		total := 1.0
		for _, n := range labelled {
			total += float64(n)
		}
		for c, n := range labelled {
			logp[i*v.classes+c] = (float64(n) + v.counts[c]/all) / total
		}
	}
	double.Logarithms(logp)
}

func (v *vote) train(b *Batch) { v.learn(b, 1) }

func (v *vote) learn(b *Batch, _ float64) posterior.Report {
	for _, y := range b.Labels {
		v.counts[y]++
	}
	for _, y := range b.TakenLabels {
		v.counts[y] = max(v.counts[y]-1, 1)
	}
	v.version++
	return posterior.Report{}
}

// takeOver takes over all counts.
func (v *vote) takeOver(from classifier, _ float64) { copy(v.counts, from.(*vote).counts) }

func (v *vote) state(s *words.Stream) {
	s.Uint(&v.version)
	s.Positives(v.counts, "a count")
}

func (v *vote) twin() classifier { return v }

func (v *vote) change(s *words.Stream) { v.state(s) }
