package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/topics/meter"
)

// cohorts are the metrics of scores by the value of an attribute (--by), of which there are few. There is no series
// without it, none of acts
// without --act, and none of sets without --coverage.
type cohorts struct {
	labels, correct, logLoss, covered, acted *prometheus.CounterVec
	scores                                   *prometheus.GaugeVec
	acting                                   bool // a prediction has said whether to act
}

func newCohorts(r meter.Register) cohorts {
	return cohorts{
		labels: r.Counters("gvbll_cohort_labels_total", "Scored labels by the value of an attribute (--by) that their node has: the "+
			"first values that came, at most 20, and (others); (none) has no value.", "by", "value"),
		correct: r.Counters("gvbll_cohort_correct_total", "Those among them whose node was predicted right.", "by", "value"),
		logLoss: r.Counters("gvbll_cohort_log_loss_nats_total", "Sum of the log losses of these labels.", "by", "value"),
		covered: r.Counters("gvbll_cohort_set_covered_total", "Those among them that were in the set of classes served "+
			"(--coverage).", "by", "value"),
		acted: r.Counters("gvbll_cohort_acted_labels_total", "Those among them by what acting brought (--act): caught, vain or missed.",
			"by", "value", "result"),
		scores: r.Gauges("gvbll_cohort_score", "Scores of a value since the first window, from 50 labels on: ece; "+
			"ece_chance, the most that chance gives; auc of the class that is acted on, else of the rarest.", "by", "value", "measure"),
	}
}

func (c *cohorts) observe(out *event.Outcome) {
	if out.Cohorts == nil {
		return
	}
	by := serve.CohortsOf(out)
	c.acting = c.acting || len(out.Predictions) > 0 && out.Predictions[0].Act != nil
	// from its first node, so that a rate sees the first label
	for _, value := range append([]string{serve.OtherCohorts}, out.Cohorts.Known...) {
		c.add(out, &serve.Cohort{Value: value})
	}
	for i := range by.List {
		c.add(out, &by.List[i])
	}
}

func (c *cohorts) add(out *event.Outcome, x *serve.Cohort) {
	by := []string{out.Cohorts.By, x.Value}
	c.labels.WithLabelValues(by...).Add(float64(x.Labels))
	c.correct.WithLabelValues(by...).Add(float64(x.Correct))
	c.logLoss.WithLabelValues(by...).Add(x.LogLoss)
	if out.Coverage != nil {
		c.covered.WithLabelValues(by...).Add(float64(x.Held))
	}
	if c.acting {
		for result, n := range map[string]int{"caught": x.Caught, "vain": x.Vain, "missed": x.Missed} {
			c.acted.WithLabelValues(by[0], by[1], result).Add(float64(n))
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
