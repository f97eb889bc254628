package drift

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// near fails unless got is within tol of want.
func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s is %.4f, want %.4f ± %v", what, got, want, tol)
	}
}

// TestMonitorRecalibrates: confidences are too high by a tenth. The estimate of the
// accuracy learns this from labels, and follows confidences that fall before any further
// labels come.
func TestMonitorRecalibrates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := NewMonitor()
	draw := func(low, high float64) (confidence float64, ok bool) {
		confidence = low + rng.Float64()*(high-low)
		return confidence, rng.Float64() < confidence-0.1
	}
	for range 5000 {
		confidence, ok := draw(0.4, 1)
		m.Serve(confidence)
		m.Learn([]float64{confidence}, []bool{ok})
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

// TestMonitorBeforeLabelsBelievesConfidence: before any label, the estimated accuracy is
// the mean confidence.
func TestMonitorBeforeLabelsBelievesConfidence(t *testing.T) {
	m := NewMonitor()
	if m.Measures() != (measures{}) {
		t.Errorf("measures %+v before the first row, want zeros", m.Measures())
	}
	m.Serve(0.9)
	m.Serve(1)
	got := m.Measures()
	near(t, "confidence", got.Confidence, 0.95, 1e-3)
	near(t, "accuracy", got.EstimatedAccuracy, 0.95, 1e-3)
	near(t, "ECE", got.EstimatedECE, 0, 0)
}

// TestMonitorState: a restored monitor has the same measures and state, and a short state
// is an error.
func TestMonitorState(t *testing.T) {
	m, again := NewMonitor(), NewMonitor()
	for i := range 100 {
		m.Serve(float64(i) / 99)
		m.Learn([]float64{float64(i) / 99}, []bool{i%2 == 0})
	}
	state := m.AppendState(nil)
	if err := again.SetState(state); err != nil {
		t.Fatal(err)
	}
	if again.Measures() != m.Measures() || !bytes.Equal(again.AppendState(nil), state) {
		t.Errorf("restored measures %+v, want %+v and the saved bytes", again.Measures(), m.Measures())
	}
	if again.SetState(state[8:]) == nil {
		t.Error("SetState accepts a state that is too short")
	}
}

// TestMonitorRowsInOneCall: rows added in one call decay as rows added one by one.
func TestMonitorRowsInOneCall(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	each, together := NewMonitor(), NewMonitor()
	for n := range 200 {
		var confidence []float64
		var ok []bool
		for range n {
			confidence, ok = append(confidence, rng.Float64()), append(ok, rng.IntN(2) == 0)
		}
		for i := range n {
			each.Serve(confidence[i])
			each.Learn(confidence[i:i+1], ok[i:i+1])
		}
		together.Serve(confidence...)
		together.Learn(confidence, ok)
	}
	for i, want := range each.served {
		for what, x := range map[string][2]fading{"served": {together.served[i], want}, "realised": {together.realised[i], each.realised[i]}} {
			got, want := x[0], x[1]
			near(t, what+" count", got.count, want.count, 1e-9)
			near(t, what+" correct", got.correct, want.correct, 1e-9)
			near(t, what+" confidence", got.confidence, want.confidence, 1e-9)
		}
	}
}
