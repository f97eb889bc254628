package page

import (
	"context"
	"net/http"

	"github.com/gvbll/gvbll/charts/plot"
	"github.com/gvbll/gvbll/pipeline"
)

// poolValue is what the pool that serves has learned of its heads.
type poolValue struct {
	Heads  []poolHeadValue `json:"heads"`
	Bias   []poolBiasValue `json:"bias"`
	Regret float64         `json:"regret"`
	// Compatibility is by class of the node, then of its neighbours.
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

// pool answers with it.
func (s *Server) pool(r *http.Request) (any, *problem) {
	var learned *pipeline.Pooled
	if p := s.engine(r.Context(), func(e *pipeline.Engine) { learned = e.Pooled() }); p != nil {
		return nil, p
	}
	if learned == nil {
		return nil, noSuchPage.because("the paper's head serves, not a pool: see /v1/posterior")
	}
	v := poolValue{Regret: learned.Regret}
	for k, head := range learned.Heads {
		v.Heads = append(v.Heads, poolHeadValue{head, learned.Weights[k]})
	}
	for c, b := range learned.Bias {
		v.Bias = append(v.Bias, poolBiasValue{s.cfg.Model.Classes[c], b})
	}
	for h, n := learned.Compatibility, len(learned.Bias); len(h) > 0; h = h[n:] {
		v.Compatibility = append(v.Compatibility, h[:n])
	}
	return v, nil
}

// together is a picture of the pool: its weights, and what it takes for the
// neighbours of each class.
func (s *Server) together(ctx context.Context) (plot.Picture, bool) {
	var learned *pipeline.Pooled
	if p := s.engine(ctx, func(e *pipeline.Engine) { learned = e.Pooled() }); p != nil || learned == nil {
		return plot.Picture{}, false
	}
	maps := []plot.Map{{Title: "Weights of the heads", Rows: learned.Heads, Columns: 1, Values: learned.Weights, Diverging: true}}
	if classes := s.cfg.Model.Classes; learned.Compatibility != nil && len(classes) <= maxHeat/2 {
		maps = append(maps, plot.Map{
			Title: "Classes of the neighbours, by class", XLabel: "class of the neighbour", Rows: classes, Columns: len(classes), Values: learned.Compatibility,
		})
	}
	return plot.Heat("", maps...), true
}
