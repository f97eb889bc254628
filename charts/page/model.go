package page

import (
	"fmt"
	"net/http"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// modelValue is the model that serves, and the settings of its engine.
type modelValue struct {
	ID            string         `json:"id"`
	Encoder       string         `json:"encoder"`
	Activation    string         `json:"activation"`
	Features      int            `json:"features"`
	Layers        int            `json:"layers"`
	Embedding     int            `json:"embedding"`
	Classes       []string       `json:"classes"`
	Normalization string         `json:"normalization"`
	Temperature   bool           `json:"temperature"`
	Training      model.Training `json:"training"`
	Settings      event.Settings `json:"settings"`
	Version       string         `json:"version"`
}

func (s *Server) modelValue() *modelValue {
	s.past.mu.Lock()
	m := s.past.h.model
	s.past.mu.Unlock()
	return &modelValue{
		ID: m.ID, Encoder: string(m.Meta.Encoder), Activation: string(m.NodeEncoder().Activation()), Features: m.NodeEncoder().In(),
		Layers: m.NodeEncoder().Depth(), Embedding: m.Prior.Dim, Classes: m.Classes, Normalization: m.Normalization,
		Temperature: m.Temperature != nil, Training: m.Training, Settings: s.cfg.Settings, Version: s.cfg.Version,
	}
}

// posteriorValue is the posterior of the head that learns.
type posteriorValue struct {
	Version  uint64                    `json:"version"`
	Hash     string                    `json:"hash"`
	Distance float64                   `json:"distance"`
	KL       float64                   `json:"kl"`
	Classes  []pipeline.ClassPosterior `json:"classes"`
	Moments  *momentsValue             `json:"moments,omitempty"`
}

// momentsValue is q(W) itself: matrices of d_e × C, by row.
type momentsValue struct {
	Rows      int       `json:"rows"`
	Columns   int       `json:"columns"`
	Mean      []float64 `json:"mean"`
	Precision []float64 `json:"precision"`
}

// posterior serves GET /v1/posterior.
func (s *Server) posterior(r *http.Request) (any, *problem) {
	moments, given, p := parameter(r.URL.Query(), "moments")
	if p == nil && given && moments != "true" && moments != "false" {
		p = badParameter.because(fmt.Sprintf("moments: %.40q is neither true nor false", moments))
	}
	if p != nil {
		return nil, p
	}
	var b *pipeline.PosteriorReport
	if p := s.engine(r.Context(), func(e *pipeline.Engine) { b = e.PosteriorReport() }); p != nil {
		return nil, p
	}
	v := posteriorValue{Version: b.Version, Hash: b.Hash.Hex(), Distance: b.Distance, KL: b.KL, Classes: b.Classes}
	if moments == "true" {
		q := &b.Posterior
		v.Moments = &momentsValue{Rows: q.Dim, Columns: q.Classes, Mean: q.Mean, Precision: q.Precision}
	}
	return v, nil
}
