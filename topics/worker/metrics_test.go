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
// read, and native ones, which are finer. One that has observed nothing is not there.
func TestHistogramBuckets(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := worker.NewMetrics(reg)
	m.Observe(replay.Stepped{Outcome: &event.Outcome{Predictions: []event.Prediction{{Time: 1}}}, Cause: "count"})
	m.Observe(replay.Committed{Tries: 1})
	m.Observe(replay.TookOver{})
	m.Observe(replay.Saved{})
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
	if n != 6 {
		t.Errorf("the registry has %d histograms, want 6: nothing was forgotten", n)
	}
}

// TestExemplars: the age of a prediction has the trace that its record names as an exemplar. What is no W3C trace context has none.
func TestExemplars(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	reg := prometheus.NewPedanticRegistry()
	m := worker.NewMetrics(reg)
	var list []event.Prediction
	for _, header := range []string{"", "00-" + id, "00-" + id + "-00f067aa0ba902b7-01", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"} {
		o := &event.Origin{Headers: []event.Header{{Key: "traceparent", Value: []byte(header)}}}
		list = append(list, event.Prediction{Time: time.Now().UnixMilli(), Origin: o})
	}
	m.Observe(replay.Stepped{Outcome: &event.Outcome{Predictions: list}, Cause: "count"})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var traces []string
	for _, f := range families {
		for _, s := range f.Metric {
			for _, b := range s.Histogram.GetBucket() {
				for _, l := range b.GetExemplar().GetLabel() {
					traces = append(traces, f.GetName()+" "+l.GetName()+" "+l.GetValue())
				}
			}
		}
	}
	if len(traces) != 1 || traces[0] != "gvbll_prediction_age_seconds trace_id "+id {
		t.Errorf("exemplars are %q, want that of the third record", traces)
	}
}

// TestLastLabel: a window with labels says when they came; one without does not, nor one that is replayed.
func TestLastLabel(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := worker.NewMetrics(reg)
	last := func() float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "gvbll_last_label_timestamp_seconds" {
				return f.Metric[0].Gauge.GetValue()
			}
		}
		return -1
	}
	labelled := &event.Outcome{}
	labelled.Figures.Count(event.LabelsJoined, 3)
	m.Observe(replay.Stepped{Outcome: &event.Outcome{}, Cause: "count"})
	m.Observe(replay.Stepped{Outcome: labelled, Cause: "count", Replayed: true})
	if got := last(); got != 0 {
		t.Errorf("the last label came at %v, want 0: none has", got)
	}
	before := float64(time.Now().UnixMilli()) / 1000
	m.Observe(replay.Stepped{Outcome: labelled, Cause: "count"})
	at := last()
	m.Observe(replay.Stepped{Outcome: &event.Outcome{}, Cause: "count"})
	if at < before || at != last() {
		t.Errorf("the last label came at %v, then at %v, want one time from %v on", at, last(), before)
	}
}
