package drift

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s is %.4f, want %.4f ± %v", what, got, want, tol)
	}
}

// A model whose confidences are too high by a tenth: the estimate learns it from
// labels, and follows confidences that fall before any more labels come.
func TestMonitorRecalibrates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := NewMonitor(DefaultMonitor())
	draw := func(low, high float64) (confidence float64, ok bool) {
		confidence = low + rng.Float64()*(high-low)
		return confidence, rng.Float64() < confidence-0.1
	}
	for range 5000 {
		confidence, ok := draw(0.4, 1)
		m.Serve(confidence)
		m.Learn(confidence, ok)
	}
	got := m.Measures()
	near(t, "mean confidence", got.Confidence, 0.7, 0.02)
	near(t, "estimated accuracy", got.EstimatedAccuracy, 0.6, 0.04)
	near(t, "realised accuracy", got.RealisedAccuracy, 0.6, 0.04)
	near(t, "estimated ECE", got.EstimatedECE, 0.1, 0.04)
	near(t, "realised ECE", got.RealisedECE, 0.1, 0.04)
	for range 5000 {
		confidence, _ := draw(0.4, 0.6)
		m.Serve(confidence)
	}
	got = m.Measures()
	near(t, "estimated accuracy of less certain rows", got.EstimatedAccuracy, 0.4, 0.05)
	near(t, "realised accuracy", got.RealisedAccuracy, 0.6, 0.04)
}

func TestMonitorBeforeLabelsBelievesConfidence(t *testing.T) {
	m := NewMonitor(DefaultMonitor())
	if m.Measures() != (Measures{}) {
		t.Errorf("%+v before the first row", m.Measures())
	}
	m.Serve(0.9)
	m.Serve(1)
	got := m.Measures()
	near(t, "confidence", got.Confidence, 0.95, 1e-3)
	near(t, "accuracy", got.EstimatedAccuracy, 0.95, 1e-3)
	near(t, "ECE", got.EstimatedECE, 0, 0)
}

func TestMonitorState(t *testing.T) {
	m, again := NewMonitor(DefaultMonitor()), NewMonitor(DefaultMonitor())
	for i := range 100 {
		m.Serve(float64(i) / 99)
		m.Learn(float64(i)/99, i%2 == 0)
	}
	state := m.AppendState(nil)
	if err := again.SetState(state); err != nil {
		t.Fatal(err)
	}
	if again.Measures() != m.Measures() || !bytes.Equal(again.AppendState(nil), state) {
		t.Error("the state comes back different")
	}
	if again.SetState(state[8:]) == nil {
		t.Error("a short state is taken")
	}
}
