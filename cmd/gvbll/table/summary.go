package table

import (
	"cmp"
	"math"
	"slices"
)

// Estimate is a mean over seeds of the three measures, accuracy as a fraction,
// and its standard errors, 0 for a single seed.
type Estimate struct {
	Seeds int     `json:"seeds"`
	Acc   float64 `json:"acc"`
	NLL   float64 `json:"nll"`
	ECE   float64 `json:"ece"`
	AccSE float64 `json:"acc_se"`
	NLLSE float64 `json:"nll_se"`
	ECESE float64 `json:"ece_se"`
}

// Row is a cell of Table I: a mean over seeds of the means over steps.
type Row struct {
	Dataset  string `json:"dataset"`
	Protocol string `json:"protocol"`
	System   string `json:"system"`
	Estimate
}

// Summarise averages results over seeds. Of results of the same job the last
// counts. Rows are in the paper's order of data sets, others after them by name,
// then by protocol and in the order of Systems.
func Summarise(results []Result) []Row {
	latest := make(map[Job]int, len(results))
	for i := range results {
		latest[results[i].Job] = i
	}
	type cell struct{ dataset, protocol, system string }
	where := make(map[cell]int)
	var rows []Row
	var runs [][]Scores
	for _, i := range inSeedOrder(results, latest) {
		r := &results[i]
		c := cell{r.Dataset, r.Protocol, r.System}
		at, known := where[c]
		if !known {
			at = len(rows)
			where[c] = at
			rows = append(rows, Row{Dataset: r.Dataset, Protocol: r.Protocol, System: r.System})
			runs = append(runs, nil)
		}
		runs[at] = append(runs[at], r.Mean)
	}
	for i := range rows {
		rows[i].Estimate = estimate(runs[i])
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(rank(paperDatasets, a.Dataset), rank(paperDatasets, b.Dataset)),
			cmp.Compare(a.Dataset, b.Dataset),
			cmp.Compare(rank(Protocols, a.Protocol), rank(Protocols, b.Protocol)),
			cmp.Compare(rank(Known, a.System), rank(Known, b.System)),
		)
	})
	return rows
}

// inSeedOrder returns the places of the latest results, by seed, so that sums run
// in one order whatever the results' own.
func inSeedOrder(results []Result, latest map[Job]int) []int {
	var order []int
	for i := range results {
		if latest[results[i].Job] == i {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(results[a].Seed, results[b].Seed) })
	return order
}

// estimate averages one measurement a seed.
func estimate(runs []Scores) Estimate {
	e := Estimate{Seeds: len(runs)}
	n := float64(len(runs))
	for _, m := range []struct {
		of       func(*Scores) float64
		mean, se *float64
	}{
		{func(s *Scores) float64 { return s.Acc }, &e.Acc, &e.AccSE},
		{func(s *Scores) float64 { return s.NLL }, &e.NLL, &e.NLLSE},
		{func(s *Scores) float64 { return s.ECE }, &e.ECE, &e.ECESE},
	} {
		for i := range runs {
			*m.mean += m.of(&runs[i])
		}
		*m.mean /= n
		if len(runs) < 2 {
			continue
		}
		square := 0.0
		for i := range runs {
			d := m.of(&runs[i]) - *m.mean
			square += float64(d * d)
		}
		*m.se = math.Sqrt(square / (n - 1) / n)
	}
	return e
}
