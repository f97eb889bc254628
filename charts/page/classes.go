package page

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// scored is the scores of a model in the windows reported so far.
type scored struct {
	model   string   // the model's id
	first   int64    // window
	heads   []string // names
	curve   curve
	classes []classScores // of the head that serves
	static  []int         // arrivals, by the class that the model as trained predicts
}

// classScores is the scores of the labels of a class, and of the predictions of it.
type classScores struct {
	labelled, predicted calibration.Tally
	odds                *calibration.Odds // nil unless it is watched
}

// add adds the scores of a window. If another model serves, it first resets them.
func (s *scored) add(out *event.Outcome) {
	if out.Model != s.model || s.heads == nil {
		*s = scored{model: out.Model, first: out.Window}
		for i := range out.Heads {
			s.heads = append(s.heads, out.Heads[i].Name)
		}
	}
	s.curve.add(out)
	for c, n := range out.AsTrained {
		for c >= len(s.static) {
			s.static = append(s.static, 0)
		}
		s.static[c] += int(n)
	}
	if len(out.Heads) == 0 {
		return
	}
	for i := range out.Heads[0].Scores {
		score, label := (*calibration.Score)(&out.Heads[0].Scores[i]), out.Labelled[i].Class
		for int(max(score.Class, label)) >= len(s.classes) {
			s.classes = append(s.classes, classScores{})
		}
		s.classes[score.Class].predicted.Add(score)
		s.classes[label].labelled.Add(score)
	}
	for k, c := range out.Watched {
		for int(c) >= len(s.classes) {
			s.classes = append(s.classes, classScores{})
		}
		odds := serve.Odds(out, k)
		if of := &s.classes[c]; of.odds == nil {
			of.odds = &odds
		} else {
			of.odds.Merge(&odds)
		}
	}
}

// labels returns the number of labels.
func (s *scored) labels() (n int) {
	for c := range s.classes {
		n += s.classes[c].labelled.Labels
	}
	return n
}

// apart returns [Period.Apart] of the labels of this worker.
func (h *history) apart() float64 {
	p, shares := Period{Classes: make([]Group, len(h.model.Classes))}, h.model.Shares()
	for c := range p.Classes {
		g := &p.Classes[c]
		if c < len(h.scored.classes) {
			g.Labels = h.scored.classes[c].labelled.Labels
		}
		if c < len(h.scored.static) {
			g.AsTrained = h.scored.static[c]
		}
		if shares != nil {
			g.Trained = shares[c] * float64(h.scored.labels())
		}
	}
	return p.Apart(h.pool != nil && h.pool.LabelRates != nil)
}

// mostFrequent returns the class with the most labels, the first of several, and their
// number, 0 if there are none.
func (s *scored) mostFrequent() (class, labels int) {
	for c := range s.classes {
		if n := s.classes[c].labelled.Labels; n > labels {
			class, labels = c, n
		}
	}
	return class, labels
}

// classes returns the scores of each class of the model.
func (h *history) classes() []Group {
	list := make([]Group, len(h.model.Classes))
	for c, name := range h.model.Classes {
		list[c].Name = name
		if c < len(h.scored.classes) {
			of := &h.scored.classes[c]
			list[c].Predicted, list[c].Tally, list[c].Odds = of.predicted.Labels, of.labelled, of.odds
		}
	}
	return list
}

// classTable returns a row for each class.
func (h *history) classTable() (t table) {
	classes := h.classes()
	for c, name := range h.model.Classes {
		t.addClass(classes, c)
		t.Rows[c].Link = "?" + url.Values{"class": {name}}.Encode() + "#classes"
	}
	t.Caption = fmt.Sprintf("labels since window %d, the first that this worker has seen of this model", h.scored.first)
	return t
}

// classView is the class that was chosen.
type classView struct {
	Name        string
	Facts       []fact
	Reliability *plot
}

// class returns what is known of a class, nil if there is none of that name.
func (h *history) class(name string) *classView {
	c := slices.Index(h.model.Classes, name)
	if c < 0 {
		return nil
	}
	v := &classView{Name: name}
	var of classScores
	if c < len(h.scored.classes) {
		of = h.scored.classes[c]
	}
	ece, chance := of.predicted.Bins.ECE()
	v.Facts = []fact{
		{"of its labels, found (recall)", percent(of.labelled.Correct, of.labelled.Labels) + " %", ""},
		{"of the predictions of it, right (precision)", percent(of.predicted.Correct, of.predicted.Labels) + " %", ""},
		{"ECE of the predictions of it", formatted(ece), ""},
		{"ECE that chance alone gives, at most", formatted(chance), ""},
	}
	if odds := OddsOf(h.classes(), c); odds != nil {
		ece, chance := odds.ECE()
		auc, ap := ranking(odds)
		v.Facts = append(v.Facts,
			fact{"AUC of its probability", auc, ""},
			fact{"average precision of its probability", ap, ""},
			fact{"ECE of its probability", formatted(ece), ""},
			fact{"by chance alone, at most", formatted(chance), ""},
		)
	}
	if of.predicted.Labels > 0 {
		v.Reliability = &plot{
			Label:   "A reliability diagram of the predictions of this class: accuracy against confidence.",
			Caption: fmt.Sprintf("Of the predictions of %s with a confidence as on the axis, the share that was right.", name),
		}
		v.Reliability.reliability(name, &of.predicted)
	}
	return v
}
