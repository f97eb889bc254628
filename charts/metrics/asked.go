package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/pipeline/event"
)

// asked are the metrics of nodes of which labels are asked for. They are sums over the labels, as they
// are and weighed by the inverse of the probabilities with which they were asked for.
type asked struct {
	nodes, labels, correct, logLoss        prometheus.Counter
	weight, weighedCorrect, weighedLogLoss prometheus.Counter
}

func newAsked(r register) asked {
	return asked{
		nodes:          r.counter("gvbll_asked_nodes_total", "Nodes of which labels were asked for."),
		labels:         r.counter("gvbll_asked_labels_total", "Scored labels that were asked for; the others came by themselves."),
		correct:        r.counter("gvbll_asked_correct_total", "Labels among them that had been predicted."),
		logLoss:        r.counter("gvbll_asked_log_loss_nats_total", "Sum of their log losses."),
		weight:         r.counter("gvbll_asked_weight_total", "Sum of their weights: of the inverse probabilities with which they were asked for, an estimate of the number of all nodes."),
		weighedCorrect: r.counter("gvbll_asked_weighed_correct_total", "Sum of the weights of those that had been predicted: divided by the weights, an estimate of the accuracy for all nodes."),
		weighedLogLoss: r.counter("gvbll_asked_weighed_log_loss_nats_total", "Sum of their log losses, each times its weight."),
	}
}

func (a *asked) observe(out *event.Outcome) {
	for i := range out.Predictions {
		if out.Predictions[i].Asked > 0 {
			a.nodes.Inc()
		}
	}
	for i := range out.Labelled {
		l := &out.Labelled[i]
		if l.Asked == 0 {
			continue
		}
		score, weight := &out.Heads[l.By].Scores[i], 1/float64(l.Asked)
		a.labels.Inc()
		a.logLoss.Add(score.LogLoss)
		a.weight.Add(weight)
		a.weighedLogLoss.Add(weight * score.LogLoss)
		if score.Correct {
			a.correct.Inc()
			a.weighedCorrect.Add(weight)
		}
	}
}
