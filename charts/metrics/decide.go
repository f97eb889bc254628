package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/topics/meter"
)

// Calls counts the calls of POST /v1/decide.
type Calls struct {
	results *prometheus.CounterVec
	took    prometheus.Histogram
}

// NewCalls returns counts that are registered.
func NewCalls(reg prometheus.Registerer) *Calls {
	r := meter.With(reg)
	return &Calls{
		results: r.Counters("gvbll_decide_calls_total", "Calls of POST /v1/decide by result: answered, again (of a node that was "+
			"decided already), old, busy, late.", "result"),
		took: r.Histogram("gvbll_decide_seconds", "Time from a call of POST /v1/decide to its answer.",
			[]float64{.01, .025, .05, .1, .15, .2, .3, .5, 1, 2, 5, 10, 20}),
	}
}

// Ended counts a call that took so long. One without an answer has no time.
func (c *Calls) Ended(result string, took time.Duration, answered bool) {
	if c.results.WithLabelValues(result).Inc(); answered {
		c.took.Observe(took.Seconds())
	}
}
