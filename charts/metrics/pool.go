package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/topics/meter"
)

// pool are the metrics of what a pool of heads has learned.
type pool struct {
	weight, share, bias, rate, regret *prometheus.GaugeVec
}

func newPool(r meter.Register) pool {
	return pool{
		weight: r.Gauges("gvbll_pool_weight", "Weight of a head in the pool that serves; 0 for heads that are only scored.", "head"),
		share:  r.Gauges("gvbll_pool_share", "Share of a head, or of a product of all heads, in the mixture that the pool serves.", "head"),
		bias:   r.Gauges("gvbll_pool_bias", "Bias of a class in the pool's logits; classes beyond the first 64 are left out.", "class"),
		rate: r.Gauges("gvbll_pool_label_rate", "Rate at which labels of a class come, as --label-rates gives it or "+
			"counts it, divided by the largest; classes beyond the first 64 are left out.", "class"),
		regret: r.Gauges("gvbll_pool_regret_nats", "Log loss of the pool over all labels, less that of its best head "+
			"in hindsight; negative where the pool is better.", "head"),
	}
}

// ShowPool sets the gauges of the pool that serves.
func (m *Metrics) ShowPool(p *pipeline.Pooled, classes []string) {
	g := &m.pool
	for k, head := range p.Heads {
		g.weight.WithLabelValues(head).Set(p.Weights[k])
	}
	for k, share := range p.Shares {
		g.share.WithLabelValues(p.Parts[k]).Set(share)
	}
	for c, b := range p.Bias[:min(len(p.Bias), maxClasses)] {
		g.bias.WithLabelValues(classes[c]).Set(b)
	}
	for c, r := range p.LabelRates[:min(len(p.LabelRates), maxClasses)] {
		g.rate.WithLabelValues(classes[c]).Set(r)
	}
	g.regret.WithLabelValues(pipeline.HeadPool).Set(p.Regret)
}

// reset drops the gauges of a pool that serves no more.
func (p *pool) reset() {
	for _, g := range []*prometheus.GaugeVec{p.weight, p.share, p.bias, p.rate, p.regret} {
		g.Reset()
	}
}
