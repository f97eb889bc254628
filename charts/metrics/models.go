package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/topics/meter"
)

// models are the metrics of which model serves and which is in the shadow, and of
// the shadow's scores: the same as those of the serving model, under other names.
type models struct {
	promotions        prometheus.Counter
	info, trial, lead *prometheus.GaugeVec
	scores            scores
}

func newModels(r meter.Register) models {
	return models{
		promotions: r.Counter("gvbll_promotions_total", "Times that the shadow model was promoted and serves since."),
		info: r.Gauges("gvbll_model_info", "Always 1; the labels say which model serves and which is in "+
			"the shadow.", "model", "encoder", "part"),
		trial: r.Gauges("gvbll_trial_labels", "Labels by which a model on trial is compared with the one that "+
			"serves, and those that are needed (0 for never).", "model", "of"),
		lead: r.Gauges("gvbll_trial_lead_nats", "Log loss of the model that serves less that of the model on "+
			"trial, over the labels by which they are compared.", "model"),
		scores: newScores(r, "gvbll_shadow_", "labels_total", "Labels that the predictions of a shadow model's head were scored against.",
			"The shadow model's mean scores since the first window, as gvbll_prequential has them for the model that serves.",
			" Of a shadow model.", "model", "head"),
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
		t := serve.Tally(&out.Shadow.Heads[i])
		m.scores.add(&t, out.Shadow.Model, out.Shadow.Heads[i].Name)
	}
}

func (m *models) serve(serving, shadow *model.Model) {
	m.info.WithLabelValues(serving.ID, string(serving.Meta.Encoder), "serving").Set(1)
	if shadow != nil {
		m.info.WithLabelValues(shadow.ID, string(shadow.Meta.Encoder), "shadow").Set(1)
	}
}

// ShowShadow sets the scores since the first window of the shadow model's heads.
func (m *Metrics) ShowShadow(id string, scores []pipeline.Summary) {
	for i := range scores {
		m.models.scores.show(&scores[i], false, id, scores[i].Head)
	}
}

// Trial shows how a model on trial does, "" for none: by how many labels it is compared, how
// many are needed (0: the trial has no rule), and its lead in nats.
func (m *Metrics) Trial(model string, compared, needed int64, lead float64) {
	m.models.trial.Reset()
	m.models.lead.Reset()
	if model != "" {
		m.models.trial.WithLabelValues(model, "compared").Set(float64(compared))
		m.models.trial.WithLabelValues(model, "needed").Set(float64(needed))
		m.models.lead.WithLabelValues(model).Set(lead)
	}
}
