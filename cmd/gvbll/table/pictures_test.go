package table

import (
	"bytes"
	"slices"
	"testing"
)

// TestPictures: every picture of a small comparison can be drawn, and tells its
// systems.
func TestPictures(t *testing.T) {
	var results []Result
	plan := Plan{Sources: []Source{Of(easy(), 0, 0)}, Seeds: []uint64{1, 2}, Systems: []string{"graphsage", "gvbll-static", "gvbll-online"}, Settings: DefaultSettings(), Protocols: []string{Strict}}
	plan.Settings.Epochs = 3
	if err := Run(t.Context(), plan, nil, func(r Result) error {
		results = append(results, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range Pictures(results) {
		names = append(names, p.Name)
		svg, err := p.SVG()
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if !bytes.Contains(svg, []byte("gvbll-online")) {
			t.Errorf("%s does not tell gvbll-online", p.Name)
		}
	}
	want := []string{"easy-strict-curves", "easy-strict-reliability", "easy-strict-posterior", "easy-strict-nll", "easy-strict-accuracy"}
	if !slices.Equal(names, want) {
		t.Errorf("pictures %v, want %v", names, want)
	}
}

// TestOverSteps: means and standard errors by step, over the seeds that have it.
func TestOverSteps(t *testing.T) {
	of := func(r *Result, t int) float64 { return r.Steps[t].NLL }
	a, b := &Result{Steps: []Scores{{NLL: 1}, {NLL: 4}}}, &Result{Steps: []Scores{{NLL: 3}}}
	s := overSteps("x", []*Result{a, b}, of)
	if !slices.Equal(s.Y, []float64{2, 4}) || !slices.Equal(s.Err, []float64{1, 0}) || !slices.Equal(s.X, []float64{1, 2}) {
		t.Errorf("%+v", s)
	}
}
