package plot

// Curves returns prequential accuracy, negative log-likelihood (nats) and ECE over
// a stream, a panel each, with a line for every system or head. x names what X
// counts. A metric without series has no panel.
func Curves(title, x string, accuracy, nll, ece []Series) Picture {
	return lines(title, scores(chart{xLabel: x}, accuracy, nll, ece)...)
}

// Sensitivity returns accuracy, negative log-likelihood (nats) and ECE against a
// parameter, named with its unit, a panel each, with marked points and error bars
// for every data set. log makes the parameter's axis logarithmic. A metric
// without series has no panel.
func Sensitivity(title, parameter string, log bool, accuracy, nll, ece []Series) Picture {
	return lines(title, scores(chart{xLabel: parameter, sweep: true, log: log}, accuracy, nll, ece)...)
}

// scores returns charts like the one given, for those metrics that have series.
func scores(like chart, accuracy, nll, ece []Series) (charts []chart) {
	for _, m := range []struct {
		title, label string
		series       []Series
	}{
		{"Accuracy", "accuracy", accuracy},
		{"Negative log-likelihood", "NLL (nats)", nll},
		{"Calibration error", "ECE", ece},
	} {
		if len(m.series) > 0 {
			like.title, like.yLabel, like.series = m.title, m.label, m.series
			charts = append(charts, like)
		}
	}
	return charts
}

// Traffic returns the numbers of events by kind over a stream, a line for each. x names
// what X counts.
func Traffic(title, x string, events []Series) Picture {
	return lines(title, chart{xLabel: x, yLabel: "events", series: events})
}

// Posterior returns the mean variance of the posterior's weights, and the distance
// ‖M - M*‖ of its mean from the anchor (Frobenius norm), over the steps of the
// stream, a panel each.
func Posterior(title string, variance, distance []Series) Picture {
	return lines(title,
		chart{title: "Posterior variance", xLabel: "step", yLabel: "mean variance", series: variance},
		chart{title: "Distance from the anchor", xLabel: "step", yLabel: "‖M − M*‖", series: distance})
}

// Epochs are what a training measured in each epoch, the first at index 0. All but
// Loss may be empty.
type Epochs struct {
	Loss              []float64 // the objective, nats per node
	ELL               []float64 // expected log-likelihood, nats per node
	KLWeight          []float64 // α_KL
	Train, Validation []float64 // accuracies, from 0 to 1
}

// Training returns the loss with its expected log-likelihood, the weight of the KL
// term and the accuracies, over epochs from 1, a panel each. What is empty is left
// out.
func Training(title string, e Epochs) Picture {
	series := func(name string, y []float64) []Series {
		if len(y) == 0 {
			return nil
		}
		x := make([]float64, len(y))
		for i := range x {
			x[i] = float64(i + 1)
		}
		return []Series{{Name: name, X: x, Y: y}}
	}
	negative := make([]float64, len(e.ELL))
	for i, v := range e.ELL {
		negative[i] = -v
	}
	charts := []chart{{
		title: "Loss", xLabel: "epoch", yLabel: "nats per node",
		series: append(series("loss", e.Loss), series("−ELL", negative)...),
	}}
	if len(e.KLWeight) > 0 {
		charts = append(charts, chart{title: "Weight of the KL term", xLabel: "epoch", yLabel: "weight", series: series("", e.KLWeight)})
	}
	if accuracies := append(series("train", e.Train), series("validation", e.Validation)...); len(accuracies) > 0 {
		charts = append(charts, chart{title: "Accuracy", xLabel: "epoch", yLabel: "accuracy", series: accuracies})
	}
	return lines(title, charts...)
}
