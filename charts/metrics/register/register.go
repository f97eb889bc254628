// Package register makes Prometheus metrics, each with all that others have of its kind. It imports nothing of
// this project: what a worker does in Kafka and what its model does are measured in rooms that do not know each other.
package register

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Register creates metrics and registers them.
type Register struct{ factory promauto.Factory }

// In returns a register of metrics in reg.
func In(reg prometheus.Registerer) Register { return Register{promauto.With(reg)} }

// Counter makes a counter without labels.
func (r Register) Counter(name, help string) prometheus.Counter {
	return r.factory.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters makes counters by labels.
func (r Register) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return r.factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge makes a gauge without labels.
func (r Register) Gauge(name, help string) prometheus.Gauge {
	return r.factory.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges makes gauges by labels.
func (r Register) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return r.factory.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Histogram makes a histogram with classic and native buckets.
func (r Register) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return r.factory.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	})
}
