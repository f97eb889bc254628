package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/topics/meter"
)

// figures are the metrics of all figures that the parts of the engine declare.
type figures struct {
	sums   map[*figure.Figure]prometheus.Counter
	levels map[*figure.Figure]prometheus.Gauge
}

func newFigures(r meter.Register) figures {
	f := figures{make(map[*figure.Figure]prometheus.Counter), make(map[*figure.Figure]prometheus.Gauge)}
	counters, gauges := make(map[string]*prometheus.CounterVec), make(map[string]*prometheus.GaugeVec)
	for _, x := range figure.All() {
		var labels, values []string
		if x.Label != "" {
			labels, values = []string{x.Label}, []string{x.Value}
		}
		name := "gvbll_" + x.Name
		switch {
		case x.Level && gauges[name] == nil:
			gauges[name] = r.Gauges(name, x.Help, labels...)
		case !x.Level && counters[name] == nil:
			counters[name] = r.Counters(name, x.Help, labels...)
		}
		if x.Level {
			f.levels[x] = gauges[name].WithLabelValues(values...)
		} else {
			f.sums[x] = counters[name].WithLabelValues(values...)
		}
	}
	return f
}

func (f *figures) observe(out *event.Outcome) {
	for x, counter := range f.sums {
		counter.Add(max(out.Figures.Of(x), 0))
	}
}

func (f *figures) show(out *event.Outcome) {
	for x, gauge := range f.levels {
		gauge.Set(out.Figures.Of(x))
	}
}
