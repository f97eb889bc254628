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
	picture := plot.Lines("Prequential accuracy", plot.Panel{
		XLabel: "step", YLabel: "accuracy", Series: []plot.Series{static, online},
	})
	picture.Theme = plot.Dark
	svg, err := picture.SVG()
	fmt.Println(bytes.Contains(svg, []byte("Prequential accuracy")), err)

	_, err = plot.Lines("Nothing", plot.Panel{Title: "NLL"}).PNG()
	fmt.Println(err)
	// Output:
	// true <nil>
	// plot: panel 0 "NLL": no series
}
