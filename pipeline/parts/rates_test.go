package parts_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestLabelRates: for a tenth of the nodes of a class a label comes, and for all others. A pool that is told so, or
// that counts it, has probabilities of all nodes nearly as good as one to which every label comes; without,
// it has those of labelled nodes. Where every label comes, counting costs next to nothing.
func TestLabelRates(t *testing.T) {
	const steps, n = 60, 40
	loss := func(rates pipeline.LabelRates, share float64) (nats float64, e *pipelinetest.Engine) {
		s, rng := pipelinetest.NewCalibratedStream(t, 3), rand.New(rand.NewPCG(1, 2))
		m := *s.M
		pipelinetest.AddPool(t, &m, false)
		e = pipelinetest.NewEngine(t, &m, pipeline.Config{LabelRates: rates, Local: pipeline.Local{Unwatched: true}})
		scored := 0
		for step := range steps {
			nodes, labels := s.Next(n)
			served := e.Step(nodes)
			var come []event.Label
			for i, l := range labels.Labels {
				if step >= steps/3 {
					nats -= math.Log(float64(served.Predictions[i].Probabilities[l.Index]))
					scored++
				}
				if l.Index != 0 || rng.Float64() < share {
					come = append(come, l)
				}
			}
			labels.Labels = come
			e.Step(labels)
		}
		return nats / float64(scored), e
	}
	all, _ := loss("", 1)
	untold, e := loss("", 0.1)
	if r := e.Pooled().LabelRates; r != nil {
		t.Errorf("rates %v without any", r)
	}
	class := e.Model().Classes[0]
	told, _ := loss(pipeline.LabelRates(class+"=0.1"), 0.1)
	counted, e := loss(pipeline.CountedRates, 0.1)
	countedAll, _ := loss(pipeline.CountedRates, 1)
	t.Logf("NLL %.3f with all labels, and %.3f if these are counted; a tenth of a class's: %.3f, told %.3f, counted %.3f; rates %.2f", all, countedAll, untold, told, counted, e.Pooled().LabelRates)
	if untold < all+0.15 || told > all+0.02 || counted > all+0.08 || countedAll > all+0.03 {
		t.Error("want the losses near that of all labels, but without rates")
	}
	if r := e.Pooled().LabelRates; r[0] > 0.25 || min(r[1], r[2]) < 0.4 {
		t.Errorf("counted rates %v, want the first near .1 of the others", r)
	}
}
