package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// shadow are the metrics of the models: which of them serves, and how the one in
// the shadow does, by the same measures as the other and under names of its own.
type shadow struct {
	promotions                      prometheus.Counter
	models                          *prometheus.GaugeVec
	labels, correct, logLoss, brier *prometheus.CounterVec
	scored, prequential             *prometheus.GaugeVec
}

func newShadow(
	counter func(name, help string) prometheus.Counter,
	counters func(name, help string, labels ...string) *prometheus.CounterVec,
	gauges func(name, help string, labels ...string) *prometheus.GaugeVec,
) shadow {
	return shadow{
		promotions:  counter("gvbll_promotions_total", "Models that were promoted out of the shadow."),
		models:      gauges("gvbll_model_info", "Always 1; the labels say which model serves and which is in the shadow.", "model", "encoder", "part"),
		labels:      counters("gvbll_shadow_labels_total", "Labels held against what a head of the model in the shadow said.", "model", "head"),
		correct:     counters("gvbll_shadow_correct_labels_total", "Those for which its class was right.", "model", "head"),
		logLoss:     counters("gvbll_shadow_log_loss_nats_total", "Their negative log-likelihood, summed.", "model", "head"),
		brier:       counters("gvbll_shadow_brier_score_total", "Their Brier scores, summed over classes and labels.", "model", "head"),
		scored:      gauges("gvbll_shadow_prequential_labels", "Labels that the shadow's prequential scores are of.", "model", "head"),
		prequential: gauges("gvbll_shadow_prequential", "The shadow's scores since the first window, as gvbll_prequential has them of what serves.", "model", "head", "measure", "mean"),
	}
}

func (s *shadow) observe(out *event.Outcome) {
	if out.Promoted != "" {
		s.promotions.Inc()
	}
	if out.Shadow == nil {
		return
	}
	for i := range out.Shadow.Heads {
		h := &out.Shadow.Heads[i]
		var t calibration.Tally
		for k := range h.Scores {
			t.Add(&h.Scores[k])
		}
		s.labels.WithLabelValues(out.Shadow.Model, h.Name).Add(float64(t.Labels))
		s.correct.WithLabelValues(out.Shadow.Model, h.Name).Add(float64(t.Correct))
		s.logLoss.WithLabelValues(out.Shadow.Model, h.Name).Add(t.LogLoss)
		s.brier.WithLabelValues(out.Shadow.Model, h.Name).Add(t.Brier)
	}
}

// ShowModels says which model serves and which is in the shadow, nil for none.
func (m *Metrics) ShowModels(serves, behind *model.Model) {
	s := &m.shadow
	// The heads that serve, and those in the shadow, may have other names now.
	for _, v := range []*prometheus.GaugeVec{s.models, s.scored, s.prequential, m.vectors.scored, m.vectors.prequential} {
		v.Reset()
	}
	s.models.WithLabelValues(serves.ID, string(serves.Meta.Encoder), "serving").Set(1)
	if behind != nil {
		s.models.WithLabelValues(behind.ID, string(behind.Meta.Encoder), "shadow").Set(1)
	}
}

// ShowShadow sets the gauges of the scores so far of the model in the shadow.
func (m *Metrics) ShowShadow(id string, scores []pipeline.Summary) {
	for i := range scores {
		s := &scores[i]
		m.shadow.scored.WithLabelValues(id, s.Head).Set(float64(s.Total().Labels))
		for mean, v := range map[string]calibration.Means{"window": s.WindowMeans(), "label": s.LabelMeans()} {
			for measure, x := range map[string]float64{"accuracy": v.Acc, "nll": v.NLL, "ece": v.ECE, "brier": v.Brier} {
				m.shadow.prequential.WithLabelValues(id, s.Head, measure, mean).Set(x)
			}
		}
	}
}
