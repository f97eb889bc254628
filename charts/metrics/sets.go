package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/meter"
)

// sets are the metrics of sets of classes, of abstention, and of the static head serving in place of the online one.
type sets struct {
	abstentions, labels, covered, classes *prometheus.CounterVec
	target, fallback, lead                prometheus.Gauge
	groups                                names
}

func newSets(r meter.Register) sets {
	s := sets{
		labels: r.Counters("gvbll_set_labels_total", "Labels of nodes that were served a set of classes, by the class "+
			"whose threshold the set had; all where there is one threshold.", "group"),
		covered:     r.Counters("gvbll_set_covered_total", "Labels that were in the set of classes served.", "group"),
		classes:     r.Counters("gvbll_set_classes_total", "Sum of the sizes of labelled sets of classes.", "group"),
		abstentions: r.Counters("gvbll_abstentions_total", "Predictions served with the advice not to act on them, by reason.", "reason"),
		target:      r.Gauge("gvbll_set_coverage_target", "Share of sets that should contain the label; 0 where no sets are served."),
		groups:      make(names),
		fallback:    r.Gauge("gvbll_fallback", "1 while the model as trained serves, because it is ahead of the one that learns; else 0."),
		lead: r.Gauge("gvbll_fallback_lead_nats", "Log-likelihood by which the model as trained is ahead, at least "+
			"0; at the threshold it serves."),
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
		group := s.groups.of(cmp.Or(c.Group, "all"))
		s.labels.WithLabelValues(group).Inc()
		s.classes.WithLabelValues(group).Add(float64(c.Size))
		if covered := s.covered.WithLabelValues(group); c.Held {
			covered.Inc()
		}
	}
}

func (s *sets) show(out *event.Outcome) {
	if out.Coverage != nil {
		s.target.Set(out.Coverage.Target)
	}
	s.fallback.Set(float64(min(out.ServedBy, 1)))
	lead := 0.0
	for i := range out.Heads {
		lead = max(lead, out.Heads[i].Lead)
	}
	s.lead.Set(lead)
}
