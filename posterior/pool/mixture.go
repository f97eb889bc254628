package pool

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/posterior/internal/words"
)

// mixture averages the probabilities of experts, which are the pool's two products, then its
// members, and where there is one its fitted head and the geometric mean of that and the first product:
//
//	p(c) = Σ_e ω_e p_e(c),  ω_e ∝ π_e exp(η L_e).
//
// L_e is the discounted log likelihood of what e served: a batch replaces it by
// λ^share (L_e + Σ_i λ^a_i log p_e(y_i)), where a_i is 0 or, with Anew, the number of full batches of labels that were
// learned since row i was served, however large the batches were. This is dynamic model averaging (Raftery, Kárný &
// Ettler 2010) with the likelihood to the power η. The products have equal parts of what
// the members leave them of the prior shares π.
//
// Its regret is bounded. Let ℓ_e be the loss -Σ log p_e(y) of e in a batch, and R = ln(1/π_e),
// at most ln(50 K) for a prior share of .02 of K members. Where the label of a row comes before
// the next row is served, and η ≤ 1, the loss of the mixture in T batches is at most
//
//	Σ_t ℓ_e(t) + [1 + (1-λ)(T-1)] R/η
//
// for every e: a start, and then (1-λ)R/η for each full batch. It is also bounded in the same
// way by the loss of the expert that is best, at each time, of the discounted past.
// docs/adr/0017-pool-of-blocks.md has the proof, and what rows that are served together or
// labels that come late add.
type mixture struct {
	mixtureConfig
	classes int

	logPrior []float64 // log π
	score    []float64 // L
	logShare []float64 // log ω
	learned  []float64 // with Anew the number of labels, one number

	counted []int     // experts with a share that counts
	terms   []float64 // their log ω_e + log p_e(c) of rows, n × C × stride
	scratch softmaxScratch
}

// products are the log-linear pools that a mixture has.
const products = 2

// newMixture returns a mixture of two products and the members, whose experts have the given
// scores, or 0 if they are nil.
func newMixture(cfg mixtureConfig, scores []float64, members, classes int, fitted bool) *mixture {
	n := products + members
	if !fitted {
		cfg.Fitted, cfg.Half = 0, 0
	} else {
		n += 2
	}
	m := &mixture{
		mixtureConfig: cfg, classes: classes,
		logPrior: make([]float64, n), score: make([]float64, n), logShare: make([]float64, n),
	}
	each, head := double.Log((1-m.Heads-m.Fitted-m.Half)/products), double.Log(m.Heads/float64(members))
	for e := range m.logPrior {
		m.logPrior[e] = head
		if e < products {
			m.logPrior[e] = each
		}
	}
	if fitted {
		m.logPrior[n-2], m.logPrior[n-1] = double.Log(m.Fitted), double.Log(m.Half)
	}
	if cfg.Anew {
		m.learned = make([]float64, 1)
	}
	copy(m.score, scores)
	m.weigh()
	return m
}

// isAnew reports whether late labels are weighed anew. There may be no mixture.
func (m *mixture) isAnew() bool { return m != nil && m.Anew }

// weigh sets the shares ω from the scores.
func (m *mixture) weigh() {
	for e, l := range m.score {
		m.logShare[e] = m.logPrior[e] + float64(m.Rate*l)
	}
	m.scratch.logSoftmax(m.logShare, len(m.logShare))
}

// share returns ω of expert e.
func (m *mixture) share(e int) float64 { return double.Exp(m.logShare[e]) }

// leastLogShare is the log share below which an expert is left out of a prediction: at
// 4·10⁻¹⁸ it changes no float32.
const leastLogShare = -40

// predict writes log p(c) of n rows; at(i, e) returns the log probabilities that expert e
// has for row i, and to(i) where to write.
func (m *mixture) predict(n int, at func(i, e int) []float32, to func(i int) []float32) {
	m.counted = m.counted[:0]
	for e, share := range m.logShare {
		if share > leastLogShare {
			m.counted = append(m.counted, e)
		}
	}
	stride := strideOf(len(m.counted))
	m.terms = kernel.Resize(m.terms, n*m.classes*stride)
	for i := range n {
		row := m.terms[i*m.classes*stride : (i+1)*m.classes*stride]
		for k, e := range m.counted {
			share := m.logShare[e]
			for c, x := range at(i, e) {
				row[c*stride+k] = share + float64(x)
			}
		}
	}
	m.scratch.exponentials(m.terms, n*m.classes, len(m.counted), stride)
	double.Logarithms(m.scratch.total)
	for i := range n {
		dst := to(i)
		for c := range dst {
			dst[c] = float32(m.scratch.most[i*m.classes+c] + m.scratch.total[i*m.classes+c])
		}
	}
}

// learn adds the log likelihoods of labels, and forgets as for a batch of that share. logRates are as in
// [Batch], and age says how many full batches were learned since row i was served.
func (m *mixture) learn(labels []int32, share float64, logRates []float64, at func(i, e int) []float32, age func(i int) float64) {
	logKeep := double.Log(m.Lambda)
	for i, y := range labels {
		keep := 1.0
		if m.Anew {
			keep = double.Exp(float64(logKeep * max(age(i), 0)))
		}
		for e := range m.score {
			m.score[e] += float64(keep * (float64(at(i, e)[y]) + amongLabels(at(i, e), logRates, int(y))))
		}
	}
	if m.Anew {
		m.learned[0] += float64(len(labels))
	}
	m.discount(double.Exp(float64(logKeep * share)))
}

// amongLabels returns log r_y/Σ_c p(c) r_c: what the log probability of class y changes by where it is that
// of a label.
func amongLabels(logp []float32, logRates []float64, y int) float64 {
	if logRates == nil {
		return 0
	}
	var total float64
	for c, r := range logRates {
		total += double.Exp(float64(logp[c]) + r)
	}
	return logRates[y] - double.Log(total)
}

// discount keeps a share of the scores.
func (m *mixture) discount(keep float64) {
	for e := range m.score {
		m.score[e] *= keep
	}
	m.weigh()
}

// takeOver takes over a share of the scores.
func (m *mixture) takeOver(from *mixture, keep float64) {
	copy(m.score, from.score)
	copy(m.learned, from.learned)
	m.discount(keep)
}

func (m *mixture) state(s *words.Stream) {
	s.Counts(m.learned)
	if s.Floats(m.score); s.Reads && s.Err == nil {
		m.weigh()
	}
}

// products returns the share that each product has in what is served: half of the last expert's is the first one's, if a head
// is fitted. Without a mixture there is one product.
func (m *mixture) products(fitted bool) []float64 {
	if m == nil {
		return []float64{1}
	}
	shares := []float64{m.share(0), m.share(1)}
	if fitted {
		shares[0] += float64(.5 * m.share(len(m.logShare)-1))
	}
	return shares
}
