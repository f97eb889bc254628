package wire

import (
	"encoding/json"
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
)

// AppendPrediction appends a prediction as msgpack.
func AppendPrediction(dst []byte, p *event.Prediction) []byte {
	o := newOutput(dst)
	o.fields(12)
	o.text("node")
	o.id(p.Node)
	o.textField("class", p.Class)
	o.intField("class_index", int64(p.ClassIndex))
	o.text("confidence")
	o.single(p.Confidence)
	o.text("probabilities")
	o.list(len(p.Probabilities))
	for _, x := range p.Probabilities {
		o.single(x)
	}
	o.text("total_uncertainty")
	o.single(p.Total)
	o.text("aleatoric_uncertainty")
	o.single(p.Aleatoric)
	o.text("epistemic_uncertainty")
	o.single(p.Epistemic)
	o.intField("window", p.Window)
	o.intField("posterior_version", int64(p.PosteriorVersion))
	o.intField("time", p.Time)
	o.textField("model", p.Model)
	return o.done()
}

// DecodePrediction reads what AppendPrediction wrote.
func DecodePrediction(b []byte, p *event.Prediction) error {
	limits := Limits{}.withDefaults()
	var in input
	in.reset(b)
	*p = event.Prediction{}
	return in.fields(func(key string) (bool, error) {
		var err error
		var n int64
		switch key {
		case "node":
			p.Node, err = in.id(limits.MaxID)
		case "class":
			p.Class, err = in.text(limits.MaxID)
		case "class_index":
			n, err = in.integer()
			p.ClassIndex = int32(min(max(n, math.MinInt32), math.MaxInt32))
		case "confidence":
			p.Confidence, err = in.number()
		case "probabilities":
			p.Probabilities, err = in.numbers(limits)
		case "total_uncertainty":
			p.Total, err = in.number()
		case "aleatoric_uncertainty":
			p.Aleatoric, err = in.number()
		case "epistemic_uncertainty":
			p.Epistemic, err = in.number()
		case "window":
			p.Window, err = in.integer()
		case "posterior_version":
			n, err = in.integer()
			p.PosteriorVersion = uint64(n)
		case "time":
			p.Time, err = in.integer()
		case "model":
			p.Model, err = in.text(limits.MaxID)
		default:
			return false, nil
		}
		return true, err
	})
}

// AppendPredictionJSON appends a prediction as a JSON object of the same
// fields, without a line's end.
func AppendPredictionJSON(dst []byte, p *event.Prediction) []byte {
	b, err := json.Marshal(struct {
		Node             jsonID    `json:"node"`
		Class            string    `json:"class"`
		ClassIndex       int32     `json:"class_index"`
		Confidence       float32   `json:"confidence"`
		Probabilities    []float32 `json:"probabilities"`
		Total            float32   `json:"total_uncertainty"`
		Aleatoric        float32   `json:"aleatoric_uncertainty"`
		Epistemic        float32   `json:"epistemic_uncertainty"`
		Window           int64     `json:"window"`
		PosteriorVersion uint64    `json:"posterior_version"`
		Time             int64     `json:"time"`
		Model            string    `json:"model"`
	}{
		jsonID(p.Node), p.Class, p.ClassIndex, p.Confidence, p.Probabilities, p.Total, p.Aleatoric, p.Epistemic,
		p.Window, p.PosteriorVersion, p.Time, p.Model,
	})
	if err != nil {
		panic(err) // a number that is not finite: not what is served
	}
	return append(dst, b...)
}
