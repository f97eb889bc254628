package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
)

// AppendPrediction appends a prediction as msgpack.
func AppendPrediction(dst []byte, p *event.Prediction) []byte {
	o := output{b: dst}
	m := o.begin()
	o.key("node")
	o.id(p.Node)
	o.textField("class", p.Class)
	o.intField("class_index", int64(p.ClassIndex))
	o.singleField("confidence", p.Confidence)
	o.key("probabilities")
	o.numbers(p.Probabilities)
	o.singleField("total_uncertainty", p.Total)
	o.singleField("aleatoric_uncertainty", p.Aleatoric)
	o.singleField("epistemic_uncertainty", p.Epistemic)
	o.intField("window", p.Window)
	o.intField("posterior_version", int64(p.PosteriorVersion))
	o.intField("time", p.Time)
	o.textField("model", p.Model)
	if p.Revision != 0 {
		o.intField("revision", int64(p.Revision))
	}
	if p.Reason != "" {
		o.textField("reason", p.Reason)
	}
	if p.Act != nil {
		o.key("act")
		o.boolean(*p.Act)
	}
	if p.Asked != 0 {
		o.singleField("asked", p.Asked)
	}
	if p.Embedding != nil {
		o.key("embedding")
		o.singles(p.Embedding)
	}
	if p.Set != nil {
		o.set(p.Set)
	}
	o.end(m)
	return o.b
}

// set appends the fields of a set.
func (o *output) set(s *event.Set) {
	o.key("set")
	o.list(len(s.Classes))
	for _, name := range s.Classes {
		o.text(name)
	}
	o.singleField("coverage", s.Coverage)
	o.key("abstain")
	o.boolean(s.Abstain != "")
	if s.Abstain != "" {
		o.textField("abstain_reason", s.Abstain)
	}
}

// DecodePrediction decodes a prediction, as AppendPrediction or AppendPredictionJSON
// wrote it, into p, overwriting it. Other programs may write to the topic, so it checks
// all fields.
func DecodePrediction(b []byte, p *event.Prediction) error {
	if EncodingOf(b) == JSON {
		return decodePredictionJSON(b, p)
	}
	limits := Limits{}.withDefaults()
	var in input
	in.reset(b)
	*p = event.Prediction{}
	hasNode, abstain := false, false
	err := in.fields(func(key []byte) (bool, error) {
		var err error
		var n int64
		switch string(key) {
		case "node":
			hasNode = true
			p.Node, err = in.id(limits.MaxID)
		case "class":
			p.Class, err = in.text(limits.MaxID)
		case "class_index":
			p.ClassIndex, err = in.int32()
		case "confidence":
			p.Confidence, err = in.finite()
		case "probabilities":
			p.Probabilities, err = in.probabilities(limits)
		case "total_uncertainty":
			p.Total, err = in.finite()
		case "aleatoric_uncertainty":
			p.Aleatoric, err = in.finite()
		case "epistemic_uncertainty":
			p.Epistemic, err = in.finite()
		case "window":
			p.Window, err = in.integer()
		case "posterior_version":
			if n, err = in.integer(); err == nil && n < 0 {
				err = refusef(event.Undecodable, "posterior version %d", n)
			}
			p.PosteriorVersion = uint64(n)
		case "time":
			p.Time, err = in.integer()
		case "model":
			p.Model, err = in.text(limits.MaxID)
		case "revision":
			if p.Revision, err = in.int32(); err == nil && p.Revision < 0 {
				err = refusef(event.Undecodable, "revision %d", p.Revision)
			}
		case "reason":
			p.Reason, err = in.text(limits.MaxID)
		case "act":
			p.Act = new(bool)
			*p.Act, err = in.boolean()
		case "asked":
			if p.Asked, err = in.finite(); err == nil {
				err = checkProbabilities([]float32{p.Asked})
			}
		case "embedding":
			p.Embedding, err = in.numbers(limits)
		case "set":
			setOf(p).Classes, err = in.classes(limits)
		case "coverage":
			setOf(p).Coverage, err = in.finite()
		case "abstain":
			setOf(p)
			abstain, err = in.boolean()
		case "abstain_reason":
			setOf(p).Abstain, err = in.text(limits.MaxID)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && !hasNode {
		err = refusef(event.BadID, "there is no node")
	}
	if err == nil {
		err = checkAbstain(p, abstain)
	}
	if err != nil {
		return err
	}
	return in.end()
}

// checkAbstain compares the field abstain with the reason beside it.
func checkAbstain(p *event.Prediction, abstain bool) error {
	if p.Set != nil && abstain != (p.Set.Abstain != "") {
		return refusef(event.Undecodable, "abstain is %t with the reason %.60q", abstain, p.Set.Abstain)
	}
	return nil
}

// setOf returns the prediction's set, which it creates if there is none.
func setOf(p *event.Prediction) *event.Set {
	if p.Set == nil {
		p.Set = &event.Set{}
	}
	return p.Set
}

// classes reads a list of names.
func (in *input) classes(limits Limits) (names []string, err error) {
	n, _, err := in.list(0, limits.MaxFeatures, event.TooLarge)
	if err != nil {
		return nil, err
	}
	for range n {
		name, err := in.text(limits.MaxID)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// probabilities reads a list of numbers from 0 to 1.
func (in *input) probabilities(limits Limits) ([]float32, error) {
	x, err := in.numbers(limits)
	if err != nil {
		return nil, err
	}
	return x, checkProbabilities(x)
}

func checkProbabilities(x []float32) error {
	for _, v := range x {
		if !(v >= 0 && v <= 1) {
			return refusef(event.Undecodable, "a probability is %v", v)
		}
	}
	return nil
}

// predictionJSON is a prediction in JSON, with the fields of one in msgpack.
type predictionJSON struct {
	Node             jsonID            `json:"node"`
	Class            string            `json:"class"`
	ClassIndex       int32             `json:"class_index"`
	Confidence       float32           `json:"confidence"`
	Probabilities    probabilitiesJSON `json:"probabilities"`
	Total            float32           `json:"total_uncertainty"`
	Aleatoric        float32           `json:"aleatoric_uncertainty"`
	Epistemic        float32           `json:"epistemic_uncertainty"`
	Window           int64             `json:"window"`
	PosteriorVersion uint64            `json:"posterior_version"`
	Time             int64             `json:"time"`
	Model            string            `json:"model"`
	Revision         int32             `json:"revision,omitempty"`
	Reason           string            `json:"reason,omitempty"`
	Act              *bool             `json:"act,omitempty"`
	Asked            float32           `json:"asked,omitempty"`
	Embedding        []float32         `json:"embedding,omitempty"`
	*setJSON
}

// probabilitiesJSON is, in JSON, an object of the probabilities by class, in the model's order.
// A class without a name here has its index, as "#7".
type probabilitiesJSON struct {
	classes []string
	of      []float32
}

// MarshalJSON implements [json.Marshaler].
func (p probabilitiesJSON) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, x := range p.of {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case i >= len(p.classes):
			b = append(strconv.AppendInt(append(b, `"#`...), int64(i), 10), '"')
		case isPlain(p.classes[i]):
			b = append(append(append(b, '"'), p.classes[i]...), '"')
		default:
			b = appendJSON(b, p.classes[i])
		}
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("a probability is %v", x)
		}
		b = strconv.AppendFloat(append(b, ':'), float64(x), 'g', -1, 32)
	}
	return append(b, '}'), nil
}

// isPlain reports whether a text is the same between quotes in JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *probabilitiesJSON) UnmarshalJSON(text []byte) error {
	if *p = (probabilitiesJSON{}); string(text) == "null" {
		return nil
	}
	if text[0] != '{' {
		return refusef(event.Undecodable, "%.40s where an object of probabilities by class is needed", text)
	}
	named := false
	for rest := field(bytes.TrimLeft(text[1:], jsonSpace)); rest[0] != '}'; {
		var key, value field
		key, rest = cutItem(rest)
		value, rest = cutItem(rest)
		var name string
		var x float32
		if err := errors.Join(json.Unmarshal(key, &name), json.Unmarshal(value, &x)); err != nil {
			return err
		}
		named = named || name != "#"+strconv.Itoa(len(p.of))
		p.classes, p.of = append(p.classes, name), append(p.of, x)
	}
	if !named {
		p.classes = nil
	}
	return nil
}

// AppendPredictionJSON appends a prediction as a JSON object with the same
// fields, without a newline. It panics if a number is not finite; neither the
// engine nor DecodePrediction produces one.
func AppendPredictionJSON(dst []byte, p *event.Prediction) []byte {
	return appendJSON(dst, predictionJSON{
		jsonID{p.Node},
		p.Class, p.ClassIndex, p.Confidence,
		probabilitiesJSON{p.Classes, p.Probabilities},
		p.Total, p.Aleatoric, p.Epistemic,
		p.Window, p.PosteriorVersion, p.Time, p.Model, p.Revision, p.Reason, p.Act, p.Asked, p.Embedding,
		setJSONOf(p.Set),
	})
}

// decodePredictionJSON decodes a prediction in JSON into p. A number that is not in the
// range of its type is an error.
func decodePredictionJSON(b []byte, p *event.Prediction) error {
	text, err := valueJSON(b)
	if err != nil {
		return err
	}
	f := predictionJSON{setJSON: &setJSON{}} // encoding/json cannot set it
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	var in input
	members, err := in.object(text, "node")
	if err != nil {
		return err
	}
	*p = event.Prediction{
		Class: f.Class, ClassIndex: f.ClassIndex, Confidence: f.Confidence, Probabilities: f.Probabilities.of, Classes: f.Probabilities.classes,
		Total: f.Total, Aleatoric: f.Aleatoric, Epistemic: f.Epistemic,
		Window: f.Window, PosteriorVersion: f.PosteriorVersion, Time: f.Time, Model: f.Model, Revision: f.Revision, Reason: f.Reason, Act: f.Act, Asked: f.Asked, Embedding: f.Embedding,
	}
	if p.Node, err = members[0].id(Limits{}.withDefaults().MaxID); err != nil {
		return err
	}
	if p.Revision < 0 {
		return refusef(event.Undecodable, "revision %d", p.Revision)
	}
	if err := checkProbabilities(append(p.Probabilities, p.Asked)); err != nil {
		return err
	}
	if s := f.setJSON; s.Classes != nil {
		p.Set = &event.Set{Classes: s.Classes, Coverage: s.Coverage, Abstain: s.Reason}
		return checkAbstain(p, s.Abstain)
	}
	return nil
}

// setJSON is a prediction's set in JSON. A nil pointer adds no fields.
type setJSON struct {
	Classes  []string `json:"set"`
	Coverage float32  `json:"coverage"`
	Abstain  bool     `json:"abstain"`
	Reason   string   `json:"abstain_reason,omitempty"`
}

func setJSONOf(s *event.Set) *setJSON {
	if s == nil {
		return nil
	}
	return &setJSON{append([]string{}, s.Classes...), s.Coverage, s.Abstain != "", s.Abstain}
}
