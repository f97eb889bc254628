package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/topics/meter"
)

// cohorts are the metrics of scores by the value of an attribute (--by). There is no series without it.
type cohorts struct {
	values byClass[cohort]
	scores *prometheus.GaugeVec
	by     string
}

// cohort is the series of a value.
type cohort struct {
	labels, correct, logLoss, covered prometheus.Counter
	acts                              [3]prometheus.Counter // caught, vain, missed
}

func newCohorts(r meter.Register) *cohorts {
	labels := r.Counters("gvbll_cohort_labels_total", "Scored labels by the value of an attribute (--by) that their "+
		"node has: the first values "+
		"that came, at most 20, and (others); (none) has no value.", "by", "value")
	correct := r.Counters("gvbll_cohort_correct_total", "Those among them whose node was predicted right.", "by", "value")
	logLoss := r.Counters("gvbll_cohort_log_loss_nats_total", "Sum of the log losses of these labels.", "by", "value")
	covered := r.Counters("gvbll_cohort_set_covered_total", "Those among them that were in the set of classes served "+
		"(--coverage).", "by", "value")
	acts := r.Counters("gvbll_cohort_acted_labels_total", "Those among them by what acting brought (--act): caught, vain or missed.",
		"by", "value", "result")
	c := &cohorts{scores: r.Gauges("gvbll_cohort_score", "Scores of a value since the first window: ece, and ece_chance, what it has at "+
		"most by chance; auc of the class that is acted on, or else of the rarest. No series below 50 labels.", "by", "value", "measure")}
	c.values = newByClass(func(value string) cohort {
		of := func(v *prometheus.CounterVec, more ...string) prometheus.Counter {
			return v.WithLabelValues(append([]string{c.by, value}, more...)...)
		}
		return cohort{of(labels), of(correct), of(logLoss), of(covered), [3]prometheus.Counter{
			of(acts, "caught"), of(acts, "vain"), of(acts, "missed"),
		}}
	})
	return c
}

func (c *cohorts) observe(out *event.Outcome) {
	if out.Cohorts == nil {
		return
	}
	by := serve.CohortsOf(out)
	c.by = by.By
	for _, value := range append([]string{serve.OtherCohorts}, out.Cohorts.Known...) {
		c.values.of(value) // from its first node, so that a rate sees the first label
	}
	for i := range by.List {
		x := &by.List[i]
		s := c.values.of(x.Value)
		s.labels.Add(float64(x.Labels))
		s.correct.Add(float64(x.Correct))
		s.logLoss.Add(x.LogLoss)
		s.covered.Add(float64(x.Held))
		for k, n := range [...]int{x.Caught, x.Vain, x.Missed} {
			s.acts[k].Add(float64(n))
		}
	}
}

// ShowCohorts sets the gauges of scores by the value of an attribute.
func (m *Metrics) ShowCohorts(by pipeline.Cohorts) {
	for i := range by.List {
		known := by.List[i].Scores()
		for _, measure := range []string{"ece", "ece_chance", "auc"} {
			if score, ok := known[measure]; ok {
				m.cohorts.scores.WithLabelValues(by.By, by.List[i].Value, measure).Set(score)
			}
		}
	}
}
