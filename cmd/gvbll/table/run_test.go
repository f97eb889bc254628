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
)

// smallPlan is a plan of few systems over two data sets.
func smallPlan() Plan {
	other := easySource()
	other.Name, other.Key = "other", "other"
	return Plan{
		Sources: []Source{easySource(), other}, Protocols: []string{Strict}, Seeds: []uint64{1, 2}, Settings: quick(),
		Systems: []string{"graphsage", "deep-ensemble", "temp-scale", "gp-sage", "gvbll-static", "gvbll-online"},
	}
}

// timeless returns the results by job, without what differs from run to run.
func timeless(results []Result) []Result {
	results = slices.Clone(results)
	for i := range results {
		results[i].Seconds = 0
	}
	slices.SortFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Seed, b.Seed), cmp.Compare(rank(Systems, a.System), rank(Systems, b.System)))
	})
	return results
}

// TestSameResults: how many goroutines there are, and which systems are asked
// for, changes no result; results survive JSON; what is there is not done again.
func TestSameResults(t *testing.T) {
	plan := smallPlan()
	all := run(t, plan)

	parallel := plan
	parallel.Parallel = 3
	if diff := gocmp.Diff(timeless(all), timeless(run(t, parallel))); diff != "" {
		t.Errorf("three goroutines, other results:\n%s", diff)
	}

	single := plan
	single.Systems = []string{"temp-scale"}
	var want []Result
	for _, r := range all {
		if r.System == "temp-scale" {
			want = append(want, r)
		}
	}
	if diff := gocmp.Diff(timeless(want), timeless(run(t, single))); diff != "" {
		t.Errorf("asked for alone, another result:\n%s", diff)
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
		t.Errorf("results after JSON:\n%s", diff)
	}
	if again := run(t, plan, kept...); len(again) != 0 {
		t.Errorf("%d jobs were done again", len(again))
	}
	if rest := run(t, plan, kept[:len(kept)-2]...); len(rest) != 2 {
		t.Errorf("of 2 jobs missing %d were done", len(rest))
	}
	plan.Settings.Epochs++
	plan.Systems, plan.Seeds, plan.Sources = plan.Systems[:1], plan.Seeds[:1], plan.Sources[:1]
	if again := run(t, plan, kept...); len(again) != 1 || again[0].Settings == kept[0].Settings {
		t.Errorf("with other settings %d jobs were done again, want 1", len(again))
	}
}

// TestNames: a result's JSON has the names that others read.
func TestNames(t *testing.T) {
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
	for _, name := range []string{"dataset", "protocol", "system", "seed", "settings", "steps", "mean", "stream", "bins", "anchor_distance", "variance", "seconds"} {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %q", name)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Errorf("fields %v are not among the names", fields)
	}
}

func TestRunStops(t *testing.T) {
	plan := smallPlan()
	plan.Parallel = 2
	full := errors.New("the disk is full")
	calls := 0
	if err := Run(t.Context(), plan, nil, func(Result) error { calls++; return full }); !errors.Is(err, full) || calls != 1 {
		t.Errorf("error %v after %d calls, want the sink's after 1", err, calls)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := Run(ctx, plan, nil, func(Result) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled, and the error is %v", err)
	}
}

func TestPlanErrors(t *testing.T) {
	for want, spoil := range map[string]func(*Plan){
		`system "svm"`:           func(p *Plan) { p.Systems = []string{"svm"} },
		`protocol "lax"`:         func(p *Plan) { p.Protocols = []string{"lax"} },
		"at least one of each":   func(p *Plan) { p.Seeds = nil },
		"members is 0":           func(p *Plan) { p.Settings.Members = 0 },
		"no hidden layer":        func(p *Plan) { p.Settings.Hidden = nil },
		"dropout":                func(p *Plan) { p.Settings.Dropout = 1 },
		"lambda":                 func(p *Plan) { p.Settings.Update.Lambda = 2 },
		"easy, seed 1: training": func(p *Plan) { p.Sources[0].Open = Of(easy(), 0, 0).Open; p.Sources[0] = shareOf(p.Sources[0], 2) },
	} {
		plan := smallPlan()
		spoil(&plan)
		err := Run(t.Context(), plan, nil, func(Result) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
