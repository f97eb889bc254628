package table

import (
	"cmp"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// row is a line of Table I: means over seeds of the means over steps.
type row struct {
	Dataset  string   `json:"dataset"`
	Protocol string   `json:"protocol"`
	System   string   `json:"system"`
	Seeds    int      `json:"seeds"`
	Acc      measured `json:"acc"` // as a fraction
	NLL      measured `json:"nll"`
	ECE      measured `json:"ece"`
	AUC      measured `json:"auc"` // as AP of all labels of a stream: of Ranked, or the mean over classes
	AP       measured `json:"ap"`
	Ranked   string   `json:"ranked,omitempty"`
	// Of Ranked, means over seeds: the share of the class that is among the 1 % with the largest probabilities, and how
	// often it is right to always say the other class. 0 unless there are two.
	Recall   float64 `json:"recall_at_1_percent,omitempty"`
	Majority float64 `json:"majority,omitempty"`
	// Of all labels of a stream, not by step: the ECE and its chance level, means over seeds.
	StreamECE    float64 `json:"stream_ece"`
	StreamChance float64 `json:"stream_ece_chance"`
	// Drift is nil unless the stream is in order of time.
	Drift *Drift `json:"drift,omitempty"`

	runs []*Result // by seed
}

// measured is a mean over seeds with its standard error, which is 0 for a single seed, and how
// far the system is behind the best one of its data set and protocol: the mean over seeds of their
// differences. Systems of one seed share the split, the steps and often the encoder, so differences
// vary less than scores do.
type measured struct {
	Mean     float64 `json:"mean"`
	SE       float64 `json:"se"`
	Best     string  `json:"best"`   // the system with the best mean
	Behind   float64 `json:"behind"` // over the seeds that both have, or of means if there are none; 0 for the best itself
	BehindSE float64 `json:"behind_se"`
	Tie      bool    `json:"tie"` // Behind is less than two standard errors
}

// Drift has a system's scores in the first and in the last fifth of the steps, and the
// means and standard errors of their differences, last minus first.
type Drift struct {
	First    Scores `json:"first"`
	Last     Scores `json:"last"`
	Change   Scores `json:"change"`
	ChangeSE Scores `json:"change_se"`
}

// measures are the three scores, in the order of [Scores.at], and then those of a whole stream's ranking.
var measures = [...]struct {
	name          string
	scale         float64 // of what is shown
	digits, paper int     // decimals of our figures, and of the paper's
	sign          float64 // 1 if more is better, -1 if less is better
}{{"accuracy %", 100, 1, 2, 1}, {"NLL", 1, 3, 2, -1}, {"ECE", 1, 3, 2, -1}, {"AUC", 1, 3, 0, 1}, {"AP", 1, 3, 0, 1}}

// stepMeasures is the number of measures that a step has.
const stepMeasures = 3

// at returns the score of a measure.
func (s *Scores) at(measure int) *float64 { return [...]*float64{&s.Acc, &s.NLL, &s.ECE}[measure] }

func (r *row) at(measure int) *measured {
	return [...]*measured{&r.Acc, &r.NLL, &r.ECE, &r.AUC, &r.AP}[measure]
}

// measured returns a measure of a run.
func (r *Result) measured(measure int) float64 {
	return [...]float64{r.Mean.Acc, r.Mean.NLL, r.Mean.ECE, r.AUC, r.AP}[measure]
}

// Summarise averages results over seeds. If a job has several results, the last one
// counts. Rows are ordered by data set (the paper's first, in its order, then by name),
// protocol and system (in the order of Known).
func Summarise(results []Result) (rows []row) {
	latest := make(map[Job]*Result, len(results))
	for i := range results {
		latest[results[i].Job] = &results[i]
	}
	runs := make(map[Job][]*Result) // without a seed
	for job, r := range latest {
		job.Seed = 0
		runs[job] = append(runs[job], r)
	}
	for job, of := range runs {
		slices.SortFunc(of, func(a, b *Result) int { return cmp.Compare(a.Seed, b.Seed) }) // so that sums have one order
		rows = append(rows, newRow(job, of))
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(
			cmp.Compare(rank(paperDatasets, a.Dataset), rank(paperDatasets, b.Dataset)),
			cmp.Compare(a.Dataset, b.Dataset),
			cmp.Compare(rank(protocols, a.Protocol), rank(protocols, b.Protocol)),
			cmp.Compare(rank(Known, a.System), rank(Known, b.System)),
		)
	})
	for _, t := range tables(rows) {
		compare(t)
	}
	return rows
}

// tables divides rows into those of one data set and protocol.
func tables(rows []row) (list [][]row) {
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(r row) bool { return r.Dataset != rows[0].Dataset || r.Protocol != rows[0].Protocol })
		if n < 0 {
			n = len(rows)
		}
		list, rows = append(list, rows[:n]), rows[n:]
	}
	return list
}

func newRow(job Job, runs []*Result) row {
	r := row{Dataset: job.Dataset, Protocol: job.Protocol, System: job.System, Seeds: len(runs), Drift: drift(runs), runs: runs}
	r.Ranked = runs[0].Ranked
	for _, run := range runs {
		ece, chance := run.Bins.ECE()
		r.StreamECE += ece / float64(len(runs))
		r.StreamChance += chance / float64(len(runs))
		for _, k := range run.Ranks {
			if k.Class == r.Ranked {
				r.Recall += k.Recall / float64(len(runs))
				r.Majority += float64(run.Stream.N-k.Labels) / float64(max(run.Stream.N, 1)*len(runs))
			}
		}
	}
	for k := range measures {
		var values []float64
		for _, run := range runs {
			values = append(values, run.measured(k))
		}
		r.at(k).Mean, r.at(k).SE = calibration.MeanAndError(values)
	}
	return r
}

// compare compares the rows of a table with the best of them in each measure.
func compare(rows []row) {
	for k, m := range measures {
		best := slices.MaxFunc(rows, func(a, b row) int { return cmp.Compare(m.sign*a.at(k).Mean, m.sign*b.at(k).Mean) })
		for i := range rows {
			r := rows[i].at(k)
			if r.Best = best.System; r.Mean == best.at(k).Mean {
				r.Best = rows[i].System
				continue
			}
			var differences []float64
			for _, a := range best.runs {
				for _, b := range rows[i].runs {
					if a.Seed == b.Seed {
						differences = append(differences, m.sign*(a.measured(k)-b.measured(k)))
					}
				}
			}
			if differences == nil { // no seed in common
				differences = []float64{m.sign * (best.at(k).Mean - r.Mean)}
			}
			r.Behind, r.BehindSE = calibration.MeanAndError(differences)
			r.Tie = len(differences) > 1 && math.Abs(r.Behind) < 2*r.BehindSE
		}
	}
}

// drift compares the first fifth of each run's steps with the last.
func drift(runs []*Result) *Drift {
	var first, last, change []Scores
	for _, r := range runs {
		if !r.Ordered || len(r.Steps) < 2 {
			return nil
		}
		n := max(1, len(r.Steps)/5)
		a, _ := estimate(r.Steps[:n])
		b, _ := estimate(r.Steps[len(r.Steps)-n:])
		first, last = append(first, a), append(last, b)
		change = append(change, Scores{Acc: b.Acc - a.Acc, NLL: b.NLL - a.NLL, ECE: b.ECE - a.ECE})
	}
	var d Drift
	d.First, _ = estimate(first)
	d.Last, _ = estimate(last)
	d.Change, d.ChangeSE = estimate(change)
	return &d
}

// estimate returns the unweighted mean of scores, and its standard error.
func estimate(list []Scores) (mean, se Scores) {
	for k := range stepMeasures {
		var values []float64
		for i := range list {
			values = append(values, *list[i].at(k))
		}
		*mean.at(k), *se.at(k) = calibration.MeanAndError(values)
	}
	return mean, se
}
