package table

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// TestPictures: a small comparison has the expected pictures, and each can be drawn and
// names its systems.
func TestPictures(t *testing.T) {
	plan := Plan{Sources: []Source{Of(easy(), dataset.Cut{})}, Seeds: []uint64{1, 2}, Systems: []string{"graphsage", "gvbll-static", "gvbll-online"}, Settings: DefaultSettings(), Protocols: []string{strict}}
	plan.Settings.Phase1.Epochs = 3
	var names []string
	for _, p := range Pictures(Summarise(run(t, plan))) {
		names = append(names, p.Name)
		svg, err := p.render()
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		if !bytes.Contains(svg, []byte("gvbll-online")) {
			t.Errorf("%s does not name gvbll-online", p.Name)
		}
	}
	want := []string{"easy-strict-curves", "easy-strict-reliability"}
	if !slices.Equal(names, want) {
		t.Errorf("pictures %v, want %v", names, want)
	}
}

// TestOverSteps: a step's mean and standard error are over the runs that have the step,
// and a step that only one run has gets no error.
func TestOverSteps(t *testing.T) {
	a, b := &Result{Steps: []Scores{{NLL: 1}, {NLL: 4}}}, &Result{Steps: []Scores{{NLL: 3}}}
	got := overSteps([]*Result{a, b}, 1)
	want := points{plotter.XYs{{X: 1, Y: 2}, {X: 2, Y: 4}}, plotter.YErrors{{Low: 1, High: 1}, {}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want means 2 and 4 with errors 1 and 0 at steps 1 and 2", got)
	}
}
