package table

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/charts/plot"
)

// Picture is a plot with the name of its file, without the extension.
type Picture struct {
	Name string
	plot.Picture
}

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
	var acc, nll, ece, variance, distance []plot.Series
	var diagrams []plot.Diagram
	for _, system := range shown {
		some := runs[cell{dataset, protocol, system}]
		acc = append(acc, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].Acc }))
		nll = append(nll, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].NLL }))
		ece = append(ece, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].ECE }))
		if !isGVBLL(system) {
			continue
		}
		diagrams = append(diagrams, plot.Diagram{Name: system, Bins: together(some)})
		if len(some[0].Variance) == len(some[0].Steps) {
			variance = append(variance, overSteps(system, some, func(r *Result, t int) float64 { return r.Variance[t] }))
			distance = append(distance, overSteps(system, some, func(r *Result, t int) float64 { return r.AnchorDistance[t] }))
		}
	}
	pictures = append(pictures, Picture{name("curves"), plot.Curves(title+": each step before its labels", "step", acc, nll, ece)})
	if len(diagrams) > 0 {
		pictures = append(pictures, Picture{name("reliability"), plot.Reliability(title, diagrams...)})
	}
	if len(variance) > 0 {
		pictures = append(pictures, Picture{name("posterior"), plot.Posterior(title, variance, distance)})
	}
	return pictures
}

func isGVBLL(system string) bool { return system == "gvbll-static" || system == "gvbll-online" }

// overSteps averages runs step by step, with standard errors if there are several. A
// step's mean is over the runs that have the step.
func overSteps(name string, runs []*Result, of func(*Result, int) float64) plot.Series {
	s := plot.Series{Name: name}
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
		mean, se := meanAndError(values)
		s.X, s.Y, s.Err = append(s.X, float64(t+1)), append(s.Y, mean), append(s.Err, se)
	}
}

// together returns the reliability bins over all runs.
func together(runs []*Result) []plot.Bin {
	sum := make([]Bin, len(runs[0].Bins))
	for _, r := range runs {
		for i, b := range r.Bins {
			if i < len(sum) {
				sum[i].Count += b.Count
				sum[i].Correct += b.Correct
				sum[i].Confidence += b.Confidence
			}
		}
	}
	width := 1 / float64(len(sum))
	bins := make([]plot.Bin, len(sum))
	for i, b := range sum {
		bins[i] = plot.Bin{Low: float64(i) * width, High: min(float64(i+1)*width, 1), Count: int(b.Count)}
		if b.Count > 0 {
			bins[i].Confidence = min(b.Confidence/float64(b.Count), 1)
			bins[i].Accuracy = float64(b.Correct) / float64(b.Count)
		}
	}
	return bins
}

// bars returns pictures of the NLL and the accuracy of all systems on one data set and
// protocol.
func bars(rows []Row) []Picture {
	var acc, nll []plot.System
	for _, r := range rows {
		a := plot.System{Name: r.System, Value: r.Acc, Err: r.AccSE, Paper: math.NaN()}
		n := plot.System{Name: r.System, Value: r.NLL, Err: r.NLLSE, Paper: math.NaN()}
		if paperAcc, paperNLL, _, ok := paperScores(r.Dataset, r.System); ok {
			a.Paper, n.Paper = paperAcc, paperNLL
		}
		acc, nll = append(acc, a), append(nll, n)
	}
	name, title := rows[0].Dataset+"-"+rows[0].Protocol, rows[0].Dataset+", "+rows[0].Protocol
	return []Picture{
		{name + "-nll", plot.Bars(title+": less is better", "NLL (nats)", nll)},
		{name + "-accuracy", plot.Bars(title+": more is better", "accuracy", acc)},
	}
}

// SensitivityPictures returns a picture for each parameter and protocol among the
// points, with a line for each data set.
func SensitivityPictures(points []Point) (pictures []Picture) {
	for _, param := range Parameters {
		for _, protocol := range Protocols {
			var datasets []string
			lines := make(map[string][]Point)
			for _, p := range points {
				if p.Param == param && p.Protocol == protocol {
					if lines[p.Dataset] == nil {
						datasets = append(datasets, p.Dataset)
					}
					lines[p.Dataset] = append(lines[p.Dataset], p)
				}
			}
			if len(datasets) == 0 {
				continue
			}
			var acc, nll, ece []plot.Series
			for _, d := range datasets {
				a, n, e := plot.Series{Name: d}, plot.Series{Name: d}, plot.Series{Name: d}
				for _, p := range lines[d] {
					a.X, a.Y, a.Err = append(a.X, p.Value), append(a.Y, p.Acc), append(a.Err, p.AccSE)
					n.X, n.Y, n.Err = append(n.X, p.Value), append(n.Y, p.NLL), append(n.Err, p.NLLSE)
					e.X, e.Y, e.Err = append(e.X, p.Value), append(e.Y, p.ECE), append(e.Err, p.ECESE)
				}
				acc, nll, ece = append(acc, a), append(nll, n), append(ece, e)
			}
			log := param == "steps" || param == "train-share" || param == "eta"
			pictures = append(pictures, Picture{param + "-" + protocol, plot.Sensitivity("GVBLL-Online, "+protocol, param, log, acc, nll, ece)})
		}
	}
	return pictures
}
