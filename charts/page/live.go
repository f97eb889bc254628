package page

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
)

// liveView is the data of page.html.
type liveView struct {
	Title      titleView
	Model      string // id
	Encoder    string
	Program    string // version
	State      string
	Progress   *progressValue // nil unless something lasts
	Trial      *Trial         // nil for none
	Questions  []question
	Latest     []shownPrediction
	Explained  bool // some of them have reasons
	Facts      []fact
	Heads      headsView
	Classes    table
	Attributes table      // no rows where features have no names
	Cohorts    table      // likewise without --by
	Class      *classView // nil unless one was chosen
	Windows    []windowSummary
	Refused    refusedValue
}

// headsView is what the live page shows of the heads.
type headsView struct {
	Scores      table // of the shadow model's heads behind the others
	Reliability *plot
	Curves      *plot
	Pool        *poolView // nil if no pool serves
}

// titleView is the title of a page: the graph, and what the page is about.
type titleView struct{ Graph, What string }

// fact is a number about the stream. Metric is the metric with the same value, ""
// for none.
type fact struct{ Name, Value, Metric string }

// shownPrediction is a prediction, and the name of its label.
type shownPrediction struct {
	served
	Label string // "" before it comes
}

// Correct reports whether the label is what was predicted.
func (p shownPrediction) Correct() bool { return p.label == p.ClassIndex }

// Why says what moved the prediction, "" without reasons.
func (p shownPrediction) Why() string {
	if r := p.Reasons; r != nil && len(r.List) > 0 {
		return r.Class + ": " + r.Words()
	}
	return ""
}

// Limits of the lists on the live page.
const (
	shownPredictions = 12
	shownWindows     = 10
)

// livePage serves GET /, with a class if one is chosen.
func (s *Server) livePage(w http.ResponseWriter, r *http.Request) {
	render(w, http.StatusOK, "page.html", s.liveView(r.URL.Query().Get("class")))
}

// liveView returns the data of the live page from the history alone, without asking the
// engine: the page must work even if the engine is stuck.
func (s *Server) liveView(class string) *liveView {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	h, m, heads := &s.past.h, s.past.h.model, s.past.h.measured()
	v := &liveView{
		Model: m.ID, Encoder: string(m.Meta.Encoder), Program: s.cfg.Version,
		Windows: h.windows.newest(shownWindows), Questions: s.answers(heads), Facts: h.facts(),
		State: s.state(), Progress: s.progress(), Trial: h.trial, Refused: h.refused.value(shownRefusals),
	}
	v.Title = titleView{s.cfg.Graph, v.State}
	v.Heads.Pool = h.poolView()
	v.Heads.Scores = table{Label: "Scores by head", Columns: []string{
		"head", "labels", "accuracy", "NLL", "ECE",
		"by chance up to", "Brier",
	}}
	for i := range h.scores {
		v.addHead(h.scores[i].Head, &h.scores[i], "gvbll_prequential", fmt.Sprintf("serving=%q", strconv.FormatBool(i == h.servedBy())))
	}
	for i := range h.shadow.scores {
		v.addHead(fmt.Sprintf("%s, model %s in the shadow", h.shadow.scores[i].Head, h.shadow.model), &h.shadow.scores[i],
			"gvbll_shadow_prequential", fmt.Sprintf("model=%q", h.shadow.model))
	}
	if len(h.scored.curve.points) > 0 {
		v.Heads.Reliability, v.Heads.Curves = h.reliability(), h.curves(heads)
	}
	v.Classes, v.Class = h.classTable(), h.class(class)
	v.Attributes, v.Cohorts = h.scored.sums.attributeTable(), h.cohorts
	for _, p := range h.served.newest(shownPredictions) {
		shown := shownPrediction{p, s.past.className(p.label)}
		v.Latest = append(v.Latest, shown)
		v.Explained = v.Explained || shown.Why() != ""
	}
	return v
}

// factsOf returns the figures that have words.
func factsOf(k figure.Kept) (list []fact) {
	for _, r := range k.Rows() {
		metric := "gvbll_" + r.Name
		if r.Label != "" {
			metric += fmt.Sprintf("{%s=%q}", r.Label, r.Value)
		}
		list = append(list, fact{r.Words, formatCount(r.Number), metric})
	}
	return list
}

// formatCount writes a sum, which most often is a whole number.
func formatCount(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) }

// facts returns the sizes of what is in memory, and what is known of the whole stream
// beside its scores.
func (h *history) facts() []fact {
	facts := factsOf(h.figures)
	if h.latest == nil {
		return facts
	}
	if h.latest.ServedBy > 0 {
		facts = append(facts, fact{"serving head", h.latest.Heads[h.latest.ServedBy].Name, ""})
	}
	if c := h.latest.Coverage; c != nil && c.Sets > 0 {
		facts = append(facts, fact{
			fmt.Sprintf("sets with the label, target %s %%", strconv.FormatFloat(100*c.Target, 'f', -1, 64)),
			fmt.Sprintf("%.1f %%, mean size %.1f", 100*c.Rate, c.MeanSize), "",
		})
	}
	if d := h.latest.Drift; d != nil && d.ServedRows > 0 && d.LabelledRows > 0 {
		facts = append(facts, fact{"accuracy, estimated before labels", formatted(d.EstimatedAccuracy), ""})
	}
	return facts
}

// addHead adds the scores of a head over labels. Its metrics have the given prefix, and the
// given label behind the others, which are in order of their names.
func (v *liveView) addHead(name string, s *pipeline.Summary, metric, label string) {
	t := s.Total()
	m := t.Means()
	score := func(measure string, value float64) cell {
		return cell{formatted(value), fmt.Sprintf("%s{head=%q,mean=\"label\",measure=%q,%s}", metric, s.Head, measure, label)}
	}
	v.Heads.Scores.Rows = append(v.Heads.Scores.Rows, tableRow{Name: name, Cells: []cell{
		{strconv.Itoa(t.Labels), fmt.Sprintf("%s_labels{head=%q,%s}", metric, s.Head, label)},
		score("accuracy", m.Acc), score("nll", m.NLL), score("ece", m.ECE),
		{formatted(m.Chance), ""},
		score("brier", m.Brier),
	}})
}

// nodeLink returns the path of a node's page.
func nodeLink(id event.ID) string {
	q := url.Values{"id": {id.String()}, "type": {"integer"}}
	if id.Str != "" {
		q.Set("type", "string")
	}
	return "node?" + q.Encode()
}
