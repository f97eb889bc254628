package table

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// result returns a result with these means.
func result(dataset, system string, seed uint64, acc, nll, ece float64) Result {
	return Result{Job: Job{Dataset: dataset, Protocol: strict, System: system, Seed: seed}, Mean: Scores{Acc: acc, NLL: nll, ECE: ece}}
}

// TestSummarise: rows have the means over seeds of the last results, in the table's
// order, and both formats mark the best and quote the paper.
func TestSummarise(t *testing.T) {
	graphsage := result("cora", "graphsage", 1, .7, 1, .2)
	graphsage.AUC, graphsage.Ranked = .6, "b"
	graphsage.Bins[18] = calibration.Bin{Count: 100, Correct: 50, SumConfidence: 90}
	online := func(seed uint64, acc, nll float64) Result {
		r := result("cora", "gvbll-online", seed, acc, nll, .1)
		r.AUC, r.Ranked = .8, "b"
		return r
	}
	rows := Summarise([]Result{
		result("zoo", "gcn", 1, .5, 1, .2),
		online(2, .9, .4),
		result("cora", "graphsage", 1, .1, 9, .9), // replaced by a later one below
		online(1, .8, .6),
		graphsage,
		online(3, .7, .5),
	})
	best := "gvbll-online"
	want := []row{
		{
			Dataset: "cora", Protocol: strict, System: "graphsage", Seeds: 1,
			Acc: measured{Mean: .7, Best: best, Behind: .1}, NLL: measured{Mean: 1, Best: best, Behind: .4}, ECE: measured{Mean: .2, Best: best, Behind: .1},
			AUC: measured{Mean: .6, Best: best, Behind: .2}, AP: measured{Best: "graphsage"}, Ranked: "b",
			StreamECE: .4, StreamChance: (math.Sqrt(2/math.Pi) + 3*math.Sqrt(1-2/math.Pi)) * math.Sqrt(9) / 100,
		},
		{
			Dataset: "cora", Protocol: strict, System: best, Seeds: 3,
			Acc: measured{Mean: .8, SE: .1 / math.Sqrt(3), Best: best}, NLL: measured{Mean: .5, SE: .1 / math.Sqrt(3), Best: best}, ECE: measured{Mean: .1, Best: best},
			AUC: measured{Mean: .8, Best: best}, AP: measured{Best: best}, Ranked: "b",
		},
		{
			Dataset: "zoo", Protocol: strict, System: "gcn", Seeds: 1,
			Acc: measured{Mean: .5, Best: "gcn"}, NLL: measured{Mean: 1, Best: "gcn"}, ECE: measured{Mean: .2, Best: "gcn"}, AUC: measured{Best: "gcn"}, AP: measured{Best: "gcn"},
		},
	}
	if diff := cmp.Diff(want, rows, cmpopts.EquateApprox(0, 1e-12), cmpopts.IgnoreUnexported(row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	const markdown = `**cora, strict, seeds: 1 to 3 (paper's figures in brackets); AUC and AP are of b**

| system | accuracy % | behind | NLL | behind | ECE | ECE of stream | AUC | AP |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| graphsage | 70.0 (51.46) | 10.0 | 1.000 (1.48) | 0.400 | 0.200 (0.16) | 0.400, chance 0.078 | 0.600 | **0.000** |
| gvbll-online | **80.0 ± 5.8 (81.86)** | best | **0.500 ± 0.058 (0.59)** | best | **0.100 ± 0.000 (0.11)** | 0.000, chance 0.000 | **0.800 ± 0.000** | **0.000 ± 0.000** |
`
	if diff := cmp.Diff(markdown, Markdown(rows[:2])); diff != "" {
		t.Errorf("markdown (-want +got):\n%s", diff)
	}
}

// TestBehind: differences are paired by seed. gcn is behind by .02 at every seed, so it is
// behind, although its scores vary by far more; gat is behind by .02 on average and at
// times ahead, so it is a tie.
func TestBehind(t *testing.T) {
	rows := Summarise([]Result{
		result("zoo", "graphsage", 1, .50, 1, .1), result("zoo", "graphsage", 2, .70, 2, .1), result("zoo", "graphsage", 3, .90, 3, .1),
		result("zoo", "gcn", 1, .48, 1, .1), result("zoo", "gcn", 2, .68, 2, .1), result("zoo", "gcn", 3, .88, 3, .1), result("zoo", "gcn", 4, .1, 9, .1),
		result("zoo", "gat", 1, .55, 1, .1), result("zoo", "gat", 2, .60, 2, .1), result("zoo", "gat", 3, .89, 3, .1),
	})
	se := math.Sqrt((.07*.07 + .08*.08 + .01*.01) / 2 / 3)
	want := []measured{{Best: "graphsage"}, {Best: "graphsage", Behind: .02}, {Best: "graphsage", Behind: .02, BehindSE: se, Tie: true}}
	for i, r := range rows {
		if diff := cmp.Diff(want[i], r.Acc, cmpopts.EquateApprox(0, 1e-12), cmpopts.IgnoreFields(measured{}, "Mean", "SE")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.System, diff)
		}
	}
	if text := Markdown(rows); !strings.Contains(text, "| gat | **68.0 ± 10.6** | 2.0 ± 4.4, tie |") || !strings.Contains(text, "| 2.0 ± 0.0 |") {
		t.Errorf("no tie of gat, or gcn is not behind:\n%s", text)
	}
}

// TestDrift: a stream in order of time is divided into fifths of its steps, and what
// changed is paired by seed.
func TestDrift(t *testing.T) {
	var results []Result
	for seed := range uint64(2) {
		r := result("zoo", "gcn", seed+1, .5, 1, .1)
		r.Ordered = true
		for step := range 10 {
			r.Steps = append(r.Steps, Scores{N: 1, Acc: .5 + float64(seed)/10 - float64(step)/100, NLL: 1 + float64(step)/10})
		}
		results = append(results, r)
	}
	rows := Summarise(results)
	d := rows[0].Drift
	if d == nil || math.Abs(d.First.Acc-.545) > 1e-12 || math.Abs(d.Last.NLL-1.85) > 1e-12 || math.Abs(d.Change.Acc+.08) > 1e-12 || d.ChangeSE.Acc > 1e-12 {
		t.Fatalf("got %+v, want accuracy .545 first, NLL 1.85 last, and a change of -.08 without an error", d)
	}
	const want = `
**zoo, strict: the first fifth of the steps, the last, and the change**

| system | accuracy % first | last | change | NLL first | last | change |
|---|---:|---:|---:|---:|---:|---:|
| gcn | 54.5 | 46.5 | -8.0 ± 0.0 | 1.050 | 1.850 | 0.800 ± 0.000 |
`
	if text := Markdown(rows); !strings.HasSuffix(text, want) {
		t.Errorf("got %s, want it to end with %s", text, want)
	}
	results[0].Ordered = false
	if Summarise(results)[0].Drift != nil {
		t.Error("a stream in random order has drift")
	}
}

// TestPaper: samples of the paper's Table I are found under the names of systems and data
// sets, and other names have no figures.
func TestPaper(t *testing.T) {
	for _, c := range []struct {
		dataset, system string
		acc, nll, ece   float64
	}{
		{"cora", "gvbll-online", .8186, .59, .11},
		{"Wisconsin", "temp-scale", .7021, .90, .29},
		{"ogbn_arxiv", "mc-dropout", .3823, 2.31, .14},
		{"texas", "graphsage", .6556, 1.09, .31},
		{"cornell", "gvbll-static", .6714, .97, .29},
	} {
		got, ok := paperScores(c.dataset, c.system)
		if !ok || math.Abs(got.Acc-c.acc) > 1e-12 || got.NLL != c.nll || got.ECE != c.ece {
			t.Errorf("%s on %s: got %v (%v), want %v, %v, %v", c.system, c.dataset, got, ok, c.acc, c.nll, c.ece)
		}
	}
	if _, ok := paperScores("zoo", "gcn"); ok {
		t.Error("got figures for data set zoo, which the paper does not use")
	}
	if _, ok := paperScores("cora", "svm"); ok {
		t.Error("got figures for system svm, which the paper does not have")
	}
}
