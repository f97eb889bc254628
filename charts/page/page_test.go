package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// fixture is a server with an engine and a clock of its own.
type fixture struct {
	t      *testing.T
	rng    *rand.Rand
	m      *model.Model
	engine *pipeline.Engine
	server *page.Server
	now    time.Time
	nodes  int64
	last   *event.Outcome
}

func newFixture(t *testing.T) *fixture {
	rng := rand.New(rand.NewPCG(1, 2))
	weights := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() / 2)
		}
		return w
	}
	enc, err := gnn.NewSAGE(5, gnn.ReLU,
		gnn.SAGELayer{Neigh: weights(30), Bias: weights(6), Self: weights(30)},
		gnn.SAGELayer{Neigh: weights(24), Bias: weights(4), Self: weights(24)})
	if err != nil {
		t.Fatal(err)
	}
	m := &model.Model{
		ID:      "0123456789abcdef",
		Meta:    model.Meta{Format: model.Format, Encoder: gnn.KindSAGE, Classes: []string{"ham & <eggs>", "spam", "tea"}, Normalization: "none"},
		Encoder: enc, Normalizer: &gnn.Normalizer{Kind: gnn.NormalizeNone},
		Prior: posterior.Gaussian{Dim: 4, Classes: 3},
	}
	for range 12 {
		m.Prior.Mean = append(m.Prior.Mean, rng.NormFloat64())
		m.Prior.Precision = append(m.Prior.Precision, 1+10*rng.Float64())
	}
	s := &fixture{t: t, rng: rng, m: m, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	if s.engine, err = pipeline.New(m, pipeline.Config{}); err != nil {
		t.Fatal(err)
	}
	s.server = page.New(page.Config{
		Model: m, Settings: s.engine.Config().Settings(), Version: "test", Decode: decode,
		Now: func() time.Time { return s.now },
	})
	return s
}

// decode decodes those parts of a node event that the tests send.
func decode(body []byte) (*event.Node, event.Reason, string) {
	var v struct {
		ID         int64
		Features   []float32
		Neighbours []int64
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return nil, event.Undecodable, err.Error()
	}
	n := &event.Node{ID: event.ID{Num: v.ID}, Dense: v.Features}
	for _, id := range v.Neighbours {
		n.Neighbours = append(n.Neighbours, event.ID{Num: id})
	}
	return n, "", ""
}

func (s *fixture) features() []float32 {
	x := make([]float32, 5)
	for i := range x {
		x[i] = float32(s.rng.NormFloat64())
	}
	return x
}

// step serves a window of new nodes, with the labels of the window before.
func (s *fixture) step(arrivals int) {
	w := &event.Window{Number: s.engine.Next()}
	if s.last != nil {
		for _, p := range s.last.Predictions {
			w.Labels = append(w.Labels, event.Label{Node: p.Node, Index: s.rng.Int32N(3)})
		}
	}
	for range arrivals {
		n := event.Node{ID: event.ID{Num: s.nodes}, Dense: s.features(), Time: 1 + s.nodes}
		for range 3 {
			n.Neighbours = append(n.Neighbours, event.ID{Num: s.rng.Int64N(s.nodes + 2)})
		}
		w.Nodes = append(w.Nodes, n)
		s.nodes++
	}
	s.last = s.engine.Step(w)
	s.show(s.last)
}

func (s *fixture) show(out *event.Outcome) {
	s.now = s.now.Add(time.Second)
	s.server.Stepped(page.Window{Outcome: out, Cause: "count", Took: time.Millisecond, At: s.now})
	s.server.Show(s.engine.Summaries())
	s.server.Committed(s.now)
}

func (s *fixture) attach() { s.server.Attach(func(f func(*pipeline.Engine)) { f(s.engine) }) }

func (s *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

func (s *fixture) get(path string) *httptest.ResponseRecorder {
	return s.do(httptest.NewRequest("GET", path, nil))
}

func (s *fixture) predict(body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", page.PredictPath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return s.do(r)
}

// described checks a response against openapi.json: status and media type are listed
// for the path, and the body is valid for the schema.
func (s *fixture) described(method, path string, got *httptest.ResponseRecorder) {
	s.t.Helper()
	text := s.get("/v1/openapi.json").Body.Bytes()
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		s.t.Fatal(err)
	}
	content := doc.Paths[path][strings.ToLower(method)].Responses[fmt.Sprint(got.Code)].Content
	media := got.Header().Get("Content-Type")
	body := got.Body.Bytes()
	schema, ok := content[media]
	if !ok {
		s.t.Errorf("%s %s: %d %s is not described: %s", method, path, got.Code, media, body)
		return
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("openapi.json", whole); err != nil {
		s.t.Fatal(err)
	}
	sch, err := c.Compile("openapi.json" + schema.Schema.Ref)
	if err != nil {
		s.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		s.t.Fatalf("%s: %v", body, err)
	}
	if err := sch.Validate(v); err != nil {
		s.t.Errorf("%s %s: %v in %s", method, path, err, body)
	}
}

// TestAPIIsAsDescribed sends valid and invalid requests to every path of the API.
func TestAPIIsAsDescribed(t *testing.T) {
	s := newFixture(t)
	get := func(pattern, path string, status int) {
		t.Helper()
		w := s.get(path)
		if w.Code != status {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, status)
		}
		s.described("GET", pattern, w)
	}
	get("/v1/nodes/{id}", "/v1/nodes/1", 503)
	get("/v1/posterior", "/v1/posterior", 503)
	get("/v1/windows", "/v1/windows", 200)
	s.attach()
	for range 4 {
		s.step(20)
	}
	for _, c := range []struct {
		pattern, path string
		status        int
	}{
		{"/v1/nodes/{id}", "/v1/nodes/3", 200},
		{"/v1/nodes/{id}", "/v1/nodes/70?pretty&type=integer", 200},
		{"/v1/nodes/{id}", "/v1/nodes/3?type=string", 404},
		{"/v1/nodes/{id}", "/v1/nodes/a%2Fb", 404},
		{"/v1/nodes/{id}", "/v1/nodes/03", 404},
		{"/v1/nodes/{id}", "/v1/nodes/x?type=integer", 400},
		{"/v1/nodes/{id}", "/v1/nodes/1?type=float", 400},
		{"/v1/nodes/{id}", "/v1/nodes/" + strings.Repeat("x", 1025), 400},
		{"/v1/model", "/v1/model", 200},
		{"/v1/posterior", "/v1/posterior", 200},
		{"/v1/posterior", "/v1/posterior?moments=true", 200},
		{"/v1/posterior", "/v1/posterior?moments=1", 400},
		{"/v1/windows", "/v1/windows?limit=2", 200},
		{"/v1/windows", "/v1/windows?limit=0", 400},
		{"/v1/windows", "/v1/windows?limit=257", 400},
		{"/v1/windows", "/v1/windows?limit=x", 400},
		{"/v1/windows", "/v1/windows?limit=", 400},
		{"/v1/windows", "/v1/windows?limit=1&limit=1", 400},
		{"/v1/posterior", "/v1/posterior?moments=true&moments=true", 400},
		{"/v1/nodes/{id}", "/v1/nodes/1?type=string&type=integer", 400},
	} {
		get(c.pattern, c.path, c.status)
	}
	many := "0" + strings.Repeat(",0", 4096)
	for body, status := range map[string]int{
		`{"id":1000,"features":[1,2,3,4,5],"neighbours":[1,2,5000]}`:            200,
		`{"id":3,"features":[1,2,3,4,5]}`:                                       409,
		`{"id":1000,"features":[1,2,3,4]}`:                                      422,
		`{"id":`:                                                                422,
		`{"id":1000,"features":[1,2,3,4,5],"neighbours":[` + many + `]}`:        422,
		`{"id":1000,"text":"` + strings.Repeat("x", page.MaxPredictBody) + `"}`: 413,
	} {
		w := s.predict(body)
		if w.Code != status {
			t.Errorf("%.80s: %d %s, want %d", body, w.Code, w.Body, status)
		}
		s.described("POST", page.PredictPath, w)
	}
	w := s.do(httptest.NewRequest("POST", page.PredictPath, strings.NewReader("{}")))
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a body of no type: %d", w.Code)
	}
	s.described("POST", page.PredictPath, w)
	r := httptest.NewRequest("POST", page.PredictPath, broken{})
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	if w = s.do(r); w.Code != http.StatusBadRequest {
		t.Errorf("a body that ends early: %d", w.Code)
	}
	s.described("POST", page.PredictPath, w)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the client has gone") }

// TestProblems: unknown paths and wrong methods are answered with problems of RFC
// 9457.
func TestProblems(t *testing.T) {
	s := newFixture(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/nothing", 404, ""},
		{"GET", "/v1/", 404, ""},
		{"GET", "/pictures/none", 404, ""},
		{"GET", "/pictures/curves", 404, ""},
		{"GET", "/pictures/curves?theme=pink", 404, ""},
		{"POST", "/v1/model", 405, "GET, HEAD"},
		{"GET", page.PredictPath, 405, "POST"},
		{"PUT", "/", 405, "GET, HEAD"},
	} {
		w := s.do(httptest.NewRequest(c.method, c.path, nil))
		var p struct {
			Type, Title, Detail string
			Status              int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s %s: %v in %s", c.method, c.path, err, w.Body)
		}
		if w.Code != c.status || p.Status != c.status || p.Type == "" || p.Title == "" || w.Header().Get("Allow") != c.allow || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %v %+v", c.method, c.path, w.Code, w.Header(), p)
		}
	}
	if w := s.get("/v1/posterior"); w.Header().Get("Retry-After") == "" {
		t.Error("a request during the replay gets no Retry-After")
	}
}

// TestTooMuchAtOnce: while some requests wait for the engine, more are rejected.
func TestTooMuchAtOnce(t *testing.T) {
	s := newFixture(t)
	inside, leave, left := make(chan bool), make(chan bool), make(chan bool)
	s.server.Attach(func(f func(*pipeline.Engine)) {
		inside <- true
		<-leave
		f(s.engine)
	})
	const questions = 4
	for range questions {
		go func() {
			s.get("/v1/posterior")
			left <- true
		}()
		<-inside
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := s.do(httptest.NewRequestWithContext(ctx, "GET", "/v1/posterior", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "problem:busy") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.described("GET", "/v1/posterior", w)
	close(leave)
	for range questions {
		<-left
	}
}

// nodeAnswer has those fields of a node's response that the tests check.
type nodeAnswer struct {
	Label  *string
	Degree int
	Served *struct {
		Probabilities []float32
		Total         *float32 `json:"total_uncertainty"`
		Window        int64
		Heads         []struct{ Head string }
	}
	Now struct {
		Class         string
		Probabilities []float32
	}
	Neighbours []struct{ Gain float64 }
}

func (s *fixture) node(id int64) (a nodeAnswer) {
	s.t.Helper()
	w := s.get(fmt.Sprint("/v1/nodes/", id))
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		s.t.Fatalf("%v in %s", err, w.Body)
	}
	return a
}

// TestServedIsRemembered: a prediction is returned as it was served, before and after
// its label; after a restart, the part that the engine keeps.
func TestServedIsRemembered(t *testing.T) {
	s := newFixture(t)
	s.attach()
	s.step(5)
	was := s.last.Predictions[2]
	before := s.node(2)
	if before.Label != nil || before.Served == nil || len(before.Served.Heads) != 2 {
		t.Fatalf("before its label: %+v", before)
	}
	s.step(5)
	after := s.node(2)
	if after.Label == nil || after.Served == nil || len(after.Served.Heads) != 0 {
		t.Fatalf("after its label: %+v", after)
	}
	for _, a := range []nodeAnswer{before, after} {
		if fmt.Sprint(a.Served.Probabilities) != fmt.Sprint(was.Probabilities) || *a.Served.Total != was.Total || a.Served.Window != 0 {
			t.Errorf("served %+v, returned %+v", was, a.Served)
		}
	}
	if fmt.Sprint(after.Now.Probabilities) == fmt.Sprint(was.Probabilities) {
		t.Error("five labels later, the prediction is still the same")
	}
	if len(after.Neighbours) != after.Degree || after.Degree == 0 {
		t.Errorf("influence of %d of %d neighbours", len(after.Neighbours), after.Degree)
	}

	kept := s.node(7)
	s.server = page.New(page.Config{Model: s.m, Decode: decode, Now: func() time.Time { return s.now }})
	s.attach()
	again := s.node(7)
	if again.Served == nil || again.Served.Total != nil || fmt.Sprint(again.Served.Probabilities) != fmt.Sprint(kept.Served.Probabilities) {
		t.Errorf("after a restart: %+v, before %+v", again.Served, kept.Served)
	}
	if gone := s.node(2); gone.Served != nil {
		t.Errorf("a node with its label, after a restart: %+v", gone.Served)
	}
}

// TestPredictKeepsNothing: the prediction for a new node is what is served when it
// arrives, however often it was asked for.
func TestPredictKeepsNothing(t *testing.T) {
	s := newFixture(t)
	s.attach()
	s.step(10)
	before := s.get("/v1/windows").Body.String()
	body := `{"id":500,"features":[1,-1,0.5,0,2],"neighbours":[1,2,3,777]}`
	var supposed struct {
		Probabilities []float32
		Unknown       []int64 `json:"unknown_neighbours"`
		Degree        int
	}
	for range 3 {
		if err := json.Unmarshal(s.predict(body).Body.Bytes(), &supposed); err != nil {
			t.Fatal(err)
		}
	}
	if supposed.Degree != 3 || len(supposed.Unknown) != 1 || supposed.Unknown[0] != 777 {
		t.Errorf("%+v", supposed)
	}
	if w := s.get("/v1/nodes/500"); w.Code != 404 || s.get("/v1/windows").Body.String() != before {
		t.Error("the request left something behind")
	}
	n, _, _ := decode([]byte(body))
	out := s.engine.Step(&event.Window{Number: s.engine.Next(), Nodes: []event.Node{*n}})
	if fmt.Sprint(out.Predictions[0].Probabilities) != fmt.Sprint(supposed.Probabilities) {
		t.Errorf("predicted %v, served %v", supposed.Probabilities, out.Predictions[0].Probabilities)
	}
}

// TestPage: the page has the scores of the summaries, and shows names as text.
func TestPage(t *testing.T) {
	s := newFixture(t)
	empty := s.get("/").Body.String()
	for _, want := range []string{"replaying the ledger", "No label has come yet"} {
		if !strings.Contains(empty, want) {
			t.Errorf("at the start there is no %q", want)
		}
	}
	s.attach()
	if !strings.Contains(s.get("/").Body.String(), "standing by") {
		t.Error("the page of a standby does not say so")
	}
	s.server.Owns()
	s.server.Lag("nodes", 7)
	s.server.Lag("labels", 5)
	for range 6 {
		s.step(15)
	}
	w := s.get("/")
	text := w.Body.String()
	for _, want := range []string{">serving<", ">12<", "ham &amp; &lt;eggs&gt;", `type=integer`} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
	if strings.Contains(text, "<eggs>") || strings.Contains(text, "http://") || strings.Contains(text, "https://") {
		t.Error("a name is markup on the page, or the page refers to another host")
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy: %q", csp)
	}
	for _, sum := range s.engine.Summaries() {
		for mean, scores := range map[string]calibration.Means{"label": sum.LabelMeans(), "window": sum.WindowMeans()} {
			for measure, value := range map[string]float64{"accuracy": scores.Acc, "nll": scores.NLL, "ece": scores.ECE, "brier": scores.Brier} {
				metric := fmt.Sprintf(`data-metric="gvbll_prequential{head=&#34;%s&#34;,mean=&#34;%s&#34;,measure=&#34;%s&#34;}">%.4f<`, sum.Head, mean, measure, value)
				if !strings.Contains(text, metric) {
					t.Errorf("there is no %s", metric)
				}
			}
		}
	}
	node := s.get("/node?id=3&type=integer")
	if node.Code != 200 || !strings.Contains(node.Body.String(), "Served as") {
		t.Errorf("the page of a node: %d %s", node.Code, node.Body)
	}
	if w := s.get("/node?id=%3Cb%3E"); w.Code != 404 || !strings.Contains(w.Body.String(), "not in the graph") || strings.Contains(w.Body.String(), "<b>") {
		t.Errorf("the page of an unknown node: %d %s", w.Code, w.Body)
	}
	if w := s.get("/node"); w.Code != 400 {
		t.Errorf("the page of a node without an id: %d", w.Code)
	}
	for _, file := range []string{"/page.css", "/page.js"} {
		if w := s.get(file); w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d", file, w.Code)
		}
	}
}

// TestPictures: all pictures on the page exist in both themes, and are drawn again
// when there is something new, at most once a second.
func TestPictures(t *testing.T) {
	s := newFixture(t)
	s.attach()
	for range 4 {
		s.step(10)
	}
	found := regexp.MustCompile(`(?:src|srcset)="(/pictures/[^"]+)"`).FindAllStringSubmatch(s.get("/").Body.String(), -1)
	if len(found) != 6 {
		t.Fatalf("%d pictures", len(found))
	}
	first := map[string]string{}
	for _, f := range found {
		path := strings.ReplaceAll(f[1], "&amp;", "&")
		w := s.get(path)
		first[path] = w.Body.String()
		d := xml.NewDecoder(strings.NewReader(first[path]))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		if w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	at := s.now
	s.step(10)
	s.now = at
	for path, was := range first {
		if s.get(path).Body.String() != was {
			t.Errorf("%s is drawn twice in a second", path)
		}
	}
	s.now = at.Add(time.Second)
	for path, was := range first {
		if s.get(path).Body.String() == was {
			t.Errorf("%s is not drawn again", path)
		}
	}
}
