package page

import (
	"net/http"

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
