package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/posterior"
)

// Posterior is a head's posterior q(W) and the one it started from.
type Posterior struct {
	Head    string
	Classes []string            // names, C of them
	Now     *posterior.Gaussian // d_e × C
	Trained *posterior.Gaussian // (M*, Σ*), of the same shape
	Batches float64             // number of full batches of labels learned
	Lambda  float64             // λ, the factor by which such a batch weights the past
}

// health are the metrics of a posterior.
type health struct {
	least, precision, variance     *prometheus.GaugeVec // by class
	distance, kl, entries, batches *prometheus.GaugeVec
}

func newHealth(r register) health {
	return health{
		precision: r.gauges("gvbll_posterior_precision_mean", "Mean precision 1/Σ of a class's weights: how certain they are.", "head", "class"),
		least:     r.gauges("gvbll_posterior_precision_min", "Smallest precision of a class's weights; near 0 when a weight is forgotten.", "head", "class"),
		variance:  r.gauges("gvbll_posterior_variance_mean", "Mean variance Σ of a class's weights.", "head", "class"),
		distance:  r.gauges("gvbll_posterior_anchor_distance", "Euclidean distance of the posterior mean from the trained one.", "head"),
		kl:        r.gauges("gvbll_posterior_anchor_kl_nats", "KL divergence of the posterior from the trained one.", "head"),
		entries:   r.gauges("gvbll_posterior_entries", "Number of weights of the posterior: embedding dimensions times classes.", "head"),
		batches:   r.gauges("gvbll_posterior_memory_batches", "Effective memory: how many batches of 50 labels' worth of precision the posterior holds with forgetting, (1-λⁿ)/(1-λ) after n of them.", "head"),
	}
}

// ShowPosterior sets the gauges of a head's posterior, in time O(d_e·C). Classes beyond
// the first 64 share a series: their common means and their smallest precision.
func (m *Metrics) ShowPosterior(p *Posterior) {
	g := &m.health
	classes := p.Now.Classes
	shown := min(classes, maxClasses)
	if classes > maxClasses {
		shown++
	}
	type sums struct{ n, precision, variance, least float64 }
	by := make([]sums, shown)
	for i := range by {
		by[i].least = math.Inf(1)
	}
	for i, t := range p.Now.Precision {
		s := &by[min(i%classes, maxClasses)]
		s.n++
		s.precision += t
		s.least = min(s.least, t)
		s.variance += p.Now.Variance(i)
	}
	for i := range by {
		name, s := otherClasses, &by[i]
		if i < maxClasses {
			name = p.Classes[i]
		}
		g.precision.WithLabelValues(p.Head, name).Set(s.precision / s.n)
		g.least.WithLabelValues(p.Head, name).Set(s.least)
		g.variance.WithLabelValues(p.Head, name).Set(s.variance / s.n)
	}
	distance, _ := p.Now.Distance(p.Trained)
	g.distance.WithLabelValues(p.Head).Set(distance)
	g.kl.WithLabelValues(p.Head).Set(p.Now.KL(p.Trained))
	g.entries.WithLabelValues(p.Head).Set(float64(len(p.Now.Mean)))
	memory := p.Batches
	if p.Lambda < 1 {
		memory = (1 - math.Pow(p.Lambda, memory)) / (1 - p.Lambda)
	}
	g.batches.WithLabelValues(p.Head).Set(memory)
}

// reset drops the gauges of a posterior that serves no more.
func (g *health) reset() {
	for _, one := range []*prometheus.GaugeVec{g.least, g.precision, g.variance, g.distance, g.kl, g.entries, g.batches} {
		one.Reset()
	}
}
