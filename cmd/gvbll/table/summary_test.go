package table

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// result returns a result with these means.
func result(dataset, system string, seed uint64, acc, nll, ece float64) Result {
	return Result{Job: Job{Dataset: dataset, Protocol: Strict, System: system, Seed: seed}, Mean: Scores{Acc: acc, NLL: nll, ECE: ece}}
}

// TestSummarise: rows have the means over seeds of the last results, in the table's
// order, and both formats mark the best and quote the paper.
func TestSummarise(t *testing.T) {
	rows := Summarise([]Result{
		result("zoo", "gcn", 1, .5, 1, .2),
		result("cora", "gvbll-online", 2, .9, .4, .1),
		result("cora", "graphsage", 1, .1, 9, .9), // replaced by a later one below
		result("cora", "gvbll-online", 1, .8, .6, .1),
		result("cora", "graphsage", 1, .7, 1, .2),
		result("cora", "gvbll-online", 3, .7, .5, .1),
	})
	want := []Row{
		{"cora", Strict, "graphsage", Estimate{Seeds: 1, Acc: .7, NLL: 1, ECE: .2}},
		{"cora", Strict, "gvbll-online", Estimate{Seeds: 3, Acc: .8, NLL: .5, ECE: .1, AccSE: .1 / math.Sqrt(3), NLLSE: .1 / math.Sqrt(3)}},
		{"zoo", Strict, "gcn", Estimate{Seeds: 1, Acc: .5, NLL: 1, ECE: .2}},
	}
	if diff := cmp.Diff(want, rows, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	const text = `cora, strict, seeds: 1 to 3 (paper's figures in brackets)
  system           accuracy %                NLL                       ECE
  graphsage        70.0 (51.46)              1.000 (1.48)              0.200 (0.16)
  gvbll-online    *80.0 ± 5.8 (81.86)       *0.500 ± 0.058 (0.59)     *0.100 ± 0.000 (0.11)

zoo, strict, seeds: 1
  system           accuracy %                NLL                       ECE
  gcn             *50.0                     *1.000                    *0.200
`
	if diff := cmp.Diff(text, Text(rows)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	const markdown = `**cora, strict, seeds: 1 to 3 (paper's figures in brackets)**

| system | accuracy % | NLL | ECE |
|---|---:|---:|---:|
| graphsage | 70.0 (51.46) | 1.000 (1.48) | 0.200 (0.16) |
| gvbll-online | **80.0 ± 5.8 (81.86)** | **0.500 ± 0.058 (0.59)** | **0.100 ± 0.000 (0.11)** |
`
	if diff := cmp.Diff(markdown, Markdown(rows[:2])); diff != "" {
		t.Errorf("markdown (-want +got):\n%s", diff)
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
		{"Wisconsin", "gp-sage", .7604, .77, .26},
		{"ogbn_arxiv", "mc-dropout", .3823, 2.31, .14},
		{"texas", "graphsage", .6556, 1.09, .31},
		{"cornell", "gp-gat", .4389, 1.47, .23},
	} {
		acc, nll, ece, ok := paperScores(c.dataset, c.system)
		if !ok || math.Abs(acc-c.acc) > 1e-12 || nll != c.nll || ece != c.ece {
			t.Errorf("%s on %s: got %v, %v, %v (%v), want %v, %v, %v", c.system, c.dataset, acc, nll, ece, ok, c.acc, c.nll, c.ece)
		}
	}
	if _, _, _, ok := paperScores("zoo", "gcn"); ok {
		t.Error("got figures for data set zoo, which the paper does not use")
	}
	if _, _, _, ok := paperScores("cora", "svm"); ok {
		t.Error("got figures for system svm, which the paper does not have")
	}
}
