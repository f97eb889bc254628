package table

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/charts/plot"
)

// Picture is a plot with the name of the file it is for, without an ending.
type Picture struct {
	Name string
	plot.Picture
}

// Pictures returns, for each data set and protocol among the results: prequential
// curves of GVBLL and of the best other system, GVBLL's reliability before and
// after updating, and its posterior over the steps; and for each protocol all
// systems' NLL and accuracy beside the paper's. Results of the same job count
// once, the last.
func Pictures(results []Result) []Picture {
	rows := Summarise(results)
	runs := make(map[cell][]*Result)
	latest := make(map[Job]int, len(results))
	for i := range results {
		latest[results[i].Job] = i
	}
	for _, i := range inSeedOrder(results, latest) {
		r := &results[i]
		c := cell{r.Dataset, r.Protocol, r.System}
		runs[c] = append(runs[c], r)
	}
	var pictures []Picture
	for lo := 0; lo < len(rows); {
		hi := lo
		for hi < len(rows) && rows[hi].Dataset == rows[lo].Dataset && rows[hi].Protocol == rows[lo].Protocol {
			hi++
		}
		pictures = append(pictures, ofStream(rows[lo:hi], runs)...)
		lo = hi
	}
	for _, protocol := range Protocols {
		pictures = append(pictures, ofProtocol(rows, protocol)...)
	}
	return pictures
}

// cell is results that differ by seed alone.
type cell struct{ dataset, protocol, system string }

// ofStream are the pictures of one data set and protocol.
func ofStream(rows []Row, runs map[cell][]*Result) (pictures []Picture) {
	at := cell{rows[0].Dataset, rows[0].Protocol, ""}
	of := func(system string) []*Result {
		c := at
		c.system = system
		return runs[c]
	}
	var shown []string
	best := math.Inf(1)
	for _, r := range rows {
		if !bayesian(r.System) && r.NLL < best {
			best, shown = r.NLL, []string{r.System}
		}
	}
	for _, r := range rows {
		if bayesian(r.System) {
			shown = append(shown, r.System)
		}
	}
	name := func(what string) string { return at.dataset + "-" + at.protocol + "-" + what }
	title := at.dataset + ", " + at.protocol
	var acc, nll, ece, variance, distance []plot.Series
	var diagrams []plot.Diagram
	for _, system := range shown {
		some := of(system)
		acc = append(acc, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].Acc }))
		nll = append(nll, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].NLL }))
		ece = append(ece, overSteps(system, some, func(r *Result, t int) float64 { return r.Steps[t].ECE }))
		if !bayesian(system) {
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

func bayesian(system string) bool { return system == "gvbll-static" || system == "gvbll-online" }

// overSteps averages runs step by step, with standard errors if there are
// several. Seeds whose streams have fewer steps count while they last.
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

func meanAndError(values []float64) (mean, se float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if len(values) < 2 {
		return mean, 0
	}
	for _, v := range values {
		se += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(se / (n - 1) / n)
}

// together adds up the reliability bins of all seeds.
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

// ofProtocol are all systems on all data sets.
func ofProtocol(rows []Row, protocol string) (pictures []Picture) {
	var datasets, systems []string
	found := make(map[cell]*Row)
	for i := range rows {
		r := &rows[i]
		if r.Protocol != protocol {
			continue
		}
		found[cell{r.Dataset, protocol, r.System}] = r
		if !slices.Contains(datasets, r.Dataset) {
			datasets = append(datasets, r.Dataset)
		}
		if !slices.Contains(systems, r.System) {
			systems = append(systems, r.System)
		}
	}
	if len(datasets) == 0 {
		return nil
	}
	slices.SortFunc(systems, func(a, b string) int { return rank(Systems, a) - rank(Systems, b) })
	for _, dataset := range datasets {
		var acc, nll []plot.System
		for _, system := range systems {
			r := found[cell{dataset, protocol, system}]
			if r == nil {
				continue
			}
			a := plot.System{Name: system, Value: r.Acc, Err: r.AccSE, Paper: math.NaN()}
			n := plot.System{Name: system, Value: r.NLL, Err: r.NLLSE, Paper: math.NaN()}
			if acc, nll, _, ok := Paper(dataset, system); ok {
				a.Paper, n.Paper = acc, nll
			}
			acc, nll = append(acc, a), append(nll, n)
		}
		pictures = append(pictures,
			Picture{dataset + "-" + protocol + "-nll", plot.Bars(fmt.Sprintf("%s, %s: less is better", dataset, protocol), "NLL (nats)", nll)},
			Picture{dataset + "-" + protocol + "-accuracy", plot.Bars(fmt.Sprintf("%s, %s: more is better", dataset, protocol), "accuracy", acc)})
	}
	return pictures
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
