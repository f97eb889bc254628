package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Calls counts the calls of POST /v1/decide.
type Calls struct {
	results *prometheus.CounterVec
	took    prometheus.Histogram
}

// NewCalls returns counts that are registered.
func NewCalls(reg prometheus.Registerer) *Calls {
	c := &Calls{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gvbll_decide_calls_total",
			Help: "Calls of POST /v1/decide by result: answered, again (of a node that was decided already), old, busy, late.",
		}, []string{"result"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gvbll_decide_seconds", Help: "Time from a call of POST /v1/decide to its answer.",
			Buckets: []float64{.01, .025, .05, .1, .15, .2, .3, .5, 1, 2, 5, 10, 20},
		}),
	}
	reg.MustRegister(c.results, c.took)
	return c
}

// Ended counts a call that took so long. One without an answer has no time.
func (c *Calls) Ended(result string, took time.Duration, answered bool) {
	if c.results.WithLabelValues(result).Inc(); answered {
		c.took.Observe(took.Seconds())
	}
}
