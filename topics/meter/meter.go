// Package meter registers metrics, each with all that others have of its kind.
package meter

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Register creates metrics and registers them.
type Register struct {
	factory promauto.Factory
	with    prometheus.Registerer
}

// With returns what registers with reg.
func With(reg prometheus.Registerer) Register { return Register{promauto.With(reg), reg} }

// Counter creates a counter.
func (r Register) Counter(name, help string) prometheus.Counter {
	return r.factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters creates counters by label.
func (r Register) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return r.factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge creates a gauge.
func (r Register) Gauge(name, help string) prometheus.Gauge {
	return r.factory.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges creates gauges by label.
func (r Register) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return r.factory.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Histogram creates a histogram with classic and native buckets. It has no series before its first observation: those of an owner are not
// a standby's.
func (r Register) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := &quiet{Histogram: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	})}
	r.with.MustRegister(h)
	return h
}

// quiet is a histogram that is not collected before it has observed something.
type quiet struct {
	prometheus.Histogram
	observed atomic.Bool
}

// Observe implements [prometheus.Histogram].
func (q *quiet) Observe(x float64) {
	q.Histogram.Observe(x)
	q.observed.Store(true)
}

// ObserveWithExemplar implements [prometheus.ExemplarObserver].
func (q *quiet) ObserveWithExemplar(x float64, exemplar prometheus.Labels) {
	q.Histogram.(prometheus.ExemplarObserver).ObserveWithExemplar(x, exemplar)
	q.observed.Store(true)
}

// Collect implements [prometheus.Collector].
func (q *quiet) Collect(to chan<- prometheus.Metric) {
	if q.observed.Load() {
		q.Histogram.Collect(to)
	}
}
