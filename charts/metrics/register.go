package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// register creates metrics and registers them.
type register struct{ promauto.Factory }

func (r register) counter(name, help string) prometheus.Counter {
	return r.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func (r register) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return r.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (r register) gauge(name, help string) prometheus.Gauge {
	return r.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (r register) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return r.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// histogram creates a histogram with classic and native buckets.
func (r register) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return r.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	})
}

// maxClasses is the number of classes that have series of their own. All others
// share the series named otherClasses, so that a model of many classes does not
// have as many series.
const (
	maxClasses   = 64
	otherClasses = "(other)"
)

// byClass makes series of type T on demand, for the first maxClasses names asked
// for; all later names share one.
type byClass[T any] struct {
	series map[string]T
	create func(name string) T
}

func newByClass[T any](create func(name string) T) byClass[T] {
	return byClass[T]{make(map[string]T), create}
}

func (b *byClass[T]) of(name string) T {
	if s, ok := b.series[name]; ok {
		return s
	}
	if len(b.series) >= maxClasses {
		if name = otherClasses; len(b.series) > maxClasses {
			return b.series[name]
		}
	}
	s := b.create(name)
	b.series[name] = s
	return s
}
