package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
)

// maxCompatibility is the most classes whose compatibility is exported: the
// series are their square. /v1/pool has it of any number.
const maxCompatibility = 16

// poolGauges are what a pool of heads has learned.
type poolGauges struct {
	weight, bias, regret, compatibility *prometheus.GaugeVec
}

func newPoolGauges(gauges func(name, help string, labels ...string) *prometheus.GaugeVec) poolGauges {
	return poolGauges{
		weight:        gauges("gvbll_pool_weight", "Weight of a head in the pool that serves; 0 of heads that are only scored.", "head"),
		bias:          gauges("gvbll_pool_bias", "Bias of a class in the pool's logits; classes beyond the first 64 are left out.", "class"),
		regret:        gauges("gvbll_pool_regret_nats", "Log loss of the pool less that of the best of its heads in hindsight, over all labels; below 0 where the pool is better.", "head"),
		compatibility: gauges("gvbll_pool_compatibility", "Share of each class among the labelled neighbours of the nodes of a class, as learned; with up to 16 classes.", "class", "neighbour"),
	}
}

// ShowPool sets the gauges of the pool that serves.
func (m *Metrics) ShowPool(p *pipeline.Pooled, classes []string) {
	g := &m.vectors.pool
	for k, head := range p.Heads {
		g.weight.WithLabelValues(head).Set(p.Weights[k])
	}
	for c, b := range p.Bias[:min(len(p.Bias), maxClasses)] {
		g.bias.WithLabelValues(classes[c]).Set(b)
	}
	g.regret.WithLabelValues(pipeline.HeadPool).Set(p.Regret)
	if len(classes) > maxCompatibility {
		return
	}
	for i, share := range p.Compatibility {
		g.compatibility.WithLabelValues(classes[i/len(classes)], classes[i%len(classes)]).Set(share)
	}
}
