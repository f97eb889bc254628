package gp_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/cmd/lab/gp"
)

// One class is surrounded by a ring of the other, so that no linear classifier separates
// them.
func Example() {
	rng := rand.New(rand.NewPCG(1, 2))
	var z []float32
	var labels []int32
	for i := range 80 {
		class := i % 2
		radius, angle := 3*float64(class)+rng.Float64(), 2*math.Pi*rng.Float64()
		z = append(z, float32(radius*math.Cos(angle)), float32(radius*math.Sin(angle)))
		labels = append(labels, int32(class))
	}
	classifier, err := gp.Fit(context.Background(), z, 2, 2, labels, gp.Config{Inducing: 24, Seed: 1}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	probs := make([]float64, 6)
	classifier.Predict([]float32{0, 0, 0, 3.5, 1000, 1000}, probs)
	fmt.Printf("within  %.1f\n", probs[0:2])
	fmt.Printf("ring    %.1f\n", probs[2:4])
	fmt.Printf("far off %.1f\n", probs[4:6])
	// Output:
	// within  [1.0 0.0]
	// ring    [0.0 1.0]
	// far off [0.5 0.5]
}
