package posterior

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Rows are nodes as they were served: their embeddings and temperatures.
type Rows struct {
	Z   []float32 // n × d_e
	Tau []float64 // n, positive
}

// Len returns the number of rows.
func (r Rows) Len() int { return len(r.Tau) }

func (r Rows) check(dim int) {
	if len(r.Z) != len(r.Tau)*dim {
		panic(fmt.Sprintf("posterior: %d rows of dimension %d hold %d numbers", len(r.Tau), dim, len(r.Z)))
	}
}

// MAP writes softmax(zᵀM / τ) of every row to dst, n × C: the prediction at the
// posterior's mode, which the paper scores (Section II-C).
func MAP(q *Gaussian, rows Rows, dst []float64) {
	rows.check(q.Dim)
	if len(dst) != rows.Len()*q.Classes {
		panic(fmt.Sprintf("posterior: %d rows of %d classes into %d probabilities", rows.Len(), q.Classes, len(dst)))
	}
	for i, tau := range rows.Tau {
		p := dst[i*q.Classes : (i+1)*q.Classes]
		logits(p, rows.Z[i*q.Dim:(i+1)*q.Dim], tau, q.Mean)
		softmax(p)
	}
}

// Uncertainty splits what is not known about one node's class, in nats. Total
// is the entropy of the averaged probabilities; Aleatoric the average entropy
// under the posterior, which more labels would not take away; Epistemic is the
// rest: the mutual information of class and weights, never negative.
type Uncertainty struct{ Total, Aleatoric, Epistemic float64 }

// Predictive is the posterior predictive of eq:mc. Under a diagonal
// posterior the C logits of a node are independent normals,
// N(zᵀμ_c/τ, (z²)ᵀσ²_c/τ²), so each sample takes C numbers and not d_e·C. The
// normals are one fixed quasi-random set shared by all rows: the predictive is
// a function of posterior and row alone.
//
// A Predictive holds scratch memory: it must not be used by two goroutines at
// once.
type Predictive struct {
	classes  int
	normals  []float64 // samples × classes
	variance []float64 // d_e × classes
	mean     []float64 // of one row's logits
	sd       []float64
	sample   []float64
	average  []float64
}

// NewPredictive returns a predictive over the given number of classes from the
// given number of samples; both must be positive.
func NewPredictive(classes, samples int) *Predictive {
	if classes <= 0 || samples <= 0 {
		panic(fmt.Sprintf("posterior: predictive of %d samples over %d classes", samples, classes))
	}
	scratch := make([]float64, 4*classes)
	return &Predictive{
		classes: classes,
		normals: normals(samples, classes),
		mean:    scratch[:classes],
		sd:      scratch[classes : 2*classes],
		sample:  scratch[2*classes : 3*classes],
		average: scratch[3*classes:],
	}
}

// Predict writes the averaged probabilities of every row to probs, n × C, and
// its uncertainty to split, n. Either may be nil.
func (p *Predictive) Predict(q *Gaussian, rows Rows, probs []float64, split []Uncertainty) {
	rows.check(q.Dim)
	n, classes := rows.Len(), p.classes
	if q.Classes != classes || probs != nil && len(probs) != n*classes || split != nil && len(split) != n {
		panic(fmt.Sprintf("posterior: predictive over %d classes: posterior of %d, %d rows into %d probabilities and %d splits", classes, q.Classes, n, len(probs), len(split)))
	}
	p.variance = slices.Grow(p.variance[:0], len(q.Precision))[:len(q.Precision)]
	q.variances(p.variance)
	for i, tau := range rows.Tau {
		z := rows.Z[i*q.Dim : (i+1)*q.Dim]
		logits(p.mean, z, tau, q.Mean)
		logitVariances(p.sd, z, tau, p.variance)
		for c, v := range p.sd {
			p.sd[c] = math.Sqrt(v)
		}
		aleatoric := p.run()
		if probs != nil {
			copy(probs[i*classes:], p.average)
		}
		if split != nil {
			total := entropy(p.average)
			// Exact averages never have less entropy than the average entropy;
			// rounded ones may.
			aleatoric = min(aleatoric, total)
			split[i] = Uncertainty{Total: total, Aleatoric: aleatoric, Epistemic: total - aleatoric}
		}
	}
}

// Split writes the uncertainty of every row to dst.
func (p *Predictive) Split(q *Gaussian, rows Rows, dst []Uncertainty) { p.Predict(q, rows, nil, dst) }

// run averages the softmax of one row's sampled logits and returns the average
// entropy.
func (p *Predictive) run() (aleatoric float64) {
	clear(p.average)
	mean, sd, sample := p.mean[:p.classes], p.sd[:p.classes], p.sample[:p.classes]
	for s := 0; s < len(p.normals); s += p.classes {
		most := math.Inf(-1)
		for c, e := range p.normals[s : s+p.classes] {
			a := mean[c] + float64(sd[c]*e)
			sample[c] = a
			if a > most {
				most = a
			}
		}
		var sum, dot float64
		for c, a := range sample {
			a -= most
			e := exp(a)
			sample[c] = e
			sum += e
			dot += float64(e * a)
		}
		addScaled(p.average, 1/sum, sample)
		// -Σ p log p = log Σ e^a - Σ p a, with dot = Σ e^a a.
		aleatoric += math.Log(sum) - dot/sum
	}
	samples := float64(len(p.normals) / p.classes)
	for c := range p.average {
		p.average[c] /= samples
	}
	return aleatoric / samples
}

// entropy is -Σ p log p in nats.
func entropy(p []float64) (h float64) {
	for _, x := range p {
		if x > 0 {
			h -= float64(x * math.Log(x))
		}
	}
	return h
}

// normals returns samples × classes standard normals: a Latin hypercube (McKay,
// Beckman & Conover 1979), in which every class takes the same stratified
// sample, scaled to variance 1, in its own random order. At the sizes in use it
// errs less than scrambled Halton points, which need many more samples than
// their largest base: with 16 samples of 40 classes the probabilities are off by
// .003 (root mean square), against .0115 for Halton and independent draws alike.
func normals(samples, classes int) []float64 {
	stratum := make([]float64, samples)
	var square float64
	for s := range stratum {
		stratum[s] = distuv.UnitNormal.Quantile((float64(s) + 0.5) / float64(samples))
		square += float64(stratum[s] * stratum[s])
	}
	if square > 0 { // a single sample is the mean
		scale := math.Sqrt(float64(samples) / square)
		for s := range stratum {
			stratum[s] *= scale
		}
	}
	rng := rand.New(rand.NewPCG(uint64(samples), uint64(classes)))
	set := make([]float64, samples*classes)
	for c := range classes {
		for s, from := range rng.Perm(samples) {
			set[s*classes+c] = stratum[from]
		}
	}
	return set
}
