package pool

import (
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// bayes is multinomial naive Bayes. With N_jc = Σ x_vj over the labelled nodes v of
// class c,
//
//	log p(c) = Σ_j x_vj log[(N_jc + α)/Σ_j'(N_j'c + α)] + constant,
//
// which is the posterior mean of each class's distribution over features under a
// Dirichlet(α) prior; α is Smoothing. The classes have equal prior probabilities:
// the pool's biases learn theirs. Negative features count as 0.
//
// A batch adds to N. Nothing is forgotten but a label that is corrected.
type bayes struct {
	Bayes
	shape   Shape
	version uint64
	counts  []float64 // N, d × C
	total   []float64 // Σ_j N_jc, C

	log      []float64 // log(N_jc + α), d × C, kept up to date with counts
	logTotal []float64 // log Σ_j(N_jc + α), scratch of predict
	changed  columnSet // features whose counts the last learn changed
	buffer   entries
}

func newBayes(cfg Bayes, shape Shape) *bayes {
	b := &bayes{
		Bayes: cfg, shape: shape,
		counts:   make([]float64, shape.Features*shape.Classes),
		total:    make([]float64, shape.Classes),
		log:      make([]float64, shape.Features*shape.Classes),
		logTotal: make([]float64, shape.Classes),
		changed:  newColumnSet(shape.Features),
	}
	b.refreshLogs()
	return b
}

// refreshLogs sets log from counts.
func (b *bayes) refreshLogs() {
	for i, n := range b.counts {
		b.log[i] = n + b.Smoothing
	}
	double.Logarithms(b.log)
}

func (b *bayes) predict(rows *Rows, logp []float64) {
	d, classes := b.shape.Features, b.shape.Classes
	for c, n := range b.total {
		b.logTotal[c] = double.Log(n + float64(b.Smoothing*float64(d)))
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
	b.changed.clear()
	b.count(&batch.Rows, batch.Labels, 1)
	b.count(&batch.Taken, batch.TakenLabels, -1)
	b.version++
	return posterior.Report{}
}

// count adds the features of rows to N, sign times. What is taken from N was added to it before:
// integers leave nothing, and other numbers no more than their rounding.
func (b *bayes) count(rows *Rows, labels []int32, sign float64) {
	for i, y := range labels {
		index, value := rows.X.entries(i, b.shape.Features, &b.buffer)
		for k, j := range index {
			x := float64(sign * max(float64(value[k]), 0))
			at := int(j)*b.shape.Classes + int(y)
			b.counts[at] = max(b.counts[at]+x, 0)
			b.log[at] = double.Log(b.counts[at] + b.Smoothing)
			b.total[y] = max(b.total[y]+x, 0)
			b.changed.add(j)
		}
	}
}

// takeOver takes over all counts.
func (b *bayes) takeOver(from classifier, _ float64) {
	old := from.(*bayes)
	copy(b.total, old.total)
	copyClasses(b.counts, b.shape.Classes, old.counts, old.shape.Classes, old.shape.Classes)
	b.refreshLogs()
}

func (b *bayes) state(s *words.Stream) {
	s.Uint(&b.version)
	s.Counts(b.total)
	if s.Counts(b.counts); s.Reads {
		b.refreshLogs()
	}
}

func (b *bayes) twin() classifier {
	t := *b
	t.logTotal, t.buffer = make([]float64, len(b.logTotal)), entries{}
	return &t
}

func (b *bayes) change(s *words.Stream) {
	s.Put(b.version)
	s.Floats(b.total)
	var d digest
	for _, j := range b.changed.list {
		d.uint(uint64(j))
		d.floats(b.row(int(j)))
	}
	s.Put(uint64(d))
}

// row returns the counts of feature j.
func (b *bayes) row(j int) []float64 {
	return b.counts[j*b.shape.Classes : (j+1)*b.shape.Classes]
}
