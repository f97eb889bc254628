package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/topics/meter"
)

// attributes are the metrics of features by name.
type attributes struct {
	rows, unknown               prometheus.Counter
	values, shift, odd, oddLoss *prometheus.CounterVec
	trained, oddTrained         *prometheus.GaugeVec
	names                       []string // of the serving model's, the first [event.MostAttributes]
}

func newAttributes(r meter.Register) attributes {
	return attributes{
		rows:    r.Counter("gvbll_attribute_rows_total", "Node events with features by name that the model took."),
		unknown: r.Counter("gvbll_attributes_unknown_total", "Values under a name that the model's schema lacks, ignored."),
		values: r.Counters("gvbll_attribute_values_total", "Values of an attribute that were missing (gap), of a "+
			"category that training did not have (other), or further than ten standard deviations from its mean "+
			"(clipped).", "attribute", "is"),
		shift: r.Counters("gvbll_attribute_standard_deviations_total",
			"By how many standard deviations the values of an attribute were above (side: above) or below the mean "+
				"of training.", "attribute", "side"),
		trained: r.Gauges("gvbll_attribute_trained_share", "Share of the training rows whose value was a gap, or of "+
			"another category.", "attribute", "is"),
		odd: r.Counters("gvbll_attribute_odd_labels_total", "Scored labels, with --by, of nodes that have no value of an attribute, "+
			"one that training had not, or one two standard deviations from its mean.", "attribute"),
		oddLoss:    r.Counters("gvbll_attribute_odd_log_loss_nats_total", "Sum of the log losses of these labels.", "attribute"),
		oddTrained: r.Gauges("gvbll_attribute_odd_trained_share", "About the share of such nodes in training.", "attribute"),
	}
}

func (a *attributes) observe(out *event.Outcome) {
	for i, name := range a.names {
		if out.Cohorts != nil {
			labels, logLoss := serve.Odd(out, i)
			a.odd.WithLabelValues(name).Add(float64(labels))
			a.oddLoss.WithLabelValues(name).Add(logLoss)
		}
	}
	t := out.Odd.Attributes
	if t == nil {
		return
	}
	a.rows.Add(float64(t.Rows))
	for _, u := range t.Unknown {
		a.unknown.Add(float64(u.Values))
	}
	for i, name := range a.names[:min(len(a.names), len(t.Gaps))] {
		a.values.WithLabelValues(name, "gap").Add(float64(t.Gaps[i]))
		a.values.WithLabelValues(name, "other").Add(float64(t.Others[i]))
		a.values.WithLabelValues(name, "clipped").Add(float64(t.Clipped[i]))
		a.shift.WithLabelValues(name, "above").Add(max(t.Sum[i], 0))
		a.shift.WithLabelValues(name, "below").Add(max(-t.Sum[i], 0))
	}
}

// serve sets whose attributes are counted.
func (a *attributes) serve(m *model.Model) {
	a.trained.Reset()
	a.oddTrained.Reset()
	a.names = nil
	if m.Schema == nil {
		return
	}
	for i := range m.Schema.Attributes[:min(len(m.Schema.Attributes), event.MostAttributes)] {
		x := &m.Schema.Attributes[i]
		a.names = append(a.names, x.Name)
		a.trained.WithLabelValues(x.Name, "gap").Set(x.Gaps)
		a.trained.WithLabelValues(x.Name, "other").Set(x.Others)
		a.oddTrained.WithLabelValues(x.Name).Set(x.OddShare())
	}
}
