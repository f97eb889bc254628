package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Cell is how a cell of a graph is doing, as its worker knows it.
type Cell struct {
	Number    int32
	Owner     bool // this worker owns it; else it stands by
	Nodes     int
	Lag       float64    // seconds of stepping that wait
	LastLabel *time.Time // nil if none came to this worker
	Points    float64    // the verdict, as graph:gvbll_verdict:points1h has it
}

// cells collects the series of a graph of several cells.
type cells struct{ list func(now time.Time) []Cell }

// RegisterCells registers the metrics of the cells of a worker.
func RegisterCells(reg prometheus.Registerer, list func(now time.Time) []Cell) {
	reg.MustRegister(cells{list})
}

// mostCellSeries bounds the series of single cells of a worker. Each cell has one that says who owns it; the others are of
// cells that need a look most.
const mostCellSeries = 2000

func cellDesc(name, help, label string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{label}, nil)
}

var (
	cellCount = cellDesc("gvbll_cells", "Cells of this worker that it owns, or stands by.", "role")
	cellOwner = cellDesc("gvbll_cell_owner", "1 where this worker owns the cell, 0 where it stands by. Other series "+
		"are of cells whose verdict is bad, or with most work.", "cell")
	cellLag = cellDesc("gvbll_cell_lag_seconds", "Seconds of stepping that wait in the cell, at what its latest "+
		"windows took for an event.", "cell")
	cellNodes     = cellDesc("gvbll_cell_nodes", "Nodes of the cell's graph.", "cell")
	cellLastLabel = cellDesc("gvbll_cell_last_label_timestamp_seconds", "When the latest label of the cell came to this worker. No series "+
		"before one came.", "cell")
	cellVerdict = cellDesc("gvbll_cell_verdict_points", "Verdict on the cell, as graph:gvbll_verdict:points1h: "+
		"below -1 what is wrong with labels, above 0 by how many points the ECE is off.", "cell")
)

// Describe implements [prometheus.Collector].
func (c cells) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cellCount, cellOwner, cellLag, cellNodes, cellLastLabel, cellVerdict} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c cells) Collect(to chan<- prometheus.Metric) {
	list := c.list(time.Now())
	slices.SortFunc(list, func(a, b Cell) int {
		return cmp.Or(b.need()-a.need(), cmp.Compare(b.Lag, a.Lag), int(a.Number-b.Number))
	})
	gauge := func(d *prometheus.Desc, value float64, label string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, label)
	}
	left, owned := mostCellSeries, 0
	of := func(d *prometheus.Desc, x *Cell, value float64) {
		if left--; left >= 0 {
			gauge(d, value, strconv.Itoa(int(x.Number)))
		}
	}
	for i := range list {
		owner := min(list[i].need(), 1)
		owned += owner
		of(cellOwner, &list[i], float64(owner))
	}
	gauge(cellCount, float64(owned), "owner")
	gauge(cellCount, float64(len(list)-owned), "standby")
	for i := range list[:owned] {
		x := &list[i]
		if left < 4 {
			return
		}
		of(cellLag, x, x.Lag)
		of(cellNodes, x, float64(x.Nodes))
		of(cellVerdict, x, x.Points)
		if x.LastLabel != nil {
			of(cellLastLabel, x, float64(x.LastLabel.UnixMilli())/1000)
		}
	}
}

// need says how much a cell needs a look: 2 where its verdict is bad, 1 where it is owned.
func (x *Cell) need() int {
	switch {
	case x.Owner && (x.Points > 0 || x.Points < -1):
		return 2
	case x.Owner:
		return 1
	}
	return 0
}
