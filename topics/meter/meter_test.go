package meter_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gvbll/gvbll/topics/meter"
)

// TestQuietHistogram: a histogram has no series before it has observed something, with an exemplar or without; all else has them from the
// start.
func TestQuietHistogram(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := meter.With(reg)
	first, second := r.Histogram("a_seconds", "First.", []float64{1, 2}), r.Histogram("b_seconds", "Second.", []float64{1, 2})
	r.Counter("c_total", "A counter.")
	r.Gauge("d", "A gauge.")
	series := func() int {
		n, err := testutil.GatherAndCount(reg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := series(); n != 2 {
		t.Errorf("%d metrics before an observation, want 2", n)
	}
	first.Observe(1)
	if n := series(); n != 3 {
		t.Errorf("%d metrics after one, want 3", n)
	}
	second.(prometheus.ExemplarObserver).ObserveWithExemplar(1, prometheus.Labels{"trace_id": "x"})
	if n := series(); n != 4 {
		t.Errorf("%d metrics after both, want 4", n)
	}
}
