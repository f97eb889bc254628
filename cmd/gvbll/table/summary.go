package table

import (
	"cmp"
	"math"
	"slices"
)

// Estimate holds the means over seeds of the three measures, and their standard errors,
// which are 0 for a single seed. Accuracy is a fraction.
type Estimate struct {
	Seeds int     `json:"seeds"`
	Acc   float64 `json:"acc"`
	NLL   float64 `json:"nll"`
	ECE   float64 `json:"ece"`
	AccSE float64 `json:"acc_se"`
	NLLSE float64 `json:"nll_se"`
	ECESE float64 `json:"ece_se"`
}

// Row is a cell of Table I: means over seeds of the means over steps.
type Row struct {
	Dataset  string `json:"dataset"`
	Protocol string `json:"protocol"`
	System   string `json:"system"`
	Estimate
}

// Summarise averages results over seeds. If a job has several results, the last one
// counts. Rows are ordered by data set (the paper's first, in its order, then by name),
// protocol and system (in the order of Known).
func Summarise(results []Result) []Row {
	where := make(map[cell]int)
	var rows []Row
	var runs [][]Scores
	for _, r := range latestBySeed(results) {
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

// latestBySeed returns the last result of each job, ordered by seed, so that sums do not
// depend on the order of the results.
func latestBySeed(results []Result) (list []*Result) {
	latest := make(map[Job]int, len(results))
	for i := range results {
		latest[results[i].Job] = i
	}
	for i := range results {
		if latest[results[i].Job] == i {
			list = append(list, &results[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *Result) int { return cmp.Compare(a.Seed, b.Seed) })
	return list
}

// estimate averages one run per seed.
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
