package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// liveView is the data of page.html.
type liveView struct {
	Title       titleView
	Model       string // id
	Encoder     string
	Program     string // version
	State       string
	Progress    *progressValue // nil unless something lasts
	Trial       *Trial         // nil for none
	Version     uint64         // of the pictures
	Facts       []fact
	ByLabel     table // scores by head, those of the shadow model's behind the others
	ByWindow    table
	Reliability *figure
	Curves      *figure
	Classes     table
	Latest      []predictionView
	Windows     []windowSummary
	Pool        *poolView // nil if no pool serves
	Refused     refusedValue
	Reasons     table
	Ready       bool // the engine can be asked
}

// titleView is the title of a page: the graph, and what the page is about.
type titleView struct{ Graph, What string }

// pictureView is a picture on a page.
type pictureView struct {
	Name, Alt string
	Version   uint64
}

// Scored reports whether a label has been scored.
func (v *liveView) Scored() bool { return v.Curves != nil }

// Picture returns a picture of this state.
func (v *liveView) Picture(name, alt string) pictureView { return pictureView{name, alt, v.Version} }

// fact is a number about the stream. Metric is the metric with the same value, ""
// for none.
type fact struct{ Name, Value, Metric string }

// predictionView is a row of the table of predictions.
type predictionView struct {
	Node, Link                  string
	Class                       string
	Confidence                  float64
	Total, Aleatoric, Epistemic float64 // uncertainties, nats
	Window                      int64
	Label                       string // "" before it comes
	Correct                     bool
}

// Limits of the lists on the live page.
const (
	shownPredictions = 20
	shownWindows     = 10
)

// livePage serves GET /.
func (s *Server) livePage(w http.ResponseWriter, _ *http.Request) {
	render(w, http.StatusOK, "page.html", s.liveView())
}

// liveView returns the data of the live page from the history alone, without asking the
// engine: the page must work even if the engine is stuck.
func (s *Server) liveView() *liveView {
	ready := s.ask.Load() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	h, m := &s.h, s.h.model
	v := &liveView{
		Model: m.ID, Encoder: string(m.Meta.Encoder), Program: s.cfg.Version, Version: h.version, Ready: ready,
		Windows: h.windows.newest(shownWindows),
		State:   s.state(), Progress: s.progress(), Trial: h.trial, Refused: h.refused.value(shownRefusals), Pool: h.poolView(),
	}
	v.Title = titleView{s.cfg.Graph, v.State}
	v.Facts = h.facts(s.cfg.Now())
	if h.served.count == 0 { // nothing is worth a zero yet
		v.Facts = slices.DeleteFunc(v.Facts, func(f fact) bool { return f.Value == "0" || f.Value == noneYet })
	}
	v.ByLabel = table{Label: "Scores by head, means over labels", Caption: "means over labels", Columns: []string{"head", "labels", "accuracy", "NLL", "ECE", "Brier"}}
	v.ByWindow = table{Label: "Scores by head, means over windows", Caption: "means over windows", Columns: []string{"head", "accuracy", "NLL", "ECE", "Brier"}}
	for i := range h.scores {
		v.addHead(h.scores[i].Head, &h.scores[i], "gvbll_prequential", fmt.Sprintf("serving=%q", strconv.FormatBool(i == h.servedBy())))
	}
	for i := range h.shadow.scores {
		v.addHead(fmt.Sprintf("%s, model %s in the shadow", h.shadow.scores[i].Head, h.shadow.model), &h.shadow.scores[i], "gvbll_shadow_prequential", fmt.Sprintf("model=%q", h.shadow.model))
	}
	if len(h.scored.curve.points) > 0 {
		v.Reliability, v.Curves = h.reliability(), h.curves()
	}
	for c, name := range m.Classes {
		group := Group{}
		if c < len(h.scored.classes) {
			group = h.scored.classes[c]
		}
		group.Name = name
		v.Classes.addClass(&group)
	}
	v.Reasons = table{Label: "Refused events by reason", Caption: "by reason", ID: "reasons", Columns: []string{"reason", "events"}}
	for _, r := range v.Refused.Reasons {
		v.Reasons.add(string(r.Reason), strconv.Itoa(r.Events))
	}
	for _, p := range h.served.newest(shownPredictions) {
		v.Latest = append(v.Latest, s.predictionView(&p))
	}
	return v
}

// facts returns the numbers about the stream.
func (h *history) facts(now time.Time) []fact {
	level := func(name, of string, n int) fact {
		return fact{name, strconv.Itoa(n), fmt.Sprintf("gvbll_level{of=%q}", of)}
	}
	facts := []fact{
		level("nodes", "nodes", h.levels.Nodes), level("edges", "edges", h.levels.Edges),
		level("predictions without a label", "pending-predictions", h.levels.Pending),
		level("labels without a node", "waiting-labels", h.levels.WaitingLabels),
		{"predictions", strconv.Itoa(h.served.count), ""},
		{"refused events", strconv.Itoa(h.refused.events()), ""},
	}
	if n := len(h.windows.items); n > 0 {
		facts = append(facts, fact{"window", strconv.FormatInt(h.windows.newest(1)[0].Window, 10), ""})
	}
	if h.latest != nil {
		facts = append(facts, optionalFacts(h.latest)...)
	}
	facts = append(facts, fact{"lag, records", strconv.FormatInt(h.waiting(), 10), ""})
	commit := noneYet
	if !h.commit.IsZero() {
		commit = now.Sub(h.commit).Truncate(time.Second).String() + " ago"
	}
	return append(facts, fact{"last commit", commit, ""})
}

// noneYet is the value of a fact that is still to come.
const noneYet = "none yet"

// optionalFacts returns the head that serves if it is not the first, the coverage of
// sets, and what drift detectors found since the first window.
func optionalFacts(out *event.Outcome) (facts []fact) {
	if out.ServedBy > 0 {
		facts = append(facts, fact{"serving head", out.Heads[out.ServedBy].Name, ""})
	}
	if c := out.Coverage; c != nil && c.Sets > 0 {
		facts = append(facts, fact{
			fmt.Sprintf("sets with the label, target %s %%", strconv.FormatFloat(100*c.Target, 'f', -1, 64)),
			fmt.Sprintf("%.1f %%, mean size %.1f", 100*c.Rate, c.MeanSize), "",
		})
	}
	if d := out.Drift; d != nil {
		var found int64
		for i := range d.Detectors {
			found += d.Detectors[i].Total
		}
		facts = append(facts, fact{"changes that drift detectors found", strconv.FormatInt(found, 10), ""})
		if d.ServedRows > 0 && d.LabelledRows > 0 {
			facts = append(facts, fact{"accuracy, estimated before labels", formatted(d.EstimatedAccuracy), ""})
		}
	}
	return facts
}

// addHead adds the row of a head to both tables of scores. Its metrics have the given
// prefix, and the given label behind the others, which are in order of their names.
func (v *liveView) addHead(name string, s *pipeline.Summary, metric, label string) {
	row := func(mean string, m calibration.Means) (cells []cell) {
		for _, measure := range []struct {
			name  string
			value float64
		}{{"accuracy", m.Acc}, {"nll", m.NLL}, {"ece", m.ECE}, {"brier", m.Brier}} {
			cells = append(cells, cell{formatted(measure.value), fmt.Sprintf("%s{head=%q,mean=%q,measure=%q,%s}", metric, s.Head, mean, measure.name, label)})
		}
		return cells
	}
	labels := cell{strconv.Itoa(s.Total().Labels), fmt.Sprintf("%s_labels{head=%q,%s}", metric, s.Head, label)}
	v.ByLabel.Rows = append(v.ByLabel.Rows, tableRow{name, append([]cell{labels}, row("label", s.LabelMeans())...)})
	v.ByWindow.Rows = append(v.ByWindow.Rows, tableRow{name, row("window", s.WindowMeans())})
}

func (s *Server) predictionView(p *served) predictionView {
	v := predictionView{
		Node: p.Node.String(), Link: nodeLink(p.Node), Class: p.Class, Confidence: float64(p.Confidence),
		Total: float64(p.Total), Aleatoric: float64(p.Aleatoric), Epistemic: float64(p.Epistemic), Window: p.Window,
	}
	if p.label != noLabel {
		v.Label, v.Correct = s.className(p.label), p.label == p.ClassIndex
	}
	return v
}

// nodeLink returns the path of a node's page.
func nodeLink(id event.ID) string {
	q := url.Values{"id": {id.String()}, "type": {"integer"}}
	if id.Str != "" {
		q.Set("type", "string")
	}
	return "/node?" + q.Encode()
}
