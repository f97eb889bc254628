package posterior_test

import (
	"fmt"

	"github.com/gvbll/gvbll/posterior"
)

// A head predicts a node, then learns its label, and so on along the stream.
func ExampleOnline() {
	prior := posterior.Gaussian{
		Dim: 2, Classes: 2,
		Mean:      []float64{0.5, -0.5, -0.5, 0.5},
		Precision: []float64{4, 4, 4, 4},
	}
	online := posterior.NewOnline(prior, posterior.DefaultConfig())
	static := posterior.NewStatic(prior)

	// The classes have changed places since training.
	rows := posterior.Rows{Z: []float32{1, 0, 0, 1}, Tau: []float64{1, 1}}
	labels := []int32{1, 0}
	probs := make([]float64, 4)
	for range 8 {
		online.Learn(rows, labels)
	}
	for _, head := range []posterior.Head{static, online} {
		head.Predict(rows, probs)
		fmt.Printf("%s after %d updates: %.2f\n", head.Name(), head.Version(), probs)
	}
	// Output:
	// static after 0 updates: [0.73 0.27 0.27 0.73]
	// online after 8 updates: [0.38 0.62 0.62 0.38]
}

// A dimension that training knew little about makes the weights, not the data,
// the reason for doubt.
func ExamplePredictive() {
	q := posterior.Gaussian{
		Dim: 2, Classes: 2,
		Mean:      []float64{0, 0, 0, 0},
		Precision: []float64{100, 100, 0.1, 0.1},
	}
	rows := posterior.Rows{Z: []float32{1, 0, 0, 1}, Tau: []float64{1, 1}}
	split := make([]posterior.Uncertainty, 2)
	posterior.NewPredictive(2, 64).Predict(&q, rows, nil, split)
	for _, u := range split {
		fmt.Printf("total %.1f nats, epistemic %.1f\n", u.Total, u.Epistemic)
	}
	// Output:
	// total 0.7 nats, epistemic 0.0
	// total 0.7 nats, epistemic 0.4
}
