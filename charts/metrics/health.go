package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/topics/meter"
)

// health are the metrics of a head's posterior.
type health struct{ distance, kl, entries *prometheus.GaugeVec }

func newHealth(r meter.Register) health {
	return health{
		distance: r.Gauges("gvbll_posterior_anchor_distance", "Euclidean distance of the posterior mean from the trained one.", "head"),
		kl:       r.Gauges("gvbll_posterior_anchor_kl_nats", "KL divergence of the posterior from the trained one.", "head"),
		entries:  r.Gauges("gvbll_posterior_entries", "Number of weights of the posterior: embedding dimensions times classes.", "head"),
	}
}

// ShowPosterior sets the gauges of a head's posterior q(W) beside the trained one (M*, Σ*), both of
// d_e × C, in time O(d_e·C).
func (m *Metrics) ShowPosterior(head string, now, trained *posterior.Gaussian) {
	distance, _ := now.Distance(trained)
	m.health.distance.WithLabelValues(head).Set(distance)
	m.health.kl.WithLabelValues(head).Set(now.KL(trained))
	m.health.entries.WithLabelValues(head).Set(float64(len(now.Mean)))
}

// reset drops the gauges of a posterior that serves no more.
func (g *health) reset() {
	for _, one := range []*prometheus.GaugeVec{g.distance, g.kl, g.entries} {
		one.Reset()
	}
}
