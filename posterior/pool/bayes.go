package pool

import "github.com/gvbll/gvbll/posterior"

// bayes is multinomial naive Bayes: with N_cj = Σ_{v of class c} x_vj,
// log p(c) = Σ_j x_vj log[(N_cj + α)/Σ_j'(N_cj' + α)], normalised; α is the
// smoothing. No class is likelier than another before a feature is seen, and
// negative features count as 0.
type bayes struct {
	Bayes
	shape   Shape
	version uint64
	counts  []float64 // N, d × C
	total   []float64 // Σ_j N_cj, C

	log      []float64 // log(N_cj + α), d × C
	logTotal []float64
	changed  []int32
	row      []bool // by feature: whether it is in changed
	buffer   entries
}

func newBayes(cfg Bayes, shape Shape) *bayes {
	b := &bayes{
		Bayes: cfg, shape: shape,
		counts:   make([]float64, shape.Features*shape.Classes),
		total:    make([]float64, shape.Classes),
		log:      make([]float64, shape.Features*shape.Classes),
		logTotal: make([]float64, shape.Classes),
		row:      make([]bool, shape.Features),
	}
	b.takeLogs()
	return b
}

// takeLogs sets log by count.
func (b *bayes) takeLogs() {
	for i, n := range b.counts {
		b.log[i] = n + b.Smoothing
	}
	posterior.Logarithms(b.log)
}

func (b *bayes) predict(rows *Rows, logp []float64) {
	d, classes := b.shape.Features, b.shape.Classes
	for c, n := range b.total {
		b.logTotal[c] = posterior.Log(n + float64(b.Smoothing*float64(d)))
	}
	for i := range rows.N {
		row := logp[i*classes : (i+1)*classes]
		clear(row)
		index, value := rows.X.entries(i, d, &b.buffer)
		for k, j := range index {
			x := max(float64(value[k]), 0)
			for c, log := range b.log[int(j)*classes : (int(j)+1)*classes] {
				row[c] += float64(x * (log - b.logTotal[c]))
			}
		}
	}
}

func (b *bayes) train(batch *Batch) { b.learn(batch, 1) }

func (b *bayes) learn(batch *Batch, _ float64) posterior.Report {
	b.count(&batch.Rows, batch.Labels)
	b.version++
	return posterior.Report{}
}

// count adds the features of rows to N.
func (b *bayes) count(rows *Rows, labels []int32) {
	for _, j := range b.changed {
		b.row[j] = false
	}
	b.changed = b.changed[:0]
	for i, y := range labels {
		index, value := rows.X.entries(i, b.shape.Features, &b.buffer)
		for k, j := range index {
			x := max(float64(value[k]), 0)
			at := int(j)*b.shape.Classes + int(y)
			b.counts[at] += x
			b.log[at] = posterior.Log(b.counts[at] + b.Smoothing)
			b.total[y] += x
			if !b.row[j] {
				b.row[j] = true
				b.changed = append(b.changed, j)
			}
		}
	}
}

func (b *bayes) appendState(s *state) {
	s.uint(b.version)
	s.floats(b.total)
	s.floats(b.counts)
}

func (b *bayes) appendChange(s *state) {
	s.uint(b.version)
	s.floats(b.total)
	for _, j := range b.changed {
		s.uint(uint64(j))
		s.floats(b.counts[int(j)*b.shape.Classes : (int(j)+1)*b.shape.Classes])
	}
}

func (b *bayes) readState(r *reader) {
	b.version = r.uint()
	r.floats(b.total)
	r.floats(b.counts)
	for _, counts := range [][]float64{b.total, b.counts} {
		for _, n := range counts {
			r.want(n >= 0, "a count of %v", n)
		}
	}
	b.takeLogs()
}
