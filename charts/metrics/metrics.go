// Package metrics exports the engine's outcomes to Prometheus: scores of what was
// served, calibration, the graph, refused events, and the state of the posterior.
//
// Counters count live windows only, not those replayed from the ledger. So rates
// survive a restart, and since only the owner of a graph counts, the counters of
// several workers can be added up. Gauges describe the whole history, including
// replayed windows. A standby sets its gauges only at its start, so queries should
// select the worker with gvbll_owner 1.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/meter"
)

// Metrics are the metrics of one engine. Its methods must not be called
// concurrently.
type Metrics struct {
	stream   stream
	served   served
	heads    heads
	slices   slicing
	odds     odds
	health   health
	pool     pool
	models   models
	drift    drift
	sets     sets
	figures  figures
	fallback fallback

	attributes attributes
	cohorts    *cohorts
}

// New creates the metrics and registers them.
func New(reg prometheus.Registerer) *Metrics {
	r := meter.With(reg)
	return &Metrics{
		stream:   newStream(r),
		served:   newServed(r),
		heads:    newHeads(r),
		slices:   newSlices(r),
		odds:     newOdds(r),
		health:   newHealth(r),
		pool:     newPool(r),
		models:   newModels(r),
		drift:    newDrift(r),
		sets:     newSets(r),
		figures:  newFigures(r),
		fallback: newFallback(r),

		attributes: newAttributes(r),
		cohorts:    newCohorts(r),
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

// Watches names the classes that have bins beside the rarest, before ShowModels.
func (m *Metrics) Watches(classes []string) { m.odds.named = classes }

// Observe adds the outcome of a live window to the counters.
func (m *Metrics) Observe(out *event.Outcome) {
	m.stream.observe(out)
	m.served.observe(out)
	m.heads.observe(out)
	m.slices.observe(out)
	m.odds.observe(out)
	m.models.observe(out)
	m.drift.observe(out)
	m.sets.observe(out)
	m.figures.observe(out)
	m.attributes.observe(out)
	m.cohorts.observe(out)
}

// Show sets the gauges after a window: how full the engine's stores are, the state
// of the drift detectors, and each head's scores since the first window.
func (m *Metrics) Show(out *event.Outcome, scores []pipeline.Summary) {
	m.figures.show(out)
	m.heads.show(out, scores)
	m.drift.show(out)
	m.sets.show(out)
	m.fallback.show(out)
}

// ShowModels sets which model serves and which is in the shadow, nil for none. It
// drops the gauges of the former model's heads and classes, which may have other names.
func (m *Metrics) ShowModels(serving, shadow *model.Model) {
	m.heads.reset()
	m.pool.reset()
	m.health.reset()
	m.models.show(serving, shadow)
	m.odds.serve(serving)
	m.attributes.serve(serving)
}

// ShowShadow sets the scores since the first window of the shadow model's heads.
func (m *Metrics) ShowShadow(id string, scores []pipeline.Summary) {
	for i := range scores {
		m.models.scores.show(&scores[i], false, id, scores[i].Head)
	}
}
