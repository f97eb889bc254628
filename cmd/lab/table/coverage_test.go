package table

import (
	"math"
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/parts"
)

// TestCoverageOfDrift: on a small drifting graph the sets of the second half keep their
// target of 90 % within 4 points, with labels at once and a step late, and every served
// prediction is counted once its label comes.
func TestCoverageOfDrift(t *testing.T) {
	cfg, err := dataset.DriftPreset("strong")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Nodes, cfg.Classes, cfg.Dim, cfg.Steps = 4000, 8, 16, 40
	plan := CoveragePlan{
		Sources: []Source{Drifting(cfg)}, Seeds: []uint64{1, 2}, Settings: quick(), Delays: []int{0, 1}, Parallel: 2,
		Sets: []pipeline.Coverage{{Target: 0.9}, {Target: 0.9, Per: parts.PerClass}},
	}
	seen := 0
	if err := Coverage(t.Context(), plan, func(c CoverageResult) error {
		seen++
		t.Logf("%+v: %.3f", c, c.Sets.Rate())
		if int(c.Sets.Rows) != c.Served || c.Served < 500 {
			t.Errorf("%d sets with a label and %d predictions, want as many, and at least 500", c.Sets.Rows, c.Served)
		}
		if math.Abs(c.Sets.Rate()-0.9) > 0.04 {
			t.Errorf("labels %d steps late, per %s, seed %d: coverage %.3f, want 0.9 within 0.04", c.Delay, c.Per, c.Seed, c.Sets.Rate())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := 2 * 2 * 2; seen != want {
		t.Errorf("%d results, want %d", seen, want)
	}
}

// TestCoverageBars: on the real data sets the mean coverage over ten seeds stays within
// two points of 90 %, and 2.5 where labels are half a stream late, as docs/coverage.md
// claims, plus one standard error: that of a share of 90 % among as many labels as the ten
// seeds have, 1.1 points on Cornell and Texas, 0.9 on Wisconsin and 0.3 on Cora. If labels are
// late, the pool's sets cover more on the small data sets; docs/coverage.md says so too.
func TestCoverageBars(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains ten seeds of four data sets")
	}
	for _, head := range []string{pipeline.HeadPool, pipeline.HeadPaper} {
		t.Run(head, func(t *testing.T) { coverageBars(t, head) })
	}
}

func coverageBars(t *testing.T, head string) {
	t.Helper()
	plan := CoveragePlan{Settings: DefaultSettings(), Delays: []int{0, 1, 10}, Sets: []pipeline.Coverage{{Target: 0.9}}, Head: head, Parallel: 2}
	for seed := range uint64(10) {
		plan.Seeds = append(plan.Seeds, seed+1)
	}
	plan.Sources = realSources(t)
	type cell struct {
		dataset string
		delay   int
	}
	sum, labels := map[cell]float64{}, map[cell]float64{}
	if err := Coverage(t.Context(), plan, func(c CoverageResult) error {
		at := cell{c.Dataset, c.Delay}
		sum[at] += c.Sets.Rate() / float64(len(plan.Seeds))
		labels[at] += float64(c.Sets.Rows)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for c, rate := range sum {
		t.Logf("%v: %.3f", c, rate)
		margin := 0.02 + math.Sqrt(0.9*0.1/labels[c])
		if c.delay == 10 {
			margin += 0.005
		}
		least, most := 0.9-margin, 0.9+margin
		if head == pipeline.HeadPool && c.dataset != "cora" && c.delay == 10 {
			most = 0.945
		}
		if rate < least || rate > most {
			t.Errorf("%s, labels %d steps late: coverage %.3f, want %.3f to %.3f", c.dataset, c.delay, rate, least, most)
		}
	}
}
