package page

import (
	"fmt"
	"math"
	"net/http"

	"github.com/gvbll/gvbll/pipeline"
)

// poolValue is what a pool of heads has learned.
type poolValue struct {
	Heads  []poolHeadValue `json:"heads"`
	Parts  []poolPartValue `json:"parts,omitempty"` // of the mixture that is served, if it is one
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

type poolPartValue struct {
	Part  string  `json:"part"` // a head, or a product of heads
	Share float64 `json:"share"`
}

type poolBiasValue struct {
	Class string  `json:"class"`
	Bias  float64 `json:"bias"`
}

// barView is a number with a bar. Places are percentages of the room for bars.
type barView struct {
	Name, Value, Metric string
	Left, Width         float64 // of the bar
	Zero                float64 // where all bars begin
	Negative            bool
}

// barsOf returns numbers of heads as bars of one scale. They are the values of a metric.
func barsOf(metric string, heads []string, values []float64) (list []barView) {
	lo, hi := 0., math.SmallestNonzeroFloat64
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	at := func(v float64) float64 { return 100 * (v - lo) / (hi - lo) }
	for k, v := range values {
		left, right := at(min(v, 0)), at(max(v, 0))
		list = append(list, barView{
			Name: heads[k], Value: formatted(v), Metric: fmt.Sprintf("%s{head=%q}", metric, heads[k]),
			Left: left, Width: right - left, Zero: at(0), Negative: v < 0,
		})
	}
	return list
}

// poolView is what a pool has learned.
type poolView struct {
	Shares  []barView // of the parts of the mixture that serves; nil if it is no mixture
	Weights []barView // of the heads
}

// poolView returns what the pool has learned, nil if no pool serves.
func (h *history) poolView() *poolView {
	if h.pool == nil {
		return nil
	}
	return &poolView{
		Shares:  barsOf("gvbll_pool_share", h.pool.Parts, h.pool.Shares),
		Weights: barsOf("gvbll_pool_weight", h.pool.Heads, h.pool.Weights),
	}
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
	for k, share := range learned.Shares {
		v.Parts = append(v.Parts, poolPartValue{learned.Parts[k], share})
	}
	for c, b := range learned.Bias {
		v.Bias = append(v.Bias, poolBiasValue{classes[c], b})
	}
	for h, n := learned.Compatibility, len(learned.Bias); len(h) > 0; h = h[n:] {
		v.Compatibility = append(v.Compatibility, h[:n])
	}
	return v, nil
}
