package page

import (
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// The types named Value are the JSON of the API, as openapi.json describes it. Names
// are those of the wire format where it has one.

// estimateValue is the prediction of one head.
type estimateValue struct {
	Head          string    `json:"head"`
	Class         string    `json:"class"`
	Confidence    float32   `json:"confidence"`
	Probabilities []float32 `json:"probabilities"`
}

// predictionValue is a prediction. Fields that are not known are left out.
type predictionValue struct {
	Node             event.ID        `json:"node"`
	Class            string          `json:"class"`
	ClassIndex       int32           `json:"class_index"`
	Confidence       float32         `json:"confidence"`
	Probabilities    []float32       `json:"probabilities"`
	Total            *float32        `json:"total_uncertainty,omitempty"`
	Aleatoric        *float32        `json:"aleatoric_uncertainty,omitempty"`
	Epistemic        *float32        `json:"epistemic_uncertainty,omitempty"`
	Window           int64           `json:"window"`
	PosteriorVersion *uint64         `json:"posterior_version,omitempty"`
	Time             int64           `json:"time,omitempty"`
	Model            string          `json:"model"`
	Set              *[]string       `json:"set,omitempty"`
	Coverage         float32         `json:"coverage,omitempty"`
	AbstainReason    string          `json:"abstain_reason,omitempty"`
	ReasonsClass     string          `json:"reasons_class,omitempty"`
	Reasons          []causeValue    `json:"reasons,omitempty"`
	Heads            []estimateValue `json:"heads,omitempty"`
}

// causeValue is a reason of a prediction.
type causeValue struct {
	Kind     string    `json:"kind"`
	Name     string    `json:"name,omitempty"`
	With     []string  `json:"with,omitempty"`
	Value    string    `json:"value,omitempty"`
	Usual    string    `json:"usual,omitempty"`
	Node     *event.ID `json:"node,omitempty"`
	Labelled int       `json:"labelled,omitempty"`
	OfClass  int       `json:"of_class,omitempty"`
	By       float32   `json:"by"`
	Words    string    `json:"words"`
}

func predictionOf(p *event.Prediction) *predictionValue {
	v := &predictionValue{
		Node: p.Node, Class: p.Class, ClassIndex: p.ClassIndex, Confidence: p.Confidence, Probabilities: p.Probabilities,
		Total: &p.Total, Aleatoric: &p.Aleatoric, Epistemic: &p.Epistemic,
		Window: p.Window, PosteriorVersion: &p.PosteriorVersion, Time: p.Time, Model: p.Model,
	}
	if s := p.Set; s != nil {
		v.Set, v.Coverage, v.AbstainReason = &s.Classes, s.Coverage, s.Abstain
	}
	if r := p.Reasons; r != nil {
		v.ReasonsClass = r.Class
		for _, c := range r.List {
			to := causeValue{
				Kind: c.What, Name: c.Name, With: c.Along, Value: c.Value, Usual: c.Usual,
				Labelled: c.Labelled, OfClass: c.OfClass, By: c.By, Words: c.Words(r.Class),
			}
			if c.What == event.OfNeighbour {
				to.Node = &c.Node
			}
			v.Reasons = append(v.Reasons, to)
		}
	}
	return v
}

func opinionOf(o *pipeline.Opinion) *predictionValue {
	v := predictionOf(&o.Prediction)
	for _, h := range o.Heads {
		v.Heads = append(v.Heads, estimateValue(h))
	}
	return v
}
