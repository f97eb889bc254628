package conformal_test

import (
	"fmt"

	"github.com/gvbll/gvbll/posterior/conformal"
)

// Sets are calibrated to miss one label in five. Limits say when not to act on a
// prediction.
func ExamplePredictor() {
	cfg := conformal.DefaultConfig(3)
	cfg.Alpha = 0.2
	p := conformal.New(cfg)

	// The probabilities of the first labels are .1, .2, … .9.
	var first conformal.Rows
	var labels []int32
	for i := range 9 {
		y := float64(i+1) / 10
		first.Probs = append(first.Probs, y, 1-y, 0)
		labels = append(labels, 0)
	}
	p.Learn(first, labels, nil)

	limits := conformal.Limits{MinConfidence: 0.4, MaxSize: 2}
	now := []float64{
		0.9, 0.06, 0.04,
		0.6, 0.35, 0.05,
		0.4, 0.35, 0.25,
	}
	for i, set := range p.Sets(conformal.Rows{Probs: now}) {
		fmt.Printf("%v %q\n", set.Append(nil), limits.Abstain(now[3*i], set))
	}
	// Output:
	// [0] ""
	// [0 1] ""
	// [0 1 2] "large-set"
}

// Labels are learned together with whether the served sets held them.
func ExamplePredictor_Learn() {
	p := conformal.New(conformal.DefaultConfig(2))
	rows := conformal.Rows{Probs: []float64{0.7, 0.3, 0.1, 0.9}}
	labels := []int32{0, 1}
	var seen conformal.Coverage
	var covered []bool
	for i, set := range p.Sets(rows) {
		covered = append(covered, seen.Add(set, labels[i]))
	}
	p.Learn(rows, labels, covered)
	fmt.Printf("coverage %.2f, %.1f classes a set\n", seen.Rate(), seen.MeanSize())
	// Output:
	// coverage 1.00, 2.0 classes a set
}
