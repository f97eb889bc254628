package metrics_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gvbll/gvbll/charts/metrics"
)

// TestCellSeries: a worker of a thousand busy cells has 2,000 series of single cells, so that with those of all its predictions, 900, there
// are fewer than 3,000. Each cell's owner is among them, and of cells whose verdict is bad, or in which most work waits, all there is to say.
func TestCellSeries(t *testing.T) {
	now := time.Now()
	var list []metrics.Cell
	for i := range 1000 {
		list = append(list, metrics.Cell{Number: int32(i), Owner: i < 999, Nodes: 7, LastLabel: &now, Lag: float64(i % 100)})
	}
	list[3].Points, list[5].Points = -5, 12.5
	reg := prometheus.NewPedanticRegistry()
	metrics.RegisterCells(reg, func(time.Time) []metrics.Cell { return slices.Clone(list) })
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all, by := 0, make(map[string]float64)
	for _, f := range families {
		all += len(f.Metric)
		for _, m := range f.Metric {
			by[f.GetName()+" "+m.Label[0].GetValue()] = m.Gauge.GetValue()
		}
	}
	if all > 2002 || all < 1998 {
		t.Errorf("%d series of cells, want 2,000 and their two sums", all)
	}
	for i := range 1000 {
		if owner, there := by[fmt.Sprint("gvbll_cell_owner ", i)]; !there || (owner == 1) != (i < 999) {
			t.Errorf("cell %d: owner %v, there: %t", i, owner, there)
		}
	}
	for name, want := range map[string]float64{
		"verdict_points 3": -5, "verdict_points 5": 12.5, "nodes 5": 7, "lag_seconds 899": 99, "last_label_timestamp_seconds 899": float64(now.UnixMilli()) / 1000,
	} {
		if got, there := by["gvbll_cell_"+name]; !there || got != want {
			t.Errorf("gvbll_cell_%s is %v, there: %t, want %v", name, got, there, want)
		}
	}
	if _, there := by["gvbll_cell_nodes 100"]; there {
		t.Error("a calm cell without work has series, before others with work")
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
