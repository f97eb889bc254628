package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

//go:embed files
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"percent": func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) },
	"score":   score,
	"short":   func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) },
}).ParseFS(files, "files/*.html"))

// score writes a figure as the page does.
func score(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }

func (s *Server) pages() {
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { render(w, http.StatusOK, "page.html", s.view()) })
	s.mux.HandleFunc("GET /node", s.nodePage)
	s.mux.HandleFunc("GET /pictures/{name}", func(w http.ResponseWriter, r *http.Request) { s.picture(w, r) })
	for _, name := range []string{"page.css", "page.js"} {
		s.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, files, "files/"+name)
		})
	}
}

func render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // an error is the client's
}

// view is what the page says.
type view struct {
	Model   string
	Encoder string
	Program string
	State   string // serving, standing by, replaying
	Version uint64 // of the pictures
	Facts   []fact
	Heads   []headView
	Shadow  string     // id of the model in the shadow, "" for none
	Beside  []headView // of that one
	Classes []classView
	Latest  []predictionView
	Windows []windowSummary
	Scored  bool // there were labels
	Ready   bool // the engine can be asked
	Pooled  bool // a pool serves
}

// fact is a figure of the stream; Metric is the one that shows the same, if any.
type fact struct{ Name, Value, Metric string }

type headView struct {
	Name   string
	Labels int
	Metric string // of Labels
	Scores []figure
}

// figure is one score of a head, and the metric that shows it.
type figure struct{ Value, Metric string }

type classView struct {
	Name              string
	Predicted, Were   int64
	Precision, Recall string // shares, in percent; – of nothing
}

type predictionView struct {
	Node                        string
	Link                        string
	Class                       string
	Confidence                  float64
	Total, Aleatoric, Epistemic float64
	Window                      int64
	Label                       string // "" before it comes
	Right                       bool
}

// shownPredictions and shownWindows are the newest that the page lists.
const (
	shownPredictions = 20
	shownWindows     = 10
)

func (s *Server) view() *view {
	// Of the engine only what it answers at once: a page must show a stuck one.
	ready := s.ask.Load() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	h, m := &s.h, s.h.model
	v := &view{
		Model: m.ID, Encoder: string(m.Meta.Encoder), Program: s.cfg.Version, Version: h.version, Ready: ready,
		Windows: h.windows.newest(shownWindows), Scored: len(h.curve.points) > 0,
	}
	switch {
	case !ready:
		v.State = "replaying the ledger"
	case h.owner:
		v.State = "serving"
	default:
		v.State = "standing by"
	}
	v.Facts = h.facts(s.cfg.Now())
	v.Pooled = ready && len(h.scores) > 0 && h.scores[0].Head == pipeline.HeadPool
	for i := range h.scores {
		v.Heads = append(v.Heads, headOf(&h.scores[i], "gvbll_prequential", ""))
	}
	v.Shadow = h.shadow
	for i := range h.beside {
		v.Beside = append(v.Beside, headOf(&h.beside[i], "gvbll_shadow_prequential", fmt.Sprintf("model=%q,", h.shadow)))
	}
	for c, name := range m.Classes {
		v.Classes = append(v.Classes, h.class(c, name))
	}
	for _, p := range h.served.newest(shownPredictions) {
		v.Latest = append(v.Latest, s.predictionView(&p))
	}
	return v
}

// facts are the figures of the stream.
func (h *history) facts(now time.Time) []fact {
	level := func(name, of string, n int) fact {
		return fact{name, strconv.Itoa(n), fmt.Sprintf("gvbll_level{of=%q}", of)}
	}
	facts := []fact{
		level("nodes", "nodes", h.levels.Nodes), level("edges", "edges", h.levels.Edges),
		level("waiting for a label", "pending-predictions", h.levels.Pending),
		level("labels without a node", "waiting-labels", h.levels.WaitingLabels),
		{"predictions", strconv.Itoa(h.served.count), ""},
		{"refused events", strconv.Itoa(h.refused), ""},
	}
	if n := len(h.windows.items); n > 0 {
		facts = append(facts, fact{"window", strconv.FormatInt(h.windows.newest(1)[0].Window, 10), ""})
	}
	if w := h.watched; w != nil {
		facts = append(facts, watchFacts(w)...)
	}
	var lag int64
	for _, records := range h.lag {
		lag += records
	}
	facts = append(facts, fact{"lag, events", strconv.FormatInt(lag, 10), ""})
	commit := "none yet"
	if !h.commit.IsZero() {
		commit = now.Sub(h.commit).Truncate(time.Second).String() + " ago"
	}
	return append(facts, fact{"last commit", commit, ""})
}

// watchFacts are who serves where it is not the first head, how sets fare, and
// what drift detectors found since the first window.
func watchFacts(out *event.Outcome) (facts []fact) {
	if out.ServedBy > 0 {
		facts = append(facts, fact{"served by the head", out.Heads[out.ServedBy].Name, ""})
	}
	if c := out.Coverage; c != nil && c.Sets > 0 {
		facts = append(facts, fact{
			fmt.Sprintf("sets that hold the class, of %s %%", strconv.FormatFloat(100*c.Target, 'f', -1, 64)),
			fmt.Sprintf("%.1f %%, of %.1f classes", 100*c.Rate, c.MeanSize), "",
		})
	}
	if d := out.Drift; d != nil {
		var found int64
		for i := range d.Detectors {
			found += d.Detectors[i].Total
		}
		facts = append(facts, fact{"changes found by drift detectors", strconv.FormatInt(found, 10), ""})
		if d.ServedRows > 0 && d.LabelledRows > 0 {
			facts = append(facts, fact{"accuracy, estimated before labels", score(d.EstimatedAccuracy), ""})
		}
	}
	return facts
}

// headOf shows a head's scores, which are the metric's with the labels.
func headOf(s *pipeline.Summary, metric, labels string) headView {
	v := headView{Name: s.Head, Labels: s.Total().Labels, Metric: fmt.Sprintf("%s_labels{%shead=%q}", metric, labels, s.Head)}
	for _, by := range []struct {
		mean   string
		scores calibration.Means
	}{{"label", s.LabelMeans()}, {"window", s.WindowMeans()}} {
		for _, measure := range []struct {
			name  string
			value float64
		}{{"accuracy", by.scores.Acc}, {"nll", by.scores.NLL}, {"ece", by.scores.ECE}, {"brier", by.scores.Brier}} {
			v.Scores = append(v.Scores, figure{score(measure.value), fmt.Sprintf("%s{%shead=%q,mean=%q,measure=%q}", metric, labels, s.Head, by.mean, measure.name)})
		}
	}
	return v
}

// class is how the serving head does with one.
func (h *history) class(c int, name string) classView {
	v := classView{Name: name, Precision: "–", Recall: "–"}
	if len(h.heads) == 0 {
		return v
	}
	of := &h.heads[0]
	v.Predicted, v.Were = of.predicted[c], of.were[c]
	percent := func(n int64) string { return strconv.FormatFloat(100*float64(of.right[c])/float64(n), 'f', 1, 64) }
	if v.Predicted > 0 {
		v.Precision = percent(v.Predicted)
	}
	if v.Were > 0 {
		v.Recall = percent(v.Were)
	}
	return v
}

func (s *Server) predictionView(p *served) predictionView {
	v := predictionView{
		Node: p.Node.String(), Link: nodeLink(p.Node), Class: p.Class, Confidence: float64(p.Confidence),
		Total: float64(p.Total), Aleatoric: float64(p.Aleatoric), Epistemic: float64(p.Epistemic), Window: p.Window,
	}
	if p.label != none {
		v.Label, v.Right = s.cfg.Model.Classes[p.label], p.label == p.ClassIndex
	}
	return v
}

// nodeLink is where a node's page is.
func nodeLink(id event.ID) string {
	q := url.Values{"id": {id.String()}, "type": {"integer"}}
	if id.Str != "" {
		q.Set("type", "string")
	}
	return "/node?" + q.Encode()
}

// nodeView is what the page of a node says.
type nodeView struct {
	Asked   string
	Problem *problem
	*nodeValue
	Classes    []string
	Rows       []opinionRow
	Neighbours []neighbourView
}

// opinionRow is a class's probability as served, and now.
type opinionRow struct {
	Class  string
	Served *float64
	Now    float64
}

type neighbourView struct {
	Name, Link, Label, Without string
	Gain                       float64
}

// nodePage shows a node: what was served, what would be now, and why.
func (s *Server) nodePage(w http.ResponseWriter, r *http.Request) {
	v := nodeView{Asked: r.URL.Query().Get("id"), Classes: s.cfg.Model.Classes}
	ids, p := idsOf(v.Asked, r.URL.Query())
	if p == nil {
		v.nodeValue, p = s.lookUp(r, ids)
	}
	if p != nil {
		v.Problem = p
		render(w, p.Status, "node.html", v)
		return
	}
	for c, name := range v.Classes {
		row := opinionRow{Class: name, Now: float64(v.Now.Probabilities[c])}
		if v.Served != nil {
			was := float64(v.Served.Probabilities[c])
			row.Served = &was
		}
		v.Rows = append(v.Rows, row)
	}
	for _, n := range v.nodeValue.Neighbours {
		to := neighbourView{Name: event.ID(n.Node).String(), Link: nodeLink(event.ID(n.Node)), Without: n.Without, Gain: n.Gain}
		if n.Label != nil {
			to.Label = *n.Label
		}
		v.Neighbours = append(v.Neighbours, to)
	}
	render(w, http.StatusOK, "node.html", v)
}
