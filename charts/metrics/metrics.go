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
	served     served
	heads      heads
	odds       odds
	learned    learned
	models     models
	drift      drift
	sets       sets
	figures    figures
	attributes attributes
	cohorts    cohorts
}

// New creates the metrics and registers them.
func New(reg prometheus.Registerer) *Metrics {
	r := meter.With(reg)
	return &Metrics{
		served:     newServed(r),
		heads:      newHeads(r),
		odds:       newOdds(r),
		learned:    newLearned(r),
		models:     newModels(r),
		drift:      newDrift(r),
		sets:       newSets(r),
		figures:    newFigures(r),
		attributes: newAttributes(r),
		cohorts:    newCohorts(r),
	}
}

// Watches names the classes that have bins beside the rarest, before ShowModels.
func (m *Metrics) Watches(classes []string) { m.odds.named = classes }

// Observe adds the outcome of a live window to the counters.
func (m *Metrics) Observe(out *event.Outcome) {
	m.served.observe(out)
	m.heads.observe(out)
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
	m.odds.showLatest()
	m.drift.show(out)
	m.sets.show(out)
}

// ShowModels sets which model serves and which is in the shadow, nil for none. It
// drops the gauges of the former model's heads and classes, which may have other names.
func (m *Metrics) ShowModels(serving, shadow *model.Model) {
	l := &m.learned
	m.heads.scores.reset()
	m.models.scores.reset()
	for _, g := range []*prometheus.GaugeVec{
		m.heads.step, m.models.info, l.weight, l.share, l.bias, l.rate, l.regret, l.distance, l.kl, l.entries,
	} {
		g.Reset()
	}
	m.models.serve(serving, shadow)
	m.odds.serve(serving)
	m.attributes.serve(serving)
}

// maxClasses is the number of classes that have series of their own. All others
// share the series named otherClasses, so that a model of many classes does not
// have as many series.
const (
	maxClasses   = 64
	otherClasses = "(other)"
)

// names are the values of a label that have series of their own: the first maxClasses that came.
type names map[string]bool

// of returns the value of the label for a name.
func (n names) of(name string) string {
	if !n[name] {
		if len(n) >= maxClasses {
			return otherClasses
		}
		n[name] = true
	}
	return name
}
