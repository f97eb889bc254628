package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/topics/meter"
)

// models are the metrics of which model serves and which is in the shadow, and of
// the shadow's scores: the same as those of the serving model, under other names.
type models struct {
	promotions prometheus.Counter
	info       *prometheus.GaugeVec
	trial      *prometheus.GaugeVec
	lead       *prometheus.GaugeVec
	scores     scores
}

func newModels(r meter.Register) models {
	return models{
		promotions: r.Counter("gvbll_promotions_total", "Times that the shadow model was promoted and serves since."),
		info: r.Gauges("gvbll_model_info", "Always 1; the labels say which model serves and which is in "+
			"the shadow.", "model", "encoder", "part"),
		trial: r.Gauges("gvbll_trial_labels", "Labels by which a model on trial is compared with the one that "+
			"serves (compared), and those after which the better one serves (needed, 0 for never).", "model", "of"),
		lead: r.Gauges("gvbll_trial_lead_nats", "Log loss of the model that serves less that of the model on "+
			"trial, over the labels by which they are compared.", "model"),
		scores: scores{
			labels: r.Counters("gvbll_shadow_labels_total",
				"Labels that the predictions of a shadow model's head were scored against.", "model", "head"),
			correct: r.Counters("gvbll_shadow_correct_labels_total",
				"Scored labels that the shadow model's head had predicted.", "model", "head"),
			logLoss: r.Counters("gvbll_shadow_log_loss_nats_total",
				"Sum of the log losses (negative log-likelihoods) of the shadow model's scored labels.", "model", "head"),
			brier: r.Counters("gvbll_shadow_brier_score_total",
				"Sum of the Brier scores of the shadow model's scored labels, each from 0 to 2.", "model", "head"),
			scored: r.Gauges("gvbll_shadow_prequential_labels",
				"Number of labels in the shadow model's prequential scores.", "model", "head"),
			means: r.Gauges("gvbll_shadow_prequential", "The shadow model's mean scores since the first window, as "+
				"gvbll_prequential has them for the model that serves.", "model", "head", "measure", "mean"),
		},
	}
}

func (m *models) observe(out *event.Outcome) {
	if out.Promoted != "" {
		m.promotions.Inc()
	}
	if out.Shadow == nil {
		return
	}
	for i := range out.Shadow.Heads {
		h := &out.Shadow.Heads[i]
		s := m.scores.of(out.Shadow.Model, h.Name)
		t := serve.Tally(h)
		s.add(&t)
	}
}

func (m *models) show(serving, shadow *model.Model) {
	m.info.Reset()
	m.scores.reset()
	m.info.WithLabelValues(serving.ID, string(serving.Meta.Encoder), "serving").Set(1)
	if shadow != nil {
		m.info.WithLabelValues(shadow.ID, string(shadow.Meta.Encoder), "shadow").Set(1)
	}
}
