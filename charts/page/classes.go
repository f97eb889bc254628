package page

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// scored is what came of a model in the windows reported so far.
type scored struct {
	model string   // the model's id
	first int64    // window
	heads []string // names
	curve curve
	sums  Period // see [Period.Add]
}

// add adds a window, which m served unless it is of another model. If another model serves than before, it first resets all sums.
func (s *scored) add(out *event.Outcome, m *model.Model) {
	if out.Model != s.model || s.heads == nil {
		*s = scored{model: out.Model, first: out.Window}
		for i := range out.Heads {
			s.heads = append(s.heads, out.Heads[i].Name)
		}
	}
	s.curve.add(out)
	s.sums.Add(out, m)
}

// apart returns [Period.Apart] of the labels of this worker.
func (h *history) apart() float64 {
	p := Period{Classes: h.classes()}
	for c, share := range h.model.Shares() {
		p.Classes[c].Trained = share * float64(h.scored.sums.Served.Labels)
	}
	return p.Apart(h.pool != nil && h.pool.LabelRates != nil)
}

// classes returns the sums of each class of the model.
func (h *history) classes() []Group {
	list := make([]Group, len(h.model.Classes))
	copy(list, h.scored.sums.Classes)
	for c, name := range h.model.Classes {
		list[c].Name = name
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
	v, classes := &classView{Name: name}, h.classes()
	of := &classes[c]
	ece, chance := of.Predicted.Bins.ECE()
	v.Facts = []fact{
		{"of its labels, found (recall)", percent(of.Correct, of.Labels) + " %", ""},
		{"of the predictions of it, right (precision)", percent(of.Predicted.Correct, of.Predicted.Labels) + " %", ""},
		{"ECE of the predictions of it", formatted(ece), ""},
		{"ECE that chance alone gives, at most", formatted(chance), ""},
	}
	if odds := OddsOf(classes, c); odds != nil {
		ece, chance := odds.ECE()
		auc, ap := ranking(odds)
		v.Facts = append(v.Facts,
			fact{"AUC of its probability", auc, ""},
			fact{"average precision of its probability", ap, ""},
			fact{"ECE of its probability", formatted(ece), ""},
			fact{"by chance alone, at most", formatted(chance), ""},
		)
	}
	if of.Predicted.Labels > 0 {
		v.Reliability = &plot{
			Label:   "A reliability diagram of the predictions of this class: accuracy against confidence.",
			Caption: fmt.Sprintf("Of the predictions of %s with a confidence as on the axis, the share that was right.", name),
		}
		v.Reliability.reliability(name, &of.Predicted)
	}
	return v
}
