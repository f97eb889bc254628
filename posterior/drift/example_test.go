package drift_test

import (
	"fmt"

	"github.com/gvbll/gvbll/posterior/drift"
)

// The log loss rises at the thousandth label. ADWIN reports it a few labels later.
func ExampleADWIN() {
	a := drift.NewADWIN(drift.DefaultADWIN())
	for i := range 2000 {
		loss := 0.4 + 0.1*float64(i%3)
		if i >= 1000 {
			loss += 0.5
		}
		if a.Add(loss) {
			fmt.Printf("drift at %d: the mean is now %.2f\n", i, a.Mean())
		}
	}
	// Output:
	// drift at 1023: the mean is now 0.56
}

// Embeddings move, which is seen without any label.
func ExampleMMD() {
	m := drift.NewMMD(2)
	for i := range 2000 {
		z := []float32{float32(i % 7), float32(i % 5)}
		if i >= 1024 {
			z[0] += 3
		}
		if m.Add(z) {
			fmt.Printf("drift at %d\n", i)
		}
	}
	// Output:
	// drift at 1279
}

// A model is right less often than its confidence says.
func ExampleMonitor() {
	m := drift.NewMonitor()
	for i := range 1000 {
		m.Learn([]float64{0.9}, []bool{i%4 != 0})
	}
	m.Serve(0.9)
	now := m.Measures()
	fmt.Printf("confidence %.2f, accuracy about %.2f, ECE about %.2f\n", now.Confidence, now.EstimatedAccuracy, now.EstimatedECE)
	// Output:
	// confidence 0.90, accuracy about 0.75, ECE about 0.15
}
