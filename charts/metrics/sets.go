package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/meter"
)

// sets are the metrics of sets of classes and of abstention.
type sets struct {
	abstentions *prometheus.CounterVec
	target      prometheus.Gauge
	groups      byClass[group]
}

// group is the series of the sets that share a threshold.
type group struct{ labels, covered, classes prometheus.Counter }

func newSets(r meter.Register) sets {
	labels := r.Counters("gvbll_set_labels_total", "Labels of nodes that were served a set of classes, by the class "+
		"whose threshold the set had; all where there is one threshold.", "group")
	covered := r.Counters("gvbll_set_covered_total", "Labels that were in the set of classes served.", "group")
	classes := r.Counters("gvbll_set_classes_total", "Sum of the sizes of labelled sets of classes.", "group")
	s := sets{
		abstentions: r.Counters("gvbll_abstentions_total", "Predictions served with the advice not to act on them, by reason.", "reason"),
		target:      r.Gauge("gvbll_set_coverage_target", "Share of sets that should contain the label; 0 where no sets are served."),
		groups: newByClass(func(name string) group {
			return group{labels.WithLabelValues(name), covered.WithLabelValues(name), classes.WithLabelValues(name)}
		}),
	}
	for _, reason := range []string{"empty-set", "large-set", "low-confidence"} {
		s.abstentions.WithLabelValues(reason)
	}
	return s
}

func (s *sets) observe(out *event.Outcome) {
	if out.Coverage == nil {
		return
	}
	for i := range out.Predictions {
		if reason := out.Predictions[i].Set.Abstain; reason != "" {
			s.abstentions.WithLabelValues(reason).Inc()
		}
	}
	for _, c := range out.Coverage.Labels {
		name := c.Group
		if name == "" {
			name = "all"
		}
		g := s.groups.of(name)
		g.labels.Inc()
		g.classes.Add(float64(c.Size))
		if c.Held {
			g.covered.Inc()
		}
	}
}

func (s *sets) show(out *event.Outcome) {
	if out.Coverage != nil {
		s.target.Set(out.Coverage.Target)
	}
}

// fallback are the metrics of the static head serving in place of the online one.
type fallback struct {
	serving, lead prometheus.Gauge
}

func newFallback(r meter.Register) fallback {
	return fallback{
		serving: r.Gauge("gvbll_fallback", "1 while the model as trained serves, because it is ahead of the one that learns; else 0."),
		lead: r.Gauge("gvbll_fallback_lead_nats", "Log-likelihood by which the model as trained is ahead, at least "+
			"0; at the threshold it serves."),
	}
}

func (f *fallback) show(out *event.Outcome) {
	f.serving.Set(float64(min(out.ServedBy, 1)))
	lead := 0.0
	for i := range out.Heads {
		lead = max(lead, out.Heads[i].Lead)
	}
	f.lead.Set(lead)
}
