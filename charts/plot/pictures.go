package plot

// Curves is prequential accuracy (a share), negative log-likelihood (nats) and
// ECE over the steps of the stream, a panel each, with a line for every system or
// head. X counts steps or windows. A metric without series has no panel.
func Curves(title string, accuracy, nll, ece []Series) Picture {
	return Lines(title, 0, metrics(Panel{XLabel: "step"}, accuracy, nll, ece)...)
}

// Sensitivity is accuracy (a share), negative log-likelihood (nats) and ECE
// against a parameter, named with its unit, a panel each, with marked points and
// error bars for every data set. A metric without series has no panel.
func Sensitivity(title, parameter string, logX bool, accuracy, nll, ece []Series) Picture {
	return Lines(title, 0, metrics(Panel{XLabel: parameter, LogX: logX, Points: true}, accuracy, nll, ece)...)
}

// metrics returns panels like the one given, for those metrics that have series.
func metrics(like Panel, accuracy, nll, ece []Series) (panels []Panel) {
	for _, m := range []struct {
		title, label string
		series       []Series
	}{
		{"Accuracy", "accuracy", accuracy},
		{"Negative log-likelihood", "NLL (nats)", nll},
		{"Calibration error", "ECE", ece},
	} {
		if len(m.series) > 0 {
			like.Title, like.YLabel, like.Series = m.title, m.label, m.series
			panels = append(panels, like)
		}
	}
	return panels
}

// Posterior is the mean variance of the posterior's weights, and the distance
// ‖M - M*‖ of its mean from the anchor (Frobenius norm), over the steps of the
// stream, a panel each.
func Posterior(title string, variance, distance []Series) Picture {
	return Lines(title, 0,
		Panel{Title: "Posterior variance", XLabel: "step", YLabel: "mean variance", Series: variance},
		Panel{Title: "Distance from the anchor", XLabel: "step", YLabel: "‖M − M*‖", Series: distance})
}

// Epochs are measures of a training by epoch, the first at 0. All but Loss may be
// empty.
type Epochs struct {
	Loss              []float64 // what is minimised, nats per node
	ELL               []float64 // expected log-likelihood, nats per node
	KLWeight          []float64 // α_KL
	Train, Validation []float64 // accuracies, shares
}

// Training is the loss and what it is made of, the weight of the KL term and the
// accuracies, by epoch from 1, a panel each. What is empty is left out.
func Training(title string, e Epochs) Picture {
	var epoch []float64
	for i := range max(len(e.Loss), len(e.ELL), len(e.KLWeight), len(e.Train), len(e.Validation)) {
		epoch = append(epoch, float64(i+1))
	}
	byEpoch := func(name string, y []float64) []Series {
		if len(y) == 0 {
			return nil
		}
		return []Series{{Name: name, X: epoch[:len(y)], Y: y}}
	}
	expected := make([]float64, len(e.ELL))
	for i, v := range e.ELL {
		expected[i] = -v
	}
	panels := []Panel{{
		Title: "Loss", XLabel: "epoch", YLabel: "nats per node",
		Series: append(byEpoch("loss", e.Loss), byEpoch("−ELL", expected)...),
	}}
	for _, more := range []Panel{
		{Title: "Weight of the KL term", YLabel: "weight", Series: byEpoch("", e.KLWeight)},
		{Title: "Accuracy", YLabel: "accuracy", Series: append(byEpoch("train", e.Train), byEpoch("validation", e.Validation)...)},
	} {
		if len(more.Series) > 0 {
			more.XLabel = "epoch"
			panels = append(panels, more)
		}
	}
	return Lines(title, 0, panels...)
}
