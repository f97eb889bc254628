package pool_test

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/posterior/pool"
)

// Nodes of two classes with different words are served, then learned, three times.
func Example() {
	cfg := pool.Default(pool.Traits{Features: 1000})
	cfg.Heads = []pool.HeadConfig{
		{Name: "words", Wide: &pool.Wide{Blocks: []pool.Block{pool.OwnFeatures}, Scale: pool.Unit, Variance: 30, Lambda: 1, Passes: 3, TrainingPasses: 40}},
		{Name: "bayes", Bayes: &pool.Bayes{Smoothing: 0.2}},
	}
	p, err := pool.New(cfg, pool.Shape{Classes: 2, Features: 4}, nil)
	if err != nil {
		panic(err)
	}
	rows := pool.Rows{N: 2, X: pool.Features{
		Start: []int{0, 2, 4}, Index: []int32{0, 1, 2, 3}, Value: []float32{1, 1, 1, 1},
	}}
	for range 3 {
		logProbs := make([]float32, rows.N*p.LogProbsPerRow())
		p.Predict(rows, logProbs)
		fmt.Printf("class 0: %.2f, %.2f\n", math.Exp(float64(logProbs[0])), math.Exp(float64(logProbs[p.LogProbsPerRow()])))
		p.Learn(pool.Batch{Rows: rows, Labels: []int32{0, 1}, LogProbs: logProbs})
	}
	// Output:
	// class 0: 0.50, 0.50
	// class 0: 0.99, 0.01
	// class 0: 1.00, 0.00
}
