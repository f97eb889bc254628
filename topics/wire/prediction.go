package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
)

// AppendPrediction appends a prediction in this encoding, in JSON as an object without a newline. It panics if a number is not
// finite; neither the engine nor DecodePrediction produces one.
func (e Encoding) AppendPrediction(dst []byte, p *event.Prediction) []byte {
	o := appendTo(dst, e)
	m := o.begin()
	o.key("node")
	o.id(p.Node)
	o.textField("class", p.Class)
	o.intField("class_index", int64(p.ClassIndex))
	o.singleField("confidence", p.Confidence)
	o.key("probabilities")
	o.probabilities(p)
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
	if p.Reasons != nil {
		o.causes(p.Reasons)
	}
	if p.Embedding != nil {
		o.key("embedding")
		o.singles(p.Embedding)
	}
	if p.Set != nil {
		o.set(p.Set)
	}
	o.end(m)
	return o.done()
}

// probabilities appends a list of probabilities, in JSON an object of them by class, in the model's order. A class
// without a name here has its index, as "#7".
func (o *output) probabilities(p *event.Prediction) {
	if !o.json {
		o.numbers(p.Probabilities)
		return
	}
	m := o.begin()
	for i, x := range p.Probabilities {
		name := "#" + strconv.Itoa(i)
		if i < len(p.Classes) {
			name = p.Classes[i]
		}
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			panic("a probability is not finite")
		}
		o.key(name)
		o.b = strconv.AppendFloat(o.b, float64(x), 'g', -1, 32)
	}
	o.end(m)
}

func (o *output) set(s *event.Set) {
	o.key("set")
	o.items(len(s.Classes), func(i int) { o.text(s.Classes[i]) })
	o.singleField("coverage", s.Coverage)
	o.key("abstain")
	o.boolean(s.Abstain != "")
	if s.Abstain != "" {
		o.textField("abstain_reason", s.Abstain)
	}
}

var predictionNames = []string{
	"node", "class", "class_index", "confidence", "probabilities", "total_uncertainty", "aleatoric_uncertainty",
	"epistemic_uncertainty", "window",
	"posterior_version", "time", "model", "revision", "reason", "act", "asked", "reasons_class", "reasons", "embedding", "set",
	"coverage", "abstain", "abstain_reason",
}

// DecodePrediction decodes a prediction, as AppendPrediction
// wrote it, into p, overwriting it. Other programs may write to the topic, so it checks
// all fields.
func DecodePrediction(b []byte, p *event.Prediction) error {
	*p = event.Prediction{}
	in := input{memory: new(Memory)}
	s := predictionFields{p: p, in: &in, limits: Limits{}.withDefaults()}
	var v value = &in
	if EncodingOf(b) == JSON {
		text, err := valueJSON(b)
		if err != nil {
			return err
		}
		v = &text
	} else {
		in.reset(b)
	}
	if err := v.object(&in, predictionNames, s.read); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	return in.cursor.end()
}

type predictionFields struct {
	p                *event.Prediction
	in               *input
	limits           Limits
	hasNode, abstain bool
}

func (s *predictionFields) read(key []byte, v value) (known bool, err error) {
	p := s.p
	switch string(key) {
	case "node":
		s.hasNode = true
		p.Node, err = v.id(s.limits.MaxID)
	case "class":
		p.Class, err = v.text(s.limits.MaxID)
	case "class_index":
		p.ClassIndex, err = int32Of(v)
	case "confidence":
		p.Confidence, err = finite(v)
	case "probabilities":
		if p.Probabilities, p.Classes, err = v.probabilities(s.limits); err == nil {
			err = checkProbabilities(p.Probabilities)
		}
	case "total_uncertainty":
		p.Total, err = finite(v)
	case "aleatoric_uncertainty":
		p.Aleatoric, err = finite(v)
	case "epistemic_uncertainty":
		p.Epistemic, err = finite(v)
	case "window":
		p.Window, err = v.integer()
	case "posterior_version":
		var n int64
		if n, err = v.integer(); err == nil && n < 0 {
			err = refusef(event.Undecodable, "posterior version %d", n)
		}
		p.PosteriorVersion = uint64(n)
	case "time":
		p.Time, err = v.integer()
	case "model":
		p.Model, err = v.text(s.limits.MaxID)
	case "revision":
		if p.Revision, err = int32Of(v); err == nil && p.Revision < 0 {
			err = refusef(event.Undecodable, "revision %d", p.Revision)
		}
	case "reason":
		p.Reason, err = v.text(s.limits.MaxID)
	case "act":
		p.Act = new(bool)
		*p.Act, err = v.boolean()
	case "asked":
		if p.Asked, err = finite(v); err == nil {
			err = checkProbabilities([]float32{p.Asked})
		}
	case "reasons_class":
		s.causes().Class, err = v.text(s.limits.MaxID)
	case "reasons":
		err = s.readCauses(v)
	case "embedding":
		p.Embedding, err = v.numbers(s.limits)
	case "set":
		s.set().Classes, err = textsOf(v, s.limits)
	case "coverage":
		s.set().Coverage, err = finite(v)
	case "abstain":
		s.set()
		s.abstain, err = v.boolean()
	case "abstain_reason":
		s.set().Abstain, err = v.text(s.limits.MaxID)
	default:
		return false, nil
	}
	return true, err
}

// set returns the prediction's set, which it creates if there is none.
func (s *predictionFields) set() *event.Set {
	if s.p.Set == nil {
		s.p.Set = &event.Set{}
	}
	return s.p.Set
}

func (s *predictionFields) check() error {
	switch set := s.p.Set; {
	case !s.hasNode:
		return refusef(event.BadID, "there is no node")
	case set != nil && s.abstain != (set.Abstain != ""):
		return refusef(event.Undecodable, "abstain is %t with the reason %.60q", s.abstain, set.Abstain)
	}
	return nil
}

// finite reads a number and refuses NaN and infinities.
func finite(v value) (float32, error) {
	x, err := v.number()
	if a := math.Abs(float64(x)); err == nil && (math.IsNaN(a) || math.IsInf(a, 0)) {
		err = refusef(event.NonFinite, "a number is %v", x)
	}
	return x, err
}

// int32Of reads an integer and refuses one that does not fit 32 bits.
func int32Of(v value) (int32, error) {
	n, err := v.integer()
	if err == nil && int64(int32(n)) != n {
		err = refusef(event.Undecodable, "integer %d does not fit 32 bits", n)
	}
	return int32(n), err
}

func checkProbabilities(x []float32) error {
	for _, v := range x {
		if !(v >= 0 && v <= 1) {
			return refusef(event.Undecodable, "a probability is %v", v)
		}
	}
	return nil
}

func textsOf(v value, limits Limits) (list []string, err error) {
	n, items, err := v.list(1, limits.MaxFeatures, event.TooLarge)
	for i := 0; i < n && err == nil; i++ {
		var text string
		text, err = items.item().text(limits.MaxID)
		list = append(list, text)
	}
	return list, err
}

// probabilities reads a list of numbers, which has no classes.
func (in *input) probabilities(limits Limits) (of []float32, classes []string, err error) {
	of, err = in.numbers(limits)
	return of, nil, err
}

func (f field) probabilities(Limits) (of []float32, classes []string, err error) {
	if f[0] != '{' {
		return nil, nil, refusef(event.Undecodable, "%.40s where an object of probabilities by class is needed", f)
	}
	named := false
	for rest := field(bytes.TrimLeft(f[1:], jsonSpace)); rest[0] != '}'; {
		var key, value field
		key, rest = cutItem(rest)
		value, rest = cutItem(rest)
		var name string
		var x float32
		if err := errors.Join(json.Unmarshal(key, &name), json.Unmarshal(value, &x)); err != nil {
			return nil, nil, err
		}
		named = named || name != "#"+strconv.Itoa(len(of))
		of, classes = append(of, x), append(classes, name)
	}
	if !named {
		classes = nil
	}
	return of, classes, nil
}
