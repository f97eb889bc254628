package page

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// The values of the API, as openapi.json describes them. Names are those of the
// wire format where there is one.

// nodeID is an id in JSON: a string, or an integer.
type nodeID event.ID

// MarshalJSON writes the string or the integer.
func (id nodeID) MarshalJSON() ([]byte, error) {
	if id.Str != "" {
		return json.Marshal(id.Str)
	}
	return strconv.AppendInt(nil, id.Num, 10), nil
}

type estimateValue struct {
	Head          string    `json:"head"`
	Class         string    `json:"class"`
	Confidence    float32   `json:"confidence"`
	Probabilities []float32 `json:"probabilities"`
}

// predictionValue is a prediction. What is not known of one is left out.
type predictionValue struct {
	Node             nodeID          `json:"node"`
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
	Heads            []estimateValue `json:"heads,omitempty"`
}

func predictionOf(p *event.Prediction) *predictionValue {
	v := &predictionValue{
		Node: nodeID(p.Node), Class: p.Class, ClassIndex: p.ClassIndex, Confidence: p.Confidence, Probabilities: p.Probabilities,
		Total: &p.Total, Aleatoric: &p.Aleatoric, Epistemic: &p.Epistemic,
		Window: p.Window, PosteriorVersion: &p.PosteriorVersion, Time: p.Time, Model: p.Model,
	}
	if s := p.Set; s != nil {
		v.Set, v.Coverage, v.AbstainReason = &s.Classes, s.Coverage, s.Abstain
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

type nodeValue struct {
	Node       nodeID           `json:"node"`
	Context    bool             `json:"context"`
	Label      *string          `json:"label"`
	Degree     int              `json:"degree"`
	Served     *predictionValue `json:"served"`
	Now        *predictionValue `json:"now"`
	Neighbours []influenceValue `json:"neighbours"`
}

type influenceValue struct {
	Node    nodeID  `json:"node"`
	Label   *string `json:"label"`
	Gain    float64 `json:"gain"`
	Without string  `json:"class_without"`
}

// node answers what is known of a node.
func (s *Server) node(r *http.Request) (any, *problem) {
	id, p := pathID(r)
	if p != nil {
		return nil, p
	}
	v, p := s.lookUp(r, id)
	if p != nil {
		return nil, p
	}
	return v, nil
}

// lookUp asks for the node of the first of the ids that is in the graph.
func (s *Server) lookUp(r *http.Request, ids []event.ID) (*nodeValue, *problem) {
	var report *pipeline.Report
	if p := s.engine(r.Context(), func(e *pipeline.Engine) {
		for _, id := range ids {
			if found, known := e.Node(id); known {
				report = found
				return
			}
		}
	}); p != nil {
		return nil, p
	}
	if report == nil {
		return nil, unknownNode.because(fmt.Sprintf("%.80q has not come yet", ids[0].String()))
	}
	v := &nodeValue{
		Node: nodeID(report.Node), Context: report.Context, Label: orNull(report.Label), Degree: report.Degree,
		Now: opinionOf(&report.Now), Neighbours: make([]influenceValue, len(report.Neighbours)),
	}
	for i, n := range report.Neighbours {
		v.Neighbours[i] = influenceValue{Node: nodeID(n.Node), Label: orNull(n.Label), Gain: n.Gain, Without: n.Without}
	}
	v.Served = s.asServed(report)
	return v, nil
}

// asServed is the whole of what was served where it is remembered, or what the
// engine keeps of it until the label comes.
func (s *Server) asServed(r *pipeline.Report) *predictionValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v *predictionValue
	if seen := s.h.find(r.Node); seen != nil {
		p := seen.Prediction
		p.Probabilities = slices.Clone(p.Probabilities) // its memory will be another's
		v = predictionOf(&p)
	}
	if r.Served == nil {
		return v
	}
	kept := opinionOf(r.Served)
	if v == nil {
		kept.Total, kept.Aleatoric, kept.Epistemic, kept.PosteriorVersion = nil, nil, nil, nil
		return kept
	}
	v.Heads = kept.Heads
	return v
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// pathID reads the id of a node from the path. What looks like an integer is one
// unless the graph has none of that name, or type=string is asked for.
func pathID(r *http.Request) ([]event.ID, *problem) {
	return idsOf(r.PathValue("id"), r.URL.Query())
}

// maxID is the most bytes of an id, as on the wire.
const maxID = 1024

func idsOf(text string, query url.Values) ([]event.ID, *problem) {
	if text == "" || len(text) > maxID {
		return nil, badParameter.because(fmt.Sprintf("id: give 1 to %d bytes", maxID))
	}
	kind, given, p := parameter(query, "type")
	if p != nil {
		return nil, p
	}
	n, err := strconv.ParseInt(text, 10, 64)
	integer := err == nil && strconv.FormatInt(n, 10) == text
	switch {
	case given && kind == "integer" && integer:
		return []event.ID{{Num: n}}, nil
	case given && kind == "integer":
		return nil, badParameter.because(fmt.Sprintf("id: %.40q is no 64-bit integer", text))
	case given && kind != "string":
		return nil, badParameter.because(fmt.Sprintf("type: %.40q is neither integer nor string", kind))
	case integer && !given:
		return []event.ID{{Num: n}, {Str: text}}, nil
	}
	return []event.ID{{Str: text}}, nil
}

// parameter returns a parameter that may be given once.
func parameter(query url.Values, name string) (value string, given bool, p *problem) {
	switch values := query[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", false, badParameter.because(fmt.Sprintf("%s: it is given %d times", name, len(values)))
	}
}

type modelValue struct {
	ID            string         `json:"id"`
	Encoder       string         `json:"encoder"`
	Activation    string         `json:"activation"`
	Features      int            `json:"features"`
	Layers        int            `json:"layers"`
	Embedding     int            `json:"embedding"`
	Classes       []string       `json:"classes"`
	Normalization string         `json:"normalization"`
	Temperature   bool           `json:"temperature"`
	Training      model.Training `json:"training"`
	Settings      string         `json:"settings"`
	Version       string         `json:"version"`
}

// model answers what is served with.
func (s *Server) model(*http.Request) (any, *problem) {
	s.mu.Lock()
	m := s.h.model
	s.mu.Unlock()
	return modelValue{
		ID: m.ID, Encoder: string(m.Meta.Encoder), Activation: string(m.Encoder.Activation()), Features: m.Encoder.In(),
		Layers: m.Encoder.Depth(), Embedding: m.Prior.Dim, Classes: m.Classes, Normalization: m.Normalization,
		Temperature: m.Temperature != nil, Training: m.Training, Settings: s.cfg.Settings, Version: s.cfg.Version,
	}, nil
}

type posteriorValue struct {
	Version  uint64             `json:"version"`
	Hash     string             `json:"hash"`
	Distance float64            `json:"distance"`
	KL       float64            `json:"kl"`
	Classes  []classBeliefValue `json:"classes"`
	Moments  *momentsValue      `json:"moments,omitempty"`
}

type classBeliefValue struct {
	Class     string  `json:"class"`
	Precision float64 `json:"precision"`
	Variance  float64 `json:"variance"`
	Distance  float64 `json:"distance"`
}

type momentsValue struct {
	Rows      int       `json:"rows"`
	Columns   int       `json:"columns"`
	Mean      []float64 `json:"mean"`
	Precision []float64 `json:"precision"`
}

// posterior answers with the belief in force.
func (s *Server) posterior(r *http.Request) (any, *problem) {
	moments, p := flag(r, "moments")
	if p != nil {
		return nil, p
	}
	var b *pipeline.Belief
	if p := s.engine(r.Context(), func(e *pipeline.Engine) { b = e.Belief() }); p != nil {
		return nil, p
	}
	v := posteriorValue{Version: b.Version, Hash: hex.EncodeToString(b.Hash[:]), Distance: b.Distance, KL: b.KL}
	for _, c := range b.Classes {
		v.Classes = append(v.Classes, classBeliefValue(c))
	}
	if moments {
		q := &b.Posterior
		v.Moments = &momentsValue{Rows: q.Dim, Columns: q.Classes, Mean: q.Mean, Precision: q.Precision}
	}
	return v, nil
}

func flag(r *http.Request, name string) (bool, *problem) {
	text, given, p := parameter(r.URL.Query(), name)
	switch {
	case p != nil:
		return false, p
	case !given || text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, badParameter.because(fmt.Sprintf("%s: %.40q is neither true nor false", name, text))
}

// windowSummary is what is remembered and told of a window.
type windowSummary struct {
	Window       int64   `json:"window"`
	At           string  `json:"at"`
	Cause        string  `json:"cause"`
	Replayed     bool    `json:"replayed"`
	Milliseconds float64 `json:"milliseconds"`
	Arrivals     int     `json:"arrivals"`
	Context      int     `json:"context"`
	Updates      int     `json:"updates"`
	Edges        int     `json:"edges"`
	Labels       int     `json:"labels"`
	Refused      int     `json:"refused"`
	Pending      int     `json:"pending"`
	Version      uint64  `json:"posterior_version"`
	Posterior    string  `json:"posterior"`
	Chain        string  `json:"chain"`

	at time.Time
}

func summaryOf(w *Window) windowSummary {
	out := w.Outcome
	v := windowSummary{
		Window: out.Window, at: w.At, At: w.At.UTC().Format(time.RFC3339Nano), Cause: w.Cause, Replayed: w.Replayed,
		Milliseconds: float64(w.Took.Nanoseconds()) / 1e6, Arrivals: out.Counts.Arrivals, Context: out.Counts.Context,
		Updates: out.Counts.Updates, Edges: out.Counts.Edges, Labels: len(out.Labelled), Refused: len(out.Refused),
		Pending: out.Levels.Pending, Posterior: hex.EncodeToString(out.Posterior[:]), Chain: hex.EncodeToString(out.Chain[:]),
	}
	if len(out.Heads) > 0 {
		v.Version = out.Heads[0].Version
	}
	return v
}

type windowsValue struct {
	Windows []windowSummary `json:"windows"` // the newest first
}

// windows answers with the last windows.
func (s *Server) windows(r *http.Request) (any, *problem) {
	limit := 50
	text, given, p := parameter(r.URL.Query(), "limit")
	if p != nil {
		return nil, p
	}
	if given {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > keptWindows {
			return nil, badParameter.because(fmt.Sprintf("limit: give 1 to %d", keptWindows))
		}
		limit = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return windowsValue{s.h.windows.newest(limit)}, nil
}

type supposedValue struct {
	predictionValue
	Degree  int      `json:"degree"`
	Unknown []nodeID `json:"unknown_neighbours"`
}

// predict answers what would be served for a node that has not come.
func (s *Server) predict(r *http.Request) (any, *problem) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, wrongMedia.because("send Content-Type: application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, MaxPredictBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, tooLarge.because(fmt.Sprintf("at most %d bytes are taken", MaxPredictBody))
	case err != nil:
		return nil, badBody.because("it ended early")
	}
	n, reason, detail := s.cfg.Decode(body)
	if reason == "" && len(n.Neighbours) > maxNeighbours {
		reason, detail = event.TooManyNeighbours, fmt.Sprintf("%d neighbours, at most %d are taken here", len(n.Neighbours), maxNeighbours)
	}
	if reason != "" {
		return nil, refused(reason, detail)
	}
	var supposed *pipeline.Supposed
	var known bool
	if p := s.engine(r.Context(), func(e *pipeline.Engine) { supposed, known, reason, detail = e.Suppose(n) }); p != nil {
		return nil, p
	}
	switch {
	case reason != "":
		return nil, refused(reason, detail)
	case known:
		return nil, knownNode.because("GET /v1/nodes/{id} tells what is known of it; to suppose another, give an id that has not come")
	}
	v := supposedValue{predictionValue: *opinionOf(&supposed.Opinion), Degree: supposed.Degree, Unknown: make([]nodeID, len(supposed.Unknown))}
	for i, id := range supposed.Unknown {
		v.Unknown[i] = nodeID(id)
	}
	return v, nil
}

func refused(reason event.Reason, detail string) *problem {
	p := refusedEvent.because(detail)
	p.Reason = string(reason)
	return p
}
