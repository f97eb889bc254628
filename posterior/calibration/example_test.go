package calibration_test

import (
	"fmt"

	"github.com/gvbll/gvbll/posterior/calibration"
)

func ExamplePrequential() {
	probs := []float64{
		0.9, 0.1,
		0.8, 0.2,
		0.4, 0.6,
		0.3, 0.7,
	}
	var p calibration.Prequential
	m := p.AddWindow(calibration.ScoreRows(probs, 2, []int32{0, 1, 1, 1}), 2)
	fmt.Printf("accuracy %.2f, NLL %.2f, Brier %.2f, ECE %.2f\n", m.Acc, m.NLL, m.Brier, m.ECE)
	// Output:
	// accuracy 0.75, NLL 0.65, Brier 0.45, ECE 0.35
}

// Counters of two windows add up to those of both.
func ExampleBins() {
	var monday, tuesday calibration.Bins
	monday.Add(0.93, true)
	monday.Add(0.93, false)
	tuesday.Add(0.94, true)
	monday.Merge(&tuesday)
	for _, b := range monday {
		if b.Count > 0 {
			fmt.Printf("%d of %d right at a confidence of %.2f\n", b.Correct, b.Count, b.SumConfidence/float64(b.Count))
		}
	}
	ece, chance := monday.ECE()
	fmt.Printf("ECE %.2f, by chance up to %.2f\n", ece, chance)
	// Output:
	// 2 of 3 right at a confidence of 0.93
	// ECE 0.27, by chance up to 0.38
}
