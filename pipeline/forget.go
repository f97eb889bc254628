package pipeline

import (
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Apart returns how far the serving posterior of exact is from that of e, as
// Frobenius norms of the differences of mean and variance.
func (e *Engine) Apart(exact *Engine) (mean, variance float64) {
	a, b := e.online.Posterior(), exact.online.Posterior()
	for i := range a.Mean {
		mean = math.Hypot(mean, a.Mean[i]-b.Mean[i])
		variance = math.Hypot(variance, 1/max(a.Precision[i], leastPrecision)-1/max(b.Precision[i], leastPrecision))
	}
	return mean, variance
}

// Unlearn takes back what nodes have taught, as when they leave, and reports
// whether what is needed for it is kept (Config.ForgetDeparted). It is for an
// engine that is not stepped again: the nodes stay in the graph, and no outcome
// tells of it.
func (e *Engine) Unlearn(nodes []event.ID) bool {
	if e.gone.lessons == nil {
		return false
	}
	var numbers []int32
	for _, id := range nodes {
		if v, known := e.roster.number(id); known {
			numbers = append(numbers, v)
		}
	}
	e.takeBack(numbers)
	return true
}
