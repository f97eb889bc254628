package table

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSensitivity: a point at the plan's own value has the scores of Run, and any other
// point has different ones. The points are in order for any number of goroutines, and an
// invalid value is refused.
func TestSensitivity(t *testing.T) {
	plan := smallPlan()
	plan.Protocols = nil
	sweeps := []Sweep{
		{"steps", []float64{4, 8}},
		{"train-share", []float64{.2, .3}},
		{"lambda", []float64{plan.Settings.Update.Lambda, .5}},
		{"eta", []float64{.1}},
		{"beta", []float64{.5}},
	}
	points, err := Sensitivity(t.Context(), plan, sweeps, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := 8 * 2 * 2; len(points) != want {
		t.Fatalf("%d points, want %d", len(points), want)
	}
	plan.Systems = []string{"gvbll-online"}
	usual := make(map[[2]string]Estimate)
	for _, r := range Summarise(run(t, plan)) {
		usual[[2]string{r.Dataset, r.Protocol}] = r.Estimate
	}
	for i, p := range points {
		sweep := sweeps[0]
		for _, s := range sweeps {
			if s.Param == p.Param {
				sweep = s
			}
		}
		same := p.Param == "steps" && p.Value == 8 || p.Param == "train-share" && p.Value == .3 || p.Param == "lambda" && p.Value == sweep.Values[0]
		if equal := p.Estimate == usual[[2]string{p.Dataset, p.Protocol}]; equal != same {
			t.Errorf("point %d, %+v: equal to the estimate of Run: %v, want %v", i, p, equal, same)
		}
	}
	plan.Parallel = 3
	again, err := Sensitivity(t.Context(), plan, sweeps, nil)
	if diff := cmp.Diff(points, again); err != nil || diff != "" {
		t.Errorf("points with three goroutines (error %v; -one +three):\n%s", err, diff)
	}
	for _, s := range []Sweep{{"steps", []float64{1.5}}, {"train-share", []float64{1}}, {"lambda", []float64{-1}}, {"delta", []float64{1}}} {
		if _, err := Sensitivity(t.Context(), plan, []Sweep{s}, nil); err == nil || !strings.Contains(err.Error(), s.Param) {
			t.Errorf("%s %v: got error %v, want one that names the parameter", s.Param, s.Values, err)
		}
	}
}
