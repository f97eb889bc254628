package page

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// nodeValue is what is known of a node of the graph.
type nodeValue struct {
	Node       event.ID         `json:"node"`
	Context    bool             `json:"context"`
	Label      *string          `json:"label"`
	Degree     int              `json:"degree"`
	Served     *predictionValue `json:"served"` // nil if it is no longer kept
	Now        *predictionValue `json:"now"`
	Neighbours []influenceValue `json:"neighbours"`
}

// influenceValue is how much one neighbour changes the prediction of a node.
type influenceValue struct {
	Node    event.ID `json:"node"`
	Label   *string  `json:"label"`
	Gain    float64  `json:"gain"`
	Without string   `json:"class_without"`
}

// node serves GET /v1/nodes/{id}.
func (s *Server) node(r *http.Request) (any, *problem) {
	ids, p := idsOf(r.PathValue("id"), r.URL.Query())
	if p != nil {
		return nil, p
	}
	v, p := s.lookUp(r, ids)
	if p != nil {
		return nil, p
	}
	return v, nil
}

// lookUp returns what is known of the first of the ids that is in the graph.
func (s *Server) lookUp(r *http.Request, ids []event.ID) (*nodeValue, *problem) {
	var report *pipeline.Report
	if p := s.engine(r.Context(), func(e *pipeline.Engine) {
		for _, id := range ids {
			if found, known := e.Node(id); known {
				report = found
				return
			}
		}
	}); p != nil {
		return nil, p
	}
	if report == nil {
		return nil, unknownNode.because(fmt.Sprintf("%.80q has not arrived", ids[0].String()))
	}
	v := &nodeValue{
		Node: report.Node, Context: report.Context, Label: orNull(report.Label), Degree: report.Degree,
		Now: opinionOf(&report.Now), Neighbours: make([]influenceValue, len(report.Neighbours)),
	}
	for i, n := range report.Neighbours {
		v.Neighbours[i] = influenceValue{Node: n.Node, Label: orNull(n.Label), Gain: n.Gain, Without: n.Without}
	}
	v.Served = s.asServed(report)
	return v, nil
}

// asServed returns the prediction as it was served, or nil if it is no longer kept. The
// history has all of it but the predictions of single heads, and the engine keeps the
// probabilities of all heads until the label comes.
func (s *Server) asServed(r *pipeline.Report) *predictionValue {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	var v *predictionValue
	if seen := s.past.h.find(r.Node); seen != nil {
		p := seen.Prediction
		p.Probabilities = slices.Clone(p.Probabilities) // the history reuses their memory
		v = predictionOf(&p)
	}
	if r.Served == nil {
		return v
	}
	kept := opinionOf(r.Served)
	if v == nil {
		kept.Total, kept.Aleatoric, kept.Epistemic, kept.PosteriorVersion = nil, nil, nil, nil
		return kept
	}
	v.Heads = kept.Heads
	return v
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
