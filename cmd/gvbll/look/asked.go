package look

import (
	"fmt"
	"math"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/parts"
)

// asked are the labels that were asked for. Weighed by the inverse of the probabilities with which they
// were, their scores are estimates for all nodes.
type asked struct {
	Nodes    int     `json:"nodes"` // of which labels were asked for in this time
	Labels   int     `json:"labels"`
	Accuracy float64 `json:"weighed_accuracy"`
	Error    float64 `json:"standard_error"`
	NLL      float64 `json:"weighed_nll"`
	Raw      float64 `json:"accuracy"` // of these labels as they are
	// Others are the labels that came by themselves.
	Others   int     `json:"others"`
	OtherAcc float64 `json:"others_accuracy"`
}

func askedOf(p *page.Period) *asked {
	of := func(f *figure.Figure) float64 { return p.Figures.Of(f) }
	labels, correct, weight := of(parts.Asked.Labels), of(parts.Asked.Correct), of(parts.Asked.Weight)
	a := &asked{Nodes: int(of(parts.Asked.Nodes)), Labels: int(labels), Others: p.Served.Labels - int(labels)}
	if a.Labels > 0 {
		// The estimate for all nodes, and its standard error by linearisation.
		a.Accuracy = of(parts.Asked.WeighedCorrect) / weight
		a.Error = math.Sqrt(of(parts.Asked.CorrectSquares)*(1-2*a.Accuracy)+a.Accuracy*a.Accuracy*of(parts.Asked.Squares)) / weight
		a.NLL, a.Raw = of(parts.Asked.WeighedLogLoss)/weight, correct/labels
	}
	if a.Others > 0 {
		a.OtherAcc = (float64(p.Served.Correct) - correct) / float64(a.Others)
	}
	return a
}

// chosen says how labels depend on predictions, nothing if none was asked for. How many were is among the figures.
func (p *statusPeriod) chosen() (lines []string) {
	a := p.Asked
	if a == nil {
		return nil
	}
	lines = append(lines, "labels depend on predictions: they are asked for, the more uncertain the sooner, so raw "+
		"scores are not of all nodes")
	if a.Labels > 0 {
		lines = append(lines, fmt.Sprintf("those that were asked for: accuracy %.4f; weighed, for all nodes, %.4f ± %.4f, and NLL %.4f",
			a.Raw, a.Accuracy, a.Error, a.NLL))
	}
	if a.Others > 0 {
		lines = append(lines, fmt.Sprintf("%d labels came by themselves: accuracy %.4f", a.Others, a.OtherAcc))
	}
	return lines
}
