package table

import (
	"cmp"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
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
	// How far the system is behind the best one of its data set and protocol.
	AccBehind Behind `json:"acc_behind"`
	NLLBehind Behind `json:"nll_behind"`
	ECEBehind Behind `json:"ece_behind"`
	// Of all labels of a stream, not by step: the ECE and its chance level, means over seeds.
	StreamECE    float64 `json:"stream_ece"`
	StreamChance float64 `json:"stream_ece_chance"`
	// Drift is nil unless the stream is in order of time.
	Drift *Drift `json:"drift,omitempty"`
}

// Behind is how much worse a system is than the best one, in a measure: the mean over
// seeds of their differences, and its standard error. Systems of one seed share the split,
// the steps and often the encoder, so differences vary less than scores do.
type Behind struct {
	Best string  `json:"best"` // the system with the best mean
	Mean float64 `json:"mean"` // over the seeds that both have, or of means if there are none; 0 for the best itself
	SE   float64 `json:"se"`   // 0 for a single difference
	Tie  bool    `json:"tie"`  // Mean is less than two standard errors
}

// Drift has a system's scores in the first and in the last fifth of the steps, and the
// means and standard errors of their differences, last minus first.
type Drift struct {
	First  Estimate `json:"first"`
	Last   Estimate `json:"last"`
	Change Estimate `json:"change"`
}

// Summarise averages results over seeds. If a job has several results, the last one
// counts. Rows are ordered by data set (the paper's first, in its order, then by name),
// protocol and system (in the order of Known).
func Summarise(results []Result) []Row {
	where := make(map[cell]int)
	var rows []Row
	var runs [][]*Result
	for _, r := range latestBySeed(results) {
		c := cell{r.Dataset, r.Protocol, r.System}
		at, known := where[c]
		if !known {
			at = len(rows)
			where[c] = at
			rows = append(rows, Row{Dataset: r.Dataset, Protocol: r.Protocol, System: r.System})
			runs = append(runs, nil)
		}
		runs[at] = append(runs[at], r)
	}
	for i := range rows {
		rows[i].Estimate = estimate(of(runs[i], func(r *Result) Scores { return r.Mean }))
		rows[i].Drift = drift(runs[i])
		for _, r := range runs[i] {
			ece, chance := r.Bins.ECE()
			rows[i].StreamECE += ece / float64(len(runs[i]))
			rows[i].StreamChance += chance / float64(len(runs[i]))
		}
	}
	for i := range rows {
		for _, m := range measures {
			*m.behind(&rows[i]) = behind(i, rows, runs, m)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(rank(paperDatasets, a.Dataset), rank(paperDatasets, b.Dataset)),
			cmp.Compare(a.Dataset, b.Dataset),
			cmp.Compare(rank(protocols, a.Protocol), rank(protocols, b.Protocol)),
			cmp.Compare(rank(Known, a.System), rank(Known, b.System)),
		)
	})
	return rows
}

// of returns some scores of each run.
func of(runs []*Result, scores func(*Result) Scores) (list []Scores) {
	for _, r := range runs {
		list = append(list, scores(r))
	}
	return list
}

// behind compares row i with the best row of its data set and protocol in a measure.
func behind(i int, rows []Row, runs [][]*Result, m measure) Behind {
	best := i
	for k := range rows {
		if rows[k].Dataset == rows[i].Dataset && rows[k].Protocol == rows[i].Protocol &&
			m.sign*m.mean(&rows[k].Estimate) > m.sign*m.mean(&rows[best].Estimate) {
			best = k
		}
	}
	var differences []float64
	for _, a := range runs[best] {
		for _, b := range runs[i] {
			if a.Seed == b.Seed {
				differences = append(differences, m.sign*(m.score(&a.Mean)-m.score(&b.Mean)))
			}
		}
	}
	if len(differences) == 0 { // no seed in common
		differences = []float64{m.sign * (m.mean(&rows[best].Estimate) - m.mean(&rows[i].Estimate))}
	}
	b := Behind{Best: rows[best].System}
	b.Mean, b.SE = calibration.MeanAndError(differences)
	b.Tie = best != i && len(differences) > 1 && math.Abs(b.Mean) < 2*b.SE
	return b
}

// drift compares the first fifth of each run's steps with the last.
func drift(runs []*Result) *Drift {
	var first, last, change []Scores
	for _, r := range runs {
		if !r.Ordered || len(r.Steps) < 2 {
			return nil
		}
		n := max(1, len(r.Steps)/5)
		a, b := meanOf(r.Steps[:n]), meanOf(r.Steps[len(r.Steps)-n:])
		first, last = append(first, a), append(last, b)
		change = append(change, Scores{Acc: b.Acc - a.Acc, NLL: b.NLL - a.NLL, ECE: b.ECE - a.ECE})
	}
	return &Drift{First: estimate(first), Last: estimate(last), Change: estimate(change)}
}

// meanOf returns the unweighted mean of steps.
func meanOf(steps []Scores) (mean Scores) {
	for _, s := range steps {
		mean.N += s.N
		mean.Acc += s.Acc
		mean.NLL += s.NLL
		mean.ECE += s.ECE
	}
	mean.divide(len(steps))
	return mean
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
	for _, m := range measures {
		var values []float64
		for i := range runs {
			values = append(values, m.score(&runs[i]))
		}
		*m.estimate(&e).mean, *m.estimate(&e).se = calibration.MeanAndError(values)
	}
	return e
}

// measure is one of the three scores.
type measure struct {
	name          string
	scale         float64 // of what is shown
	digits, paper int     // decimals of our figures, and of the paper's
	sign          float64 // 1 if more is better, -1 if less is better
	score         func(*Scores) float64
	estimate      func(*Estimate) meanSE
	behind        func(*Row) *Behind
}

// meanSE are the two fields of an [Estimate] for a measure.
type meanSE struct{ mean, se *float64 }

func (m measure) mean(e *Estimate) float64 { return *m.estimate(e).mean }

var measures = [...]measure{
	{
		"accuracy %", 100, 1, 2, 1,
		func(s *Scores) float64 { return s.Acc },
		func(e *Estimate) meanSE { return meanSE{&e.Acc, &e.AccSE} },
		func(r *Row) *Behind { return &r.AccBehind },
	},
	{
		"NLL", 1, 3, 2, -1,
		func(s *Scores) float64 { return s.NLL },
		func(e *Estimate) meanSE { return meanSE{&e.NLL, &e.NLLSE} },
		func(r *Row) *Behind { return &r.NLLBehind },
	},
	{
		"ECE", 1, 3, 2, -1,
		func(s *Scores) float64 { return s.ECE },
		func(e *Estimate) meanSE { return meanSE{&e.ECE, &e.ECESE} },
		func(r *Row) *Behind { return &r.ECEBehind },
	},
}
