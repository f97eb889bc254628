package parts

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// Reasoning says which predictions have reasons, and how many. The zero value is none.
type Reasoning struct {
	Most  int
	Acted bool // of predictions to act on alone
	// Of predictions that give Class a probability above Than, or below: alone.
	Class string
	Below bool
	Than  float64
}

var reasoningText = regexp.MustCompile(`^([0-9]{1,3})(?:,(acted)|,(.+)([<>])([0-9.]+))?$`)

// mostReasons bounds the reasons of a prediction.
const mostReasons = 64

// ParseReasoning reads N, N,acted, N,CLASS>P and N,CLASS<P, and "" for none.
func ParseReasoning(text string) (r Reasoning, err error) {
	if text == "" {
		return r, nil
	}
	m := reasoningText.FindStringSubmatch(text)
	if m != nil {
		r = Reasoning{Acted: m[2] != "", Class: m[3], Below: m[4] == "<"}
		r.Most, _ = strconv.Atoi(m[1]) // three digits
		if r.Class != "" {
			r.Than, err = strconv.ParseFloat(m[5], 64)
		}
	}
	if err != nil || r.Most < 1 || r.Most > mostReasons || r.Than > 1 {
		return Reasoning{}, fmt.Errorf("%.100q: give a number of reasons from 1 to %d, and behind a comma of which predictions, if not of "+
			"all: acted, or CLASS>P or CLASS<P; such as 3,acted or 3,fraud>0.2", text, mostReasons)
	}
	return r, nil
}

// DeclareReasoning declares the text of a Reasoning. acting is that of an [Acting].
func DeclareReasoning(l *setting.List, text, acting *string) {
	setting.AddText(l, setting.Setting{
		Name: "reasons", Group: "sets", Kept: setting.Optional, Placeholder: "N,...",
		Help: "Say in predictions which N things moved them most (docs/reasons.md): 3 in all; 3,acted in those to " +
			"act on; 3,fraud>0.2 or 3,fraud<0.2 by such a probability.",
	}, text, ParseReasoning)
	l.Check(func() error {
		if r, err := ParseReasoning(*text); err == nil && r.Acted && *acting == "" {
			return fmt.Errorf("reasons %s: nothing is acted on: add --act, such as class=fraud,capacity=50/h, or give %d", *text, r.Most)
		}
		return nil
	})
}

// Reasoned counts the predictions with reasons.
var Reasoned = figure.New(figure.Figure{
	Name: "reasons_total", Help: "Predictions served with reasons (--reasons).", Words: "predictions with reasons",
	Advice: "Each costs some tens of predictions: give `N,acted`, or a probability.",
})

// Bounds of what is tried for a prediction.
const (
	mostAttributes = 48 // those whose columns are the furthest from what is usual
	mostNeighbours = 6  // those with a label, then the latest
	mostHeard      = 1 << 12
	atOnce         = 128 // are predicted together
)

// reasoner is the observer that finds what moved predictions: it leaves out of a node one attribute, key or neighbour, or the
// labels around, and compares what would be served with what was.
type reasoner struct {
	Reasoning
	class     int32 // in whose terms, none for that which is predicted
	model     *model.Model
	nodes     *structure.Nodes
	predictor *serve.Predictor
	groups    []group
	from      []int                        // columns of the schema's attributes
	updates   map[int32]structure.Accepted // of the window, the last by node

	tried   []trial // scratch
	gaps    []int
	asked   []asked
	views   []heads.View
	classes []int32
	odds    []float64
}

// asked is a prediction of which reasons are tried, those in tried from one place to below another.
type asked struct {
	of       *event.Prediction
	class    int32
	from, to int
}

// none is no class.
const none = -1

// group are attributes that are left out together, and with them the edges of a key.
type group struct {
	what, name string     // the name of a key
	attributes []int      // places in the schema
	alike      int        // of them, the first ones, of which each says what the others say
	link       *keys.Link // of a key whose edges are told apart from others, or nil
}

// trial is a reason that is tried.
type trial struct {
	reason event.Cause
	view   heads.View
	weight float32 // how far its columns are from what is usual
}

// NewReasoner returns what gives predictions their reasons.
func NewReasoner(text, acting string, m *model.Model, n *structure.Nodes, p *serve.Predictor) (*reasoner, error) {
	cfg, err := ParseReasoning(text)
	if err != nil {
		return nil, err
	}
	if m.Readout != nil {
		return nil, fmt.Errorf("--reasons %s: model %s classifies graphs, which have no reasons: leave it out", text, m.ID)
	}
	r := &reasoner{Reasoning: cfg, class: none, model: m, nodes: n, predictor: p, updates: make(map[int32]structure.Accepted)}
	name := cfg.Class
	if cfg.Acted {
		a, err := ParseActing(acting)
		if err != nil {
			return nil, err
		}
		name = a.Class
	}
	if name != "" {
		if r.class = int32(slices.Index(m.Classes, name)); r.class < 0 {
			return nil, fmt.Errorf("--reasons %s: model %s has no such class: give one of %.200q", text, m.ID, m.Classes)
		}
	}
	r.group()
	return r, nil
}

// Observer returns r as an observer. Reasons depend on the graph and the heads as they served.
func (r *reasoner) Observer() serve.Observer { return serve.Observer{Served: r.served} }

// group lists what the model's attributes are left out with.
func (r *reasoner) group() {
	s := r.model.Schema
	if s == nil {
		return
	}
	r.from = s.Places()
	at := make(map[string]int)
	for i := range s.Attributes {
		at[s.Attributes[i].Name] = i
	}
	ofKey := make(map[int]bool)
	kinds := make(map[string]int) // keys by the kind of their edges
	for _, name := range s.Keys.Names() {
		if l := s.Keys[name].Link; l != nil {
			kinds[l.Kind]++
		}
	}
	for _, name := range s.Keys.Names() {
		k := s.Keys[name]
		g := group{what: event.OfKey, name: name}
		if k.Link != nil && kinds[k.Link.Kind] == 1 {
			g.link = k.Link
		}
		for _, column := range append(keys.Declared{name: k}.Columns(), name) {
			if i, is := at[column]; is {
				g.attributes, ofKey[i] = append(g.attributes, i), true
			}
		}
		r.groups = append(r.groups, g)
	}
	place := make(map[string]int)
	for i := range s.Attributes {
		a := &s.Attributes[i]
		if ofKey[i] {
			continue
		}
		k, is := place[a.Like]
		if !is {
			k = len(r.groups)
			place[a.Name], r.groups = k, append(r.groups, group{what: event.OfAttribute})
		}
		g := &r.groups[k]
		g.attributes, g.alike = slices.Insert(g.attributes, g.alike, i), g.alike+1
		for _, name := range s.Keys.Names() { // what a key makes of this attribute is not there without it
			for _, column := range s.Keys.Of(name, a.Name) {
				g.attributes = append(g.attributes, at[column])
			}
		}
	}
}

// served gives the window's predictions their reasons.
func (r *reasoner) served(x *serve.Entered) {
	accepted := r.nodes.Accepted()
	clear(r.updates)
	if len(accepted) > len(x.Arrivals) {
		for _, a := range accepted {
			r.updates[a.Number] = a
		}
	}
	for i, a := range x.Arrivals {
		for !accepted[0].ToPredict {
			accepted = accepted[1:]
		}
		if p := &x.Out.Predictions[i]; r.wants(p) {
			r.try(cmp.Or(r.updates[a.Number], accepted[0]), p)
			x.Out.Figures.Count(Reasoned, 1)
		}
		accepted = accepted[1:]
		if len(r.tried) >= atOnce {
			r.answer()
		}
	}
	r.answer()
}

// wants reports whether a prediction is to have reasons.
func (r *reasoner) wants(p *event.Prediction) bool {
	switch {
	case r.Acted:
		return p.Act != nil && *p.Act
	case r.Class != "":
		q := float64(p.Probabilities[r.class])
		return q > r.Than && !r.Below || q < r.Than && r.Below
	}
	return true
}

// try tries what may have moved the prediction of a node that came by an event. Of the trials the first is the node as it is.
func (r *reasoner) try(a structure.Accepted, p *event.Prediction) {
	t := asked{of: p, class: r.class, from: len(r.tried)}
	if t.class == none {
		t.class = p.ClassIndex
	}
	r.tried = append(r.tried, trial{view: heads.View{Node: a.Number}})
	r.tryAttributes(a, t.class)
	r.tryNeighbours(a.Number, t)
	t.to = len(r.tried)
	r.asked = append(r.asked, t)
	for range t.to - t.from {
		r.classes = append(r.classes, t.class)
	}
}

// answer gives the predictions of which reasons were tried those that moved them most.
func (r *reasoner) answer() {
	for i := range r.tried {
		r.views = append(r.views, r.tried[i].view)
	}
	if len(r.views) > 0 {
		r.odds = r.predictor.LogOdds(r.views, r.classes, r.odds)
	}
	for _, a := range r.asked {
		found := r.tried[a.from+1 : a.to]
		for k := range found {
			found[k].reason.By = float32(r.odds[a.from] - r.odds[a.from+1+k])
		}
		slices.SortStableFunc(found, func(a, b trial) int {
			return cmp.Compare(math.Abs(float64(b.reason.By)), math.Abs(float64(a.reason.By)))
		})
		a.of.Reasons = &event.Causes{Class: r.model.Classes[a.class]}
		for _, t := range found[:min(r.Most, len(found))] {
			if t.reason.By != 0 {
				a.of.Reasons.List = append(a.of.Reasons.List, t.reason)
			}
		}
	}
	clear(r.tried)
	clear(r.views)
	clear(r.asked)
	r.tried, r.views, r.asked, r.classes = r.tried[:0], r.views[:0], r.asked[:0], r.classes[:0]
}

// tryAttributes tries a node without each of its attributes and keys.
func (r *reasoner) tryAttributes(a structure.Accepted, class int32) {
	x := gnn.Vector{Dense: a.Node.Dense, Index: a.Node.Index, Value: a.Node.Value}
	first := len(r.tried)
	if r.model.Schema == nil {
		r.tryColumns(a.Number, x)
	}
	near := r.nodes.Graph.Neighbours(a.Number)
	for _, g := range r.groups {
		s, t := r.model.Schema, trial{reason: event.Cause{What: g.what}, view: heads.View{Node: a.Number}}
		if g.what == event.OfKey {
			if t.reason.Name, t.reason.Value = g.name, valueOf(a, g.name); t.reason.Value == "" {
				continue
			}
			t.view.Without = r.linked(a, g, near)
			r.count(&t.reason, t.view.Without, class)
		}
		r.gaps = r.gaps[:0]
		for k, i := range g.attributes {
			w, given := s.Given(x, r.from, i)
			switch {
			case !given:
				continue
			case g.what == event.OfKey || k >= g.alike:
			case t.reason.Name == "":
				t.reason.Name, t.reason.Usual = s.Attributes[i].Name, s.Attributes[i].Usual()
				t.reason.Value = valueOf(a, t.reason.Name)
			default:
				t.reason.Along = append(t.reason.Along, s.Attributes[i].Name)
			}
			r.gaps, t.weight = append(r.gaps, i), max(t.weight, w)
		}
		if len(r.gaps) > 0 {
			gapped := s.Gapped(x, r.from, r.gaps)
			t.view.Features = &gapped
		}
		if t.reason.Name != "" && len(r.gaps)+len(t.view.Without) > 0 {
			r.tried = append(r.tried, t)
		}
	}
	if n := len(r.tried) - first; n > mostAttributes {
		slices.SortStableFunc(r.tried[first:], func(a, b trial) int { return cmp.Compare(b.weight, a.weight) })
		r.tried = r.tried[:first+mostAttributes]
	}
}

// tryColumns tries a node without each of its features, of a model without names.
func (r *reasoner) tryColumns(v int32, x gnn.Vector) {
	of := r.model.Normalizer
	try := func(j int, value float32, without gnn.Vector) {
		t := trial{reason: event.Cause{What: event.OfAttribute, Name: "#" + strconv.Itoa(j)}, view: heads.View{Node: v, Features: &without}}
		t.reason.Value, t.weight = strconv.FormatFloat(float64(value), 'g', 4, 32), of.Deviations(j, value)
		if of.Mean != nil {
			t.reason.Usual = strconv.FormatFloat(float64(of.Usual(j)), 'g', 4, 32)
		}
		t.weight = max(t.weight, -t.weight)
		r.tried = append(r.tried, t)
	}
	for j, value := range x.Dense {
		if instead := of.Usual(j); value != instead {
			dense := slices.Clone(x.Dense)
			dense[j] = instead
			try(j, value, gnn.Vector{Dense: dense})
		}
	}
	for k, j := range x.Index {
		try(int(j), x.Value[k], gnn.Vector{
			Index: slices.Delete(slices.Clone(x.Index), k, k+1), Value: slices.Delete(slices.Clone(x.Value), k, k+1),
		})
	}
}

// linked returns the neighbours to which a node has edges by a key, and by nothing else.
func (r *reasoner) linked(a structure.Accepted, g group, near []int32) (list []int32) {
	if g.link == nil {
		return nil
	}
	var others []int32
	for k, id := range a.Node.Neighbours {
		u, known := r.nodes.Number(id)
		switch {
		case !known || !slices.Contains(near, u):
		case k >= len(a.Sent.Neighbours) && a.Node.Marks[k].Kind == g.link.Kind:
			list = append(list, u)
		default:
			others = append(others, u)
		}
	}
	return slices.DeleteFunc(list, func(u int32) bool { return slices.Contains(others, u) })
}

// tryNeighbours tries a node without each of its neighbours that no key has, and where no label around it is known.
func (r *reasoner) tryNeighbours(v int32, of asked) {
	near := r.nodes.Graph.Neighbours(v)
	if len(near) == 0 {
		return
	}
	var byKey []int32
	for _, t := range r.tried[of.from:] {
		byKey = append(byKey, t.view.Without...)
	}
	most := min(mostNeighbours, mostHeard/len(near))
	for _, labelled := range []bool{true, false} {
		for _, u := range slices.Backward(near) {
			if is := r.nodes.Class(u); most == 0 || (is != none) != labelled || slices.Contains(byKey, u) {
				continue
			}
			t := trial{reason: event.Cause{What: event.OfNeighbour, Node: r.nodes.ID(u)}, view: heads.View{Node: v, Without: []int32{u}}}
			r.count(&t.reason, t.view.Without, of.class)
			r.tried = append(r.tried, t)
			most--
		}
	}
	t := trial{reason: event.Cause{What: event.OfLabels}, view: heads.View{Node: v, Unlabelled: true}}
	r.count(&t.reason, near, of.class)
	r.tried = append(r.tried, t)
}

// count counts the labels of neighbours, and those of the class.
func (r *reasoner) count(to *event.Cause, neighbours []int32, class int32) {
	for _, u := range neighbours {
		if y := r.nodes.Class(u); y != none {
			to.Labelled++
			if y == class {
				to.OfClass++
			}
		}
	}
}

// longestValue bounds the text of a value in a reason, bytes.
const longestValue = 64

// valueOf returns what an event says of an attribute, "" for nothing.
func valueOf(a structure.Accepted, name string) (text string) {
	for _, list := range [][]event.Attribute{a.Node.Named, a.Sent.Named} {
		for i := range list {
			if list[i].Name == name {
				text = list[i].String()
			}
		}
	}
	if len(text) > longestValue {
		text = strings.ToValidUTF8(text[:longestValue], "")
	}
	return strings.Clone(text) // the event's memory is reused
}
