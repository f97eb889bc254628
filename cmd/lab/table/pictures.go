package table

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Pictures returns for each data set and protocol: the scores by step of GVBLL, the pool
// and the best baselines, and reliability diagrams of GVBLL with and without updates. If a
// job has several results, the last one counts.
func Pictures(results []Result) []Picture {
	rows := Summarise(results)
	runs := make(map[cell][]*Result)
	for _, r := range latestBySeed(results) {
		c := cell{r.Dataset, r.Protocol, r.System}
		runs[c] = append(runs[c], r)
	}
	var pictures []Picture
	for lo := 0; lo < len(rows); {
		hi := lo
		for hi < len(rows) && rows[hi].Dataset == rows[lo].Dataset && rows[hi].Protocol == rows[lo].Protocol {
			hi++
		}
		pictures = append(pictures, overStream(rows[lo:hi], runs)...)
		lo = hi
	}
	return pictures
}

// cell identifies results that differ only by seed.
type cell struct{ dataset, protocol, system string }

// curves names the systems whose scores by step are drawn: the best by NLL of the paper's
// baselines and of the simple ones, GVBLL, and the pool.
func curves(rows []Row) (shown []string) {
	for _, list := range [][]string{Systems, simple} {
		best := ""
		least := math.Inf(1)
		for _, r := range rows {
			if slices.Contains(list, r.System) && !isGVBLL(r.System) && r.NLL < least {
				best, least = r.System, r.NLL
			}
		}
		if best != "" {
			shown = append(shown, best)
		}
	}
	for _, r := range rows {
		if isGVBLL(r.System) || r.System == "pool" {
			shown = append(shown, r.System)
		}
	}
	return shown
}

// overStream returns the pictures by step, and the reliability diagrams, of one data set
// and protocol.
func overStream(rows []Row, runs map[cell][]*Result) (pictures []Picture) {
	dataset, protocol := rows[0].Dataset, rows[0].Protocol
	shown := curves(rows)
	name := func(what string) string { return dataset + "-" + protocol + "-" + what }
	title := dataset + ", " + protocol
	var acc, nll, ece []series
	diagrams := Picture{Name: name("reliability")}
	for _, system := range shown {
		some := runs[cell{dataset, protocol, system}]
		acc = append(acc, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].Acc }))
		nll = append(nll, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].NLL }))
		ece = append(ece, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].ECE }))
		if !isGVBLL(system) {
			continue
		}
		var bins calibration.Bins
		for _, r := range some {
			bins.Merge(&r.Bins)
		}
		diagrams.reliability(system, &bins)
	}
	curves := Picture{Name: name("curves")}
	curves.scores(title+", before its labels", "step", acc, nll, ece)
	pictures = append(pictures, curves)
	if diagrams.plots != nil {
		pictures = append(pictures, diagrams)
	}
	return pictures
}

func isGVBLL(system string) bool { return system == "gvbll-static" || system == "gvbll-online" }

// overSteps averages runs step by step, with standard errors if there are several. A
// step's mean is over the runs that have the step.
func overSteps(name string, runs []*Result, of func(*Result, int) float64) series {
	s := series{Name: name}
	for t := 0; ; t++ {
		var values []float64
		for _, r := range runs {
			if t < len(r.Steps) {
				values = append(values, of(r, t))
			}
		}
		if len(values) == 0 {
			return s
		}
		mean, se := calibration.MeanAndError(values)
		s.add(float64(t+1), mean, se)
	}
}
