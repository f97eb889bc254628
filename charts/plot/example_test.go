package plot_test

import (
	"bytes"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/charts/plot"
)

// Two heads are compared over four steps; at one there was no label to score.
func Example() {
	steps := []float64{1, 2, 3, 4}
	static := plot.Series{Name: "static", X: steps, Y: []float64{0.81, 0.80, math.NaN(), 0.78}}
	online := plot.Series{
		Name: "online", X: steps, Y: []float64{0.81, 0.82, math.NaN(), 0.85},
		Err: []float64{0.01, 0.01, 0, 0.02},
	}
	picture := plot.Curves("Two heads", "step", []plot.Series{static, online}, nil, nil)
	picture.Theme = plot.Dark
	svg, err := picture.SVG()
	fmt.Println(bytes.Contains(svg, []byte("Two heads")), err)

	_, err = plot.Curves("Nothing", "step", []plot.Series{{Name: "static"}}, nil, nil).PNG()
	fmt.Println(err)
	// Output:
	// true <nil>
	// plot: panel 0 "Accuracy": series "static": none of 0 points can be drawn
}
