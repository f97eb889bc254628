package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/posterior"
)

// Posterior is a head's q(W) = N(M, 1/T) and what it is held against.
type Posterior struct {
	Head    string
	Classes []string            // names, C of them
	Now     *posterior.Gaussian // d_e × C
	Trained *posterior.Gaussian // (M*, Σ*), of the same shape
	Version uint64              // updates taken
	Lambda  float64             // λ, what an update keeps of the past
}

// health are the gauges of a posterior.
type health struct {
	least, precision, variance     *prometheus.GaugeVec // by class
	distance, kl, entries, batches *prometheus.GaugeVec
}

func newHealth(gauges func(name, help string, labels ...string) *prometheus.GaugeVec) health {
	return health{
		precision: gauges("gvbll_posterior_precision_mean", "Mean precision 1/Σ of a class's weights: how much is known of them.", "head", "class"),
		least:     gauges("gvbll_posterior_precision_min", "Least precision of a class's weights; near 0 when one is forgotten.", "head", "class"),
		variance:  gauges("gvbll_posterior_variance_mean", "Mean variance Σ of a class's weights.", "head", "class"),
		distance:  gauges("gvbll_posterior_anchor_distance", "Euclidean distance of the posterior mean to the trained one.", "head"),
		kl:        gauges("gvbll_posterior_anchor_kl_nats", "KL divergence of the posterior from the trained one.", "head"),
		entries:   gauges("gvbll_posterior_entries", "Weights of the posterior, embedding dimensions times classes.", "head"),
		batches:   gauges("gvbll_posterior_memory_batches", "Effective memory: batches that the precision is a sum of, forgetting counted, (1-λⁿ)/(1-λ) after n.", "head"),
	}
}

// ShowPosterior sets the gauges of a head's posterior. It takes O(d_e·C).
// Classes beyond the first 64 share their series: means, and the least of all.
func (m *Metrics) ShowPosterior(p *Posterior) {
	g := &m.vectors.health
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
	memory := float64(p.Version)
	if p.Lambda < 1 {
		memory = (1 - math.Pow(p.Lambda, memory)) / (1 - p.Lambda)
	}
	g.batches.WithLabelValues(p.Head).Set(memory)
}
