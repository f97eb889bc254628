package service

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Metrics of a graph of several cells: counters and histograms are the sums over the cells of this worker, so that scores, which
// are computed from these, are those of all its predictions. Of gauges, what is held and what waits is added up, and of times and
// facts the largest stands. The others say something of one cell alone, and are left out: its own page has them.

// addedUp are the gauges whose sum over cells means something.
var addedUp = []string{"gvbll_input_lag_records", "gvbll_input_withheld_records", "gvbll_level"}

// largest are gauges of which the largest stands for all cells, besides those of times.
var largest = []string{
	"gvbll_info", "gvbll_model_info", "gvbll_owner", "gvbll_window_longest_seconds", "gvbll_base_every_seconds", "gvbll_topic_at_risk",
}

// gather gathers the metrics of all cells.
func (f *fleet) gather() ([]*dto.MetricFamily, error) {
	f.mu.Lock()
	var registries []*prometheus.Registry
	for _, x := range f.list {
		registries = append(registries, x.web.Registry)
	}
	f.mu.Unlock()
	s := sums{families: make(map[string]*dto.MetricFamily), series: make(map[string]*dto.Metric)}
	for _, r := range registries {
		of, err := r.Gather()
		if err != nil {
			return nil, err
		}
		for _, family := range of {
			s.add(family)
		}
	}
	var all []*dto.MetricFamily
	for _, family := range s.families {
		all = append(all, family)
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

// sums are the sums of metrics that were gathered.
type sums struct {
	families map[string]*dto.MetricFamily
	series   map[string]*dto.Metric // by name and labels
}

func (s *sums) add(family *dto.MetricFamily) {
	name := family.GetName()
	adds, takesLargest := slices.Contains(addedUp, name), strings.HasSuffix(name, "_timestamp_seconds") || slices.Contains(largest, name)
	switch {
	case strings.HasPrefix(name, "gvbll_kafka_"): // of the client, which all share
		return
	case family.GetType() == dto.MetricType_GAUGE && !adds && !takesLargest:
		return
	}
	for _, m := range family.Metric {
		key := name
		for _, l := range m.Label { // sorted by name
			key += "\x00" + l.GetName() + "\x00" + l.GetValue()
		}
		sum := s.series[key]
		if sum == nil {
			s.series[key] = m
			of := s.families[name]
			if of == nil {
				s.families[name] = family
				of = family
				of.Metric = nil
			}
			of.Metric = append(of.Metric, m)
			continue
		}
		switch {
		case m.Counter != nil:
			*sum.Counter.Value += m.Counter.GetValue()
		case m.Gauge != nil && adds:
			*sum.Gauge.Value += m.Gauge.GetValue()
		case m.Gauge != nil:
			*sum.Gauge.Value = max(sum.Gauge.GetValue(), m.Gauge.GetValue())
		case m.Histogram != nil:
			addHistogram(sum.Histogram, m.Histogram)
		}
	}
}

// addHistogram adds one histogram to another of the same buckets.
func addHistogram(sum, h *dto.Histogram) {
	*sum.SampleCount += h.GetSampleCount()
	*sum.SampleSum += h.GetSampleSum()
	for i := range min(len(sum.Bucket), len(h.Bucket)) {
		*sum.Bucket[i].CumulativeCount += h.Bucket[i].GetCumulativeCount()
	}
}
