package worker_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestStandbyMetrics: a replayed window is counted as replayed only, so that the sum over
// an owner and its standbys counts every window once.
func TestStandbyMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := worker.NewMetrics(reg)
	at := time.Now().Add(-time.Minute).UnixMilli()
	out := func(n int64) *event.Outcome {
		return &event.Outcome{Window: n, Predictions: []event.Prediction{{Time: at}, {}}}
	}
	for n := range int64(3) {
		m.Observe(replay.Stepped{Outcome: out(n), Cause: "count", Replayed: true})
	}
	m.Observe(replay.Stepped{Outcome: out(3), Cause: "count"})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, s := range f.Metric {
			switch {
			case s.Counter != nil:
				got[f.GetName()] += s.Counter.GetValue()
			case s.Gauge != nil:
				got[f.GetName()] += s.Gauge.GetValue()
			case s.Histogram != nil:
				got[f.GetName()] += float64(s.Histogram.GetSampleCount())
			}
		}
	}
	for name, want := range map[string]float64{
		"gvbll_window_number": 3, "gvbll_windows_replayed_total": 3, "gvbll_windows_total": 1,
		"gvbll_window_step_seconds": 1, "gvbll_prediction_age_seconds": 1, "gvbll_owner": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestHistogramBuckets: every histogram has classic buckets, which every Prometheus can
// read, and native ones, which are finer.
func TestHistogramBuckets(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	worker.NewMetrics(reg)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		for _, s := range f.Metric {
			if h := s.Histogram; h != nil {
				n++
				if len(h.Bucket) == 0 || h.Schema == nil {
					t.Errorf("%s has %d classic buckets and the native schema %v, want both", f.GetName(), len(h.Bucket), h.Schema)
				}
			}
		}
	}
	if n == 0 {
		t.Error("the registry has no histograms")
	}
}
