package pool

import (
	"github.com/gvbll/gvbll/posterior"
)

// label is a label channel. H_ck counts how often evidence of class k was seen
// around a node of class c, 1 of each before any was; the channel says
// Σ_k e_v[k] log(H_ck/Σ_k' H_ck'), normalised over c.
//
// When the label y of v comes, H[y,·] grows by e_v as served. For n_v and its
// scaled form, neighbours that were labelled in the same batch count too, and v
// is news to its labelled neighbours: H[k,y] grows by e_v[k].
type label struct {
	Label
	classes int
	version uint64
	h       []float64 // C × C
	news    []float64 // Σ e_v over a batch's rows of each class, C × C

	evidence []float64 // of rows, rows × C
	log      []float64 // log(H_ck/Σ_k' H_ck') by the evidence's class, C × C
}

func newLabel(cfg Label, classes int) *label {
	l := &label{Label: cfg, classes: classes, h: make([]float64, classes*classes), log: make([]float64, classes*classes)}
	for i := range l.h {
		l.h[i] = 1
	}
	return l
}

// see sets evidence to e of the rows.
func (l *label) see(rows *Rows) {
	from := rows.Labelled
	if l.Evidence == Second {
		from = rows.Second
	}
	l.evidence = resize(l.evidence, rows.N*l.classes)
	for at := 0; at < len(l.evidence); at += l.classes {
		e, n := l.evidence[at:at+l.classes], from[at:at+l.classes]
		if l.Evidence != Counts {
			scaled(e, n)
			continue
		}
		for k, x := range n {
			e[k] = float64(x)
		}
	}
}

func (l *label) predict(rows *Rows, logp []float64) {
	for i, share := range l.shares() { // by the evidence's class
		l.log[i%l.classes*l.classes+i/l.classes] = share
	}
	posterior.Logarithms(l.log)
	l.see(rows)
	clear(logp)
	posterior.AddProduct(logp, l.evidence, l.log, rows.N, l.classes, l.classes)
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
	if l.Evidence != Second {
		for _, pair := range b.Pairs {
			y, k := int(b.Labels[pair[0]]), int(b.Labels[pair[1]])
			l.h[y*l.classes+k]++
			l.h[k*l.classes+y]++
		}
	}
	l.version++
	return posterior.Report{}
}

// count adds the evidence of rows to H.
func (l *label) count(rows *Rows, labels []int32) {
	l.see(rows)
	l.news = resize(l.news, len(l.h))
	clear(l.news)
	for i, y := range labels {
		to := l.news[int(y)*l.classes:][:l.classes]
		for k, e := range l.evidence[i*l.classes:][:l.classes] {
			to[k] += e
		}
	}
	for i, e := range l.news {
		if e == 0 {
			continue
		}
		l.h[i] += e
		if l.Evidence != Second {
			l.h[i%l.classes*l.classes+i/l.classes] += e
		}
	}
}

func (l *label) appendState(s *state) {
	s.uint(l.version)
	s.floats(l.h)
}

func (l *label) appendChange(s *state) { l.appendState(s) }

func (l *label) readState(r *reader) {
	l.version = r.uint()
	r.floats(l.h)
	for _, n := range l.h {
		r.want(n > 0, "an entry %v of the compatibility matrix", n)
	}
}

// vote says log((n_v[c] + π_c)/(Σn_v + 1)), π the share of class c among all
// labels so far, with one label of each class before any came.
type vote struct {
	classes int
	version uint64
	counts  []float64 // C
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
	posterior.Logarithms(logp)
}

func (v *vote) train(b *Batch) { v.learn(b, 1) }

func (v *vote) learn(b *Batch, _ float64) posterior.Report {
	for _, y := range b.Labels {
		v.counts[y]++
	}
	v.version++
	return posterior.Report{}
}

func (v *vote) appendState(s *state) {
	s.uint(v.version)
	s.floats(v.counts)
}

func (v *vote) appendChange(s *state) { v.appendState(s) }

func (v *vote) readState(r *reader) {
	v.version = r.uint()
	r.floats(v.counts)
	for _, n := range v.counts {
		r.want(n > 0, "a count of %v", n)
	}
}
