package page_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// fixture is a server, the engine that it asks once attach is called, and its clock.
type fixture struct {
	t      *testing.T
	rng    *rand.Rand
	m      *model.Model
	engine *pipeline.Engine
	server *page.Server
	now    time.Time
	nodes  int64
	last   *event.Outcome
	labels [3]int // sent, by class
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
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
		Graph: "ham & <graph>", Model: m, Settings: s.engine.Config().Settings(), Version: "test", Decode: decode,
		Flags: []page.Flag{{Name: "window", Value: "500"}, {Name: "prefix", Value: "ham & <graph>", From: "$GVBLL_PREFIX"}},
		Now:   func() time.Time { return s.now },
	})
	return s
}

// decode decodes the fields of a node event that the tests send.
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
			class := s.rng.Int32N(3)
			w.Labels = append(w.Labels, event.Label{Node: p.Node, Index: class})
			s.labels[class]++
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

// show reports the outcome of a window to the server, a second after the one before.
func (s *fixture) show(out *event.Outcome) {
	s.now = s.now.Add(time.Second)
	s.server.Past().Stepped(page.Window{Outcome: out, Cause: "count", Took: time.Millisecond, At: s.now})
	s.server.Past().Show(s.engine.Summaries(), s.engine.Pooled(), s.engine.Cohorts())
	s.server.Past().Committed(s.now)
}

// attach lets the server ask the engine, as a worker does once it has caught up.
func (s *fixture) attach() { s.server.Attach(func(f func(*pipeline.Engine)) { f(s.engine) }) }

func (s *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

func (s *fixture) get(path string) *httptest.ResponseRecorder {
	return s.do(httptest.NewRequestWithContext(s.t.Context(), "GET", path, nil))
}

func (s *fixture) predict(body string) *httptest.ResponseRecorder {
	return s.post(strings.NewReader(body), "application/json")
}

// post sends a body of the given media type to be predicted.
func (s *fixture) post(body io.Reader, media string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.t.Context(), "POST", page.PredictPath, body)
	r.Header.Set("Content-Type", media)
	return s.do(r)
}

// described checks a response against openapi.json, which must list its status and media
// type for the path, with a schema that the body satisfies.
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

// TestAPIIsAsDescribed: valid and invalid requests to every path of the API get the status
// that they should, and a response as openapi.json describes it.
func TestAPIIsAsDescribed(t *testing.T) {
	s := newFixture(t)
	get := func(pattern, path string, status int) {
		t.Helper()
		w := s.get(path)
		if w.Code != status {
			t.Errorf("GET %s: status %d, want %d: %s", path, w.Code, status, w.Body)
		}
		s.described("GET", pattern, w)
	}
	get("/v1/nodes/{id}", "/v1/nodes/1", 503)
	get("/v1/posterior", "/v1/posterior", 503)
	get("/v1/windows", "/v1/windows", 200)
	get("/v1/refused", "/v1/refused", 200)
	get("/v1/status", "/v1/status", 200)
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
		{"/v1/nodes/{id}", "/v1/nodes/" + strings.Repeat("x", 100<<10), 400},
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
	many := "0" + strings.Repeat(",0", 400_000)
	for body, status := range map[string]int{
		`{"id":1000,"features":[1,2,3,4,5],"neighbours":[1,2,5000]}`:               200,
		`{"id":3,"features":[1,2,3,4,5]}`:                                          409,
		`{"id":1000,"features":[1,2,3,4]}`:                                         422,
		`{"id":`:                                                                   422,
		`{"id":1000,"features":[1,2,3,4,5],"neighbours":[` + many + `]}`:           422,
		`{"id":1000,"text":"` + strings.Repeat("x", 10*page.MaxPredictBody) + `"}`: 413,
	} {
		w := s.predict(body)
		if w.Code != status {
			t.Errorf("predicting %.80s: status %d, want %d: %s", body, w.Code, status, w.Body)
		}
		s.described("POST", page.PredictPath, w)
	}
	w := s.post(strings.NewReader("{}"), "")
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a body without a media type: status %d, want 415", w.Code)
	}
	s.described("POST", page.PredictPath, w)
	if w = s.post(brokenBody{}, "application/json; charset=utf-8"); w.Code != http.StatusBadRequest {
		t.Errorf("a body that ends early: status %d, want 400", w.Code)
	}
	s.described("POST", page.PredictPath, w)
}

// TestSlowSenders: of many bodies that are sent slowly, a few are in memory at a time. The
// others are not read: they are refused after a while, and the engine can be asked
// meanwhile.
func TestSlowSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.attach()
		s.step(10)
		var reading atomic.Int32
		finish := make(chan struct{})
		statuses := make(chan int, 100)
		for range cap(statuses) {
			go func() {
				body := readerFunc(func(p []byte) (int, error) {
					reading.Add(1)
					<-finish
					return copy(p, "{"), io.EOF
				})
				statuses <- s.post(body, "application/json").Code
			}()
		}
		synctest.Wait()
		if n := reading.Load(); n != 4 {
			t.Errorf("%d bodies are read at once, want 4", n)
		}
		if w := s.get("/v1/nodes/1"); w.Code != http.StatusOK {
			t.Errorf("a question meanwhile: status %d, want 200: %s", w.Code, w.Body)
		}
		time.Sleep(10 * time.Second)
		close(finish)
		count := make(map[int]int)
		for range cap(statuses) {
			count[<-statuses]++
		}
		if want := map[int]int{http.StatusServiceUnavailable: 96, http.StatusUnprocessableEntity: 4}; !maps.Equal(count, want) {
			t.Errorf("statuses %v, want %v", count, want)
		}
	})
}

// readerFunc is a function as a reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// brokenBody is the body of a client that disconnects.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("the client disconnected") }

// TestProblems: unknown paths and wrong methods get problem details of RFC 9457. A
// request for the engine before it can be asked is told when to try again.
func TestProblems(t *testing.T) {
	s := newFixture(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/nothing", 404, ""},
		{"GET", "/v1/", 404, ""},
		{"GET", "/pictures/calibration", 404, ""},
		{"POST", "/v1/model", 405, "GET, HEAD"},
		{"GET", page.PredictPath, 405, "POST"},
		{"PUT", "/", 405, "GET, HEAD"},
	} {
		w := s.do(httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil))
		var p struct {
			Type, Title, Detail string
			Status              int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Errorf("%s %s: %v in %s", c.method, c.path, err, w.Body)
		}
		if w.Code != c.status || p.Status != c.status || p.Type == "" || p.Title == "" || w.Header().Get("Allow") != c.allow || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: status %d, header %v, body %+v; want a problem with status %d and Allow %q", c.method, c.path, w.Code, w.Header(), p, c.status, c.allow)
		}
	}
	if w := s.get("/v1/posterior"); w.Header().Get("Retry-After") == "" {
		t.Error("a request during the replay gets no Retry-After header")
	}
}

// TestEngineIsBusy: while four requests use the engine or wait for it, a hundred others are rejected
// once their time is up, so that requests do not pile up.
func TestEngineIsBusy(t *testing.T) { synctest.Test(t, testEngineIsBusy) }

func testEngineIsBusy(t *testing.T) {
	s := newFixture(t)
	entered, release, answered := make(chan bool), make(chan bool), make(chan bool)
	s.server.Attach(func(f func(*pipeline.Engine)) {
		entered <- true
		<-release
		f(s.engine)
	})
	const questions = 4
	for range questions {
		go func() {
			s.get("/v1/posterior")
			answered <- true
		}()
		<-entered
	}
	var others sync.WaitGroup
	for range 100 {
		others.Go(func() {
			w := s.get("/v1/posterior")
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "problem:busy") {
				t.Errorf("a further request gets status %d, want 503 with the problem busy: %s", w.Code, w.Body)
			}
			s.described("GET", "/v1/posterior", w)
		})
	}
	others.Wait()
	close(release)
	for range questions {
		<-answered
	}
}

// nodeAnswer has the fields of a response about a node that the tests check.
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

// node returns what the API tells of a node.
func (s *fixture) node(id int64) (a nodeAnswer) {
	s.t.Helper()
	w := s.get(fmt.Sprint("/v1/nodes/", id))
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		s.t.Fatalf("%v in %s", err, w.Body)
	}
	return a
}

// TestServedIsRemembered: a prediction is returned as it was served, before and after
// its label comes. After a restart the history is empty, and what the engine keeps until
// the label is returned.
func TestServedIsRemembered(t *testing.T) {
	s := newFixture(t)
	s.attach()
	s.step(5)
	want := s.last.Predictions[2]
	before := s.node(2)
	if before.Label != nil || before.Served == nil || len(before.Served.Heads) != 2 {
		t.Fatalf("before its label: %+v, want no label, and both heads as served", before)
	}
	s.step(5)
	after := s.node(2)
	if after.Label == nil || after.Served == nil || len(after.Served.Heads) != 0 {
		t.Fatalf("after its label: %+v, want the label, and the prediction without heads", after)
	}
	for _, a := range []nodeAnswer{before, after} {
		if got := a.Served; !slices.Equal(got.Probabilities, want.Probabilities) || *got.Total != want.Total || got.Window != 0 {
			t.Errorf("the API returns %+v as served, want %+v", got, want)
		}
	}
	if slices.Equal(after.Now.Probabilities, want.Probabilities) {
		t.Error("five labels later, what would be served now is still what was served")
	}
	if len(after.Neighbours) != after.Degree || after.Degree == 0 {
		t.Errorf("%d of %d neighbours have an influence, want all", len(after.Neighbours), after.Degree)
	}

	kept := s.node(7)
	s.server = page.New(page.Config{Model: s.m, Decode: decode, Now: func() time.Time { return s.now }})
	s.attach()
	again := s.node(7)
	if again.Served == nil || again.Served.Total != nil || !slices.Equal(again.Served.Probabilities, kept.Served.Probabilities) {
		t.Errorf("after a restart: %+v, want the probabilities of %+v alone", again.Served, kept.Served)
	}
	if gone := s.node(2); gone.Served != nil {
		t.Errorf("after a restart, a labelled node has %+v as served, want nothing", gone.Served)
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
		t.Errorf("the response is %+v, want degree 3 and the unknown neighbour 777", supposed)
	}
	if w := s.get("/v1/nodes/500"); w.Code != 404 || s.get("/v1/windows").Body.String() != before {
		t.Error("after the request, the node is known or the windows have changed")
	}
	n, _, _ := decode([]byte(body))
	out := s.engine.Step(&event.Window{Number: s.engine.Next(), Nodes: []event.Node{*n}})
	if got := out.Predictions[0].Probabilities; !slices.Equal(got, supposed.Probabilities) {
		t.Errorf("served %v, but the API predicted %v", got, supposed.Probabilities)
	}
}

// TestPage: the page has the state of the worker and the scores of the engine's
// summaries. Names of nodes and classes come from outside: they must not become markup.
func TestPage(t *testing.T) {
	s := newFixture(t)
	empty := s.get("/").Body.String()
	for _, want := range []string{"replaying the ledger", "No label has come yet"} {
		if !strings.Contains(empty, want) {
			t.Errorf("at the start, the page does not contain %q", want)
		}
	}
	s.attach()
	if !strings.Contains(s.get("/").Body.String(), "standing by") {
		t.Error("the page of a standby does not say that it is standing by")
	}
	s.server.Past().Owns()
	s.server.Past().Lag("nodes", 7, 0)
	s.server.Past().Lag("labels", 5, 0)
	for range 6 {
		s.step(15)
	}
	w := s.get("/")
	text := w.Body.String()
	served := s.engine.Summaries()[0].Total()
	ece, chance := served.Bins.ECE()
	static := s.engine.Summaries()[1].Total()
	most := slices.Index(s.labels[:], slices.Max(s.labels[:]))
	for _, want := range []string{
		">serving<", "ham &amp; &lt;eggs&gt;", `type=integer`,
		fmt.Sprintf("<strong>%.1f %%</strong> of 75 labelled predictions were right.", 100*float64(served.Correct)/75),
		fmt.Sprintf("The model as trained, which learns from no label, was right for %.1f %%.", 100*float64(static.Correct)/75),
		fmt.Sprintf("The most frequent class, %s, as the only answer would be right for %.1f %%.", html.EscapeString(s.m.Meta.Classes[most]), 100*float64(s.labels[most])/75),
		fmt.Sprintf("<strong>%.1f points</strong> lie between confidence and accuracy in the mean (ECE); chance alone gives up to %.1f.", 100*ece, 100*chance),
		"It claims more than it keeps: ",
		"<strong>serving</strong> 12 records wait to be read; the last commit was 0s ago.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if strings.Contains(text, "<eggs>") || strings.Contains(text, "http://") || strings.Contains(text, "https://") {
		t.Error("a class name became markup, or the page refers to another host")
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy is %q, want default-src 'none'", csp)
	}
	for k, sum := range s.engine.Summaries() {
		scores := sum.LabelMeans()
		for measure, value := range map[string]float64{"accuracy": scores.Acc, "nll": scores.NLL, "ece": scores.ECE, "brier": scores.Brier} {
			metric := fmt.Sprintf(`data-metric="gvbll_prequential{head=&#34;%s&#34;,mean=&#34;label&#34;,measure=&#34;%s&#34;,serving=&#34;%t&#34;}">%.4f<`, sum.Head, measure, k == 0, value)
			if !strings.Contains(text, metric) {
				t.Errorf("the page does not contain %s", metric)
			}
		}
	}
	node := s.get("/node?id=3&type=integer")
	if node.Code != 200 || !strings.Contains(node.Body.String(), "Served as") {
		t.Errorf("the page of a node: status %d, want 200 and its prediction: %s", node.Code, node.Body)
	}
	for what, body := range map[string]string{"serving": text, "node 3": node.Body.String()} {
		if !strings.Contains(body, "<title>ham &amp; &lt;graph&gt;: "+what+" (gvbll)</title>") || strings.Contains(body, "<graph>") {
			t.Errorf("a page's title does not name the graph and %q", what)
		}
	}
	if !strings.Contains(text, "<h1>Graph ham &amp; &lt;graph&gt;</h1>") {
		t.Error("the page's heading does not name the graph")
	}
	if w := s.get("/node?id=%3Cb%3E"); w.Code != 404 || !strings.Contains(w.Body.String(), "not in the graph") || strings.Contains(w.Body.String(), "<b>") {
		t.Errorf("the page of an unknown node: status %d, want 404 and its id as text: %s", w.Code, w.Body)
	}
	if w := s.get("/node"); w.Code != 400 {
		t.Errorf("the page of a node without an id: status %d, want 400", w.Code)
	}
	for _, file := range []string{"/page.css", "/page.js"} {
		if w := s.get(file); w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: status %d and %d bytes, want 200 and some", file, w.Code, w.Body.Len())
		}
	}
}

// TestClass: of a class that is chosen, the page has recall and precision, and how far the
// predictions of it can be believed. A class of any other name is none.
func TestClass(t *testing.T) {
	s := newFixture(t)
	var labelled, found int         // labels of class 0, and those that were predicted
	var predicted calibration.Tally // of class 0
	for range 8 {
		s.step(15)
		for i := range s.last.Labelled {
			score := (*calibration.Score)(&s.last.Heads[0].Scores[i])
			if s.last.Labelled[i].Class == 0 {
				labelled++
				if score.Correct {
					found++
				}
			}
			if score.Class == 0 {
				predicted.Add(score)
			}
		}
	}
	body := s.get("/").Body.String()
	link := `<a href="?class=ham&#43;%26&#43;%3Ceggs%3E#classes">ham &amp; &lt;eggs&gt;</a>`
	if !strings.Contains(body, link) || strings.Contains(body, `id="class"`) {
		t.Errorf("the page has no link %s, or shows a class though none was chosen", link)
	}
	if other := s.get("/?class=eggs").Body.String(); strings.Contains(other, `id="class"`) {
		t.Error("the page shows a class of another name")
	}
	body = s.get("/?class=ham+%26+%3Ceggs%3E").Body.String()
	ece, chance := predicted.Bins.ECE()
	for _, want := range []string{
		`<h3 id="class">ham &amp; &lt;eggs&gt;</h3>`,
		fmt.Sprintf("(recall)</dt><dd>%.1f %%</dd>", 100*float64(found)/float64(labelled)),
		fmt.Sprintf("(precision)</dt><dd>%.1f %%</dd>", 100*float64(predicted.Correct)/float64(predicted.Labels)),
		fmt.Sprintf("ECE of the predictions of it</dt><dd>%.4f</dd>", ece),
		fmt.Sprintf("at most</dt><dd>%.4f</dd>", chance),
		fmt.Sprintf("how many of %d<", predicted.Labels),
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the class does not contain %q", want)
		}
	}
}

// TestPictures: the page has curves and reliability diagrams, and that of what serves beside the model as trained is an
// image, too.
func TestPictures(t *testing.T) {
	s := newFixture(t)
	s.attach()
	for range 4 {
		s.step(10)
	}
	text := s.get("/").Body.String()
	for want, count := range map[string]int{
		"<svg viewBox": 8, `<text class="title" x="44" y="13">accuracy`: 2, `<text class="title" x="44" y="13">NLL, nats`: 1, `<text class="title" x="44" y="13">ECE`: 1,
		"how many of 30": 3, `<polyline class="ideal"`: 3, `<polyline class="online"`: 3, `<polyline class="static"`: 4, `<li class="static"><span>static`: 1,
	} {
		if n := strings.Count(text, want); n != count {
			t.Errorf("the page has %q %d times, want %d", want, n, count)
		}
	}
	w := s.get("/pictures/calibration")
	if w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" || strings.Count(w.Body.String(), "how many of 30") != 2 ||
		strings.Contains(w.Body.String(), "ZgotmplZ") || xml.Unmarshal(w.Body.Bytes(), new(any)) != nil {
		t.Errorf("/pictures/calibration: status %d, %v, want the diagrams of what serves and of the model as trained: %s", w.Code, w.Header(), w.Body)
	}
}

// TestDecideIsAskedFor: a worker without --decide has nothing at the path.
func TestDecideIsAskedFor(t *testing.T) {
	s := newFixture(t)
	r := httptest.NewRequestWithContext(t.Context(), "POST", page.DecidePath, strings.NewReader(`{"id": 1}`))
	r.Header.Set("Content-Type", "application/json")
	if w := s.do(r); w.Code != http.StatusNotFound {
		t.Errorf("a call without --decide is answered %d, want 404: %s", w.Code, w.Body)
	}
}
