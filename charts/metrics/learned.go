package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics/meter"
)

// learned are the metrics of what the heads have learned: a pool, and a posterior.
type learned struct {
	weight, share, bias, rate, regret *prometheus.GaugeVec
	distance, kl, entries             *prometheus.GaugeVec
}

func newLearned(r meter.Register) learned {
	return learned{
		weight: r.Gauges("gvbll_pool_weight", "Weight of a head in the pool that serves; 0 for heads that are only scored.", "head"),
		share:  r.Gauges("gvbll_pool_share", "Share of a head, or of a product of all heads, in the mixture that the pool serves.", "head"),
		bias:   r.Gauges("gvbll_pool_bias", "Bias of a class in the pool's logits; classes beyond the first 64 are left out.", "class"),
		rate: r.Gauges("gvbll_pool_label_rate", "Rate at which labels of a class come, as --label-rates gives it or "+
			"counts it, divided by the largest; classes beyond the first 64 are left out.", "class"),
		regret: r.Gauges("gvbll_pool_regret_nats", "Log loss of the pool over all labels, less that of its best "+
			"head in hindsight.", "head"),
		distance: r.Gauges("gvbll_posterior_anchor_distance", "Euclidean distance of the posterior mean from the trained one.", "head"),
		kl:       r.Gauges("gvbll_posterior_anchor_kl_nats", "KL divergence of the posterior from the trained one.", "head"),
		entries:  r.Gauges("gvbll_posterior_entries", "Number of weights of the posterior: embedding dimensions times classes.", "head"),
	}
}

// ShowPool sets the gauges of the pool that serves.
func (m *Metrics) ShowPool(p *pipeline.Pooled, classes []string) {
	set := func(g *prometheus.GaugeVec, names []string, values []float64) {
		for i, v := range values {
			g.WithLabelValues(names[i]).Set(v)
		}
	}
	set(m.learned.weight, p.Heads, p.Weights)
	set(m.learned.share, p.Parts, p.Shares)
	set(m.learned.bias, classes, p.Bias[:min(len(p.Bias), maxClasses)])
	set(m.learned.rate, classes, p.LabelRates[:min(len(p.LabelRates), maxClasses)])
	set(m.learned.regret, []string{pipeline.HeadPool}, []float64{p.Regret})
}

// ShowPosterior sets the gauges of a head's posterior q(W) beside the trained one (M*, Σ*), both of
// d_e × C, in time O(d_e·C).
func (m *Metrics) ShowPosterior(head string, now, trained *posterior.Gaussian) {
	distance, _ := now.Distance(trained)
	m.learned.distance.WithLabelValues(head).Set(distance)
	m.learned.kl.WithLabelValues(head).Set(now.KL(trained))
	m.learned.entries.WithLabelValues(head).Set(float64(len(now.Mean)))
}
