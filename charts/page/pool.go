package page

import (
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/gvbll/gvbll/pipeline"
)

// poolValue is what a pool of heads has learned.
type poolValue struct {
	Heads  []poolHeadValue `json:"heads"`
	Bias   []poolBiasValue `json:"bias"`
	Regret float64         `json:"regret"`
	// Compatibility[c][d] is the share of class d among the labelled neighbours of
	// the nodes of class c.
	Compatibility [][]float64 `json:"compatibility,omitempty"`
}

type poolHeadValue struct {
	Head   string  `json:"head"`
	Weight float64 `json:"weight"`
}

type poolBiasValue struct {
	Class string  `json:"class"`
	Bias  float64 `json:"bias"`
}

// weightView is the weight of a head as a bar. Places are percentages of the room for bars.
type weightView struct {
	Head, Weight, Metric string
	Left, Width          float64 // of the bar
	Zero                 float64 // where all bars begin
	Negative             bool
}

// weightsOf returns the weights of a pool's heads, which may be nil.
func weightsOf(p *pipeline.Pooled) (list []weightView) {
	if p == nil {
		return nil
	}
	lo, hi := min(0, slices.Min(p.Weights)), max(0, slices.Max(p.Weights))
	at := func(w float64) float64 { return 100 * (w - lo) / max(hi-lo, math.SmallestNonzeroFloat64) }
	for k, head := range p.Heads {
		w := p.Weights[k]
		list = append(list, weightView{
			Head: head, Weight: formatted(w), Metric: fmt.Sprintf("gvbll_pool_weight{head=%q}", head),
			Left: at(min(w, 0)), Width: at(max(w, 0)) - at(min(w, 0)), Zero: at(0), Negative: w < 0,
		})
	}
	return list
}

// pool serves GET /v1/pool.
func (s *Server) pool(r *http.Request) (any, *problem) {
	var learned *pipeline.Pooled
	var classes []string
	if p := s.engine(r.Context(), func(e *pipeline.Engine) { learned, classes = e.Pooled(), e.Model().Classes }); p != nil {
		return nil, p
	}
	if learned == nil {
		return nil, noSuchPage.because("the paper's head serves, not a pool; see /v1/posterior")
	}
	v := poolValue{Regret: learned.Regret}
	for k, head := range learned.Heads {
		v.Heads = append(v.Heads, poolHeadValue{head, learned.Weights[k]})
	}
	for c, b := range learned.Bias {
		v.Bias = append(v.Bias, poolBiasValue{classes[c], b})
	}
	for h, n := learned.Compatibility, len(learned.Bias); len(h) > 0; h = h[n:] {
		v.Compatibility = append(v.Compatibility, h[:n])
	}
	return v, nil
}
