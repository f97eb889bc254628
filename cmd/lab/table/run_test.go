package table

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// smallPlan returns a plan of a few systems on two data sets.
func smallPlan() Plan {
	other := easySource()
	other.Name, other.Key = "other", "other"
	return Plan{
		Sources: []Source{easySource(), other}, Protocols: []string{strict}, Seeds: []uint64{1, 2}, Settings: quick(),
		Systems: []string{"graphsage", "deep-ensemble", "temp-scale", "gvbll-static", "gvbll-online"},
	}
}

// sorted returns the results in a fixed order.
func sorted(results []Result) []Result {
	results = slices.Clone(results)
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Seed, b.Seed), cmp.Compare(rank(Systems, a.System), rank(Systems, b.System)))
	})
	return results
}

// TestKeyIsOfContent: results of a data set are not taken for those of one of the same size with another number in it.
func TestKeyIsOfContent(t *testing.T) {
	d := easy()
	key := Of(d, dataset.Cut{Share: .5}).Key
	if again := Of(easy(), dataset.Cut{Share: .5}).Key; again != key {
		t.Errorf("the key is %q, then %q", key, again)
	}
	d.Features[149].Dense[3]++
	if Of(d, dataset.Cut{Share: .5}).Key == key {
		t.Errorf("another number has the same key, %q", key)
	}
}

// TestSameResults: a result depends on neither the number of goroutines nor the other
// systems of the plan, it is the same after JSON, and a job that has a result of the same
// settings is not run again. So a table can be completed in several runs.
func TestSameResults(t *testing.T) {
	plan := smallPlan()
	all := run(t, plan)

	parallel := plan
	parallel.Parallel = 3
	if diff := gocmp.Diff(sorted(all), sorted(run(t, parallel))); diff != "" {
		t.Errorf("results with three goroutines (-one +three):\n%s", diff)
	}

	single := plan
	single.Systems = []string{"temp-scale"}
	var want []Result
	for _, r := range all {
		if r.System == "temp-scale" {
			want = append(want, r)
		}
	}
	if diff := gocmp.Diff(sorted(want), sorted(run(t, single))); diff != "" {
		t.Errorf("results of temp-scale (-with other systems +alone):\n%s", diff)
	}

	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var kept []Result
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(all, kept); diff != "" {
		t.Errorf("results after JSON (-before +after):\n%s", diff)
	}
	if again := run(t, plan, kept...); len(again) != 0 {
		t.Errorf("with all results existing %d jobs ran, want none", len(again))
	}
	if rest := run(t, plan, kept[:len(kept)-2]...); len(rest) != 2 {
		t.Errorf("with 2 results missing %d jobs ran, want 2", len(rest))
	}
	plan.Settings.Phase1.Epochs++
	plan.Systems, plan.Seeds, plan.Sources = plan.Systems[:1], plan.Seeds[:1], plan.Sources[:1]
	if again := run(t, plan, kept...); len(again) != 1 || again[0].Settings == kept[0].Settings {
		t.Errorf("with other settings %d jobs ran, want 1, with another hash of settings", len(again))
	}
}

// TestResultFields: a result's JSON has exactly these fields. Results are kept in files
// and read by other programs.
func TestResultFields(t *testing.T) {
	plan := smallPlan()
	plan.Systems, plan.Sources, plan.Seeds = []string{"gvbll-online"}, plan.Sources[:1], plan.Seeds[:1]
	text, err := json.Marshal(run(t, plan)[0])
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dataset", "protocol", "system", "seed", "settings", "steps", "mean", "stream", "bins", "auc", "ap", "ranks"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %q", name)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Errorf("unexpected fields %v", fields)
	}
}

// TestRunStops: Run ends at sink's first error, which it returns without calling sink
// again, and when its context is cancelled.
func TestRunStops(t *testing.T) {
	plan := smallPlan()
	plan.Parallel = 2
	full := errors.New("the disk is full")
	calls := 0
	missing, _ := plan.Missing(nil)
	if err := Run(t.Context(), plan, missing, func(Result) error { calls++; return full }); !errors.Is(err, full) || calls != 1 {
		t.Errorf("got error %v after %d calls of sink, want sink's error after 1", err, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Run(ctx, plan, missing, func(Result) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v after cancelling, want context.Canceled", err)
	}
}

// TestPlanErrors: a plan that cannot be run is refused with an error that names the bad
// value.
func TestPlanErrors(t *testing.T) {
	for want, spoil := range map[string]func(*Plan){
		`system "svm"`:    func(p *Plan) { p.Systems = []string{"svm"} },
		"no hidden layer": func(p *Plan) { p.Settings.Phase1.Hidden = nil },
		"dropout":         func(p *Plan) { p.Settings.Phase1.Dropout = 1 },
		"easy, seed 1: training": func(p *Plan) {
			p.Sources[0].Open = Of(easy(), dataset.Cut{}).Open
			p.Sources[0] = shareOf(p.Sources[0], 2)
		},
	} {
		plan := smallPlan()
		spoil(&plan)
		missing, _ := plan.Missing(nil)
		err := Run(t.Context(), plan, missing, func(Result) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one that contains %q", err, want)
		}
	}
}
