package table

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// Pictures returns for each data set and protocol: the scores by step of GVBLL, the pool
// and the best baselines, reliability diagrams of GVBLL with and without updates, GVBLL's
// posterior by step, and the NLL and accuracy of all systems beside the paper's. If a job
// has several results, the last one counts.
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
		pictures = append(pictures, bars(rows[lo:hi])...)
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
	var acc, nll, ece, variance, distance []series
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
		if len(some[0].Variance) == len(some[0].Steps) {
			variance = append(variance, overSteps(system, some, func(r *Result, t int) float64 { return r.Variance[t] }))
			distance = append(distance, overSteps(system, some, func(r *Result, t int) float64 { return r.AnchorDistance[t] }))
		}
	}
	curves := Picture{Name: name("curves")}
	curves.scores(title+", before its labels", "step", acc, nll, ece)
	pictures = append(pictures, curves)
	if diagrams.plots != nil {
		pictures = append(pictures, diagrams)
	}
	if len(variance) > 0 {
		p := Picture{Name: name("posterior")}
		p.lines(title, "step", "mean variance", variance)
		p.lines("", "step", "‖M − M*‖", distance)
		pictures = append(pictures, p)
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

// bars returns pictures of the NLL and the accuracy of all systems on one data set and
// protocol.
func bars(rows []Row) []Picture {
	var names []string
	var acc, nll, accSE, nllSE, paperAcc, paperNLL []float64
	for _, r := range rows {
		a, n, _, ok := paperScores(r.Dataset, r.System)
		if !ok {
			a, n = math.NaN(), math.NaN()
		}
		names = append(names, r.System)
		acc, accSE, paperAcc = append(acc, r.Acc), append(accSE, r.AccSE), append(paperAcc, a)
		nll, nllSE, paperNLL = append(nll, r.NLL), append(nllSE, r.NLLSE), append(paperNLL, n)
	}
	name, title := rows[0].Dataset+"-"+rows[0].Protocol, rows[0].Dataset+", "+rows[0].Protocol
	less, more := Picture{Name: name + "-nll"}, Picture{Name: name + "-accuracy"}
	less.bars(title+": less is better", "NLL (nats)", names, nll, nllSE, paperNLL)
	more.bars(title+": more is better", "accuracy", names, acc, accSE, paperAcc)
	return []Picture{less, more}
}
