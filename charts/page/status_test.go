package page_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
)

// statusAnswer has the fields of /v1/status that the tests check.
type statusAnswer struct {
	Graph, State, Version string
	Progress              *struct {
		Of          string
		Done, Total int64
	}
	Trial *page.Trial
	Flags []page.Flag
}

// status returns what the API says of the worker. The answer must be as described.
func (s *fixture) status() (v statusAnswer) {
	s.t.Helper()
	w := s.get("/v1/status")
	s.described("GET", "/v1/status", w)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		s.t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}

// TestStatus: the API has the version, and every flag with its value and where it is from.
func TestStatus(t *testing.T) {
	s := newFixture(t)
	v := s.status()
	if v.Graph != "ham & <graph>" || v.Version != "test" || len(v.Flags) != 2 || v.Flags[1] != (page.Flag{Name: "prefix", Value: "ham & <graph>", From: "$GVBLL_PREFIX"}) {
		t.Errorf("/v1/status is %+v", v)
	}
}

// TestProgress: while the ledger is replayed, and then while the graph's context is loaded,
// page and API say how far that is, and show no zeros in its place.
func TestProgress(t *testing.T) {
	s := newFixture(t)
	is := func(state, progress, text string) {
		t.Helper()
		v, got := s.status(), ""
		if p := v.Progress; p != nil {
			got = fmt.Sprintf("%d of %d %s", p.Done, p.Total, p.Of)
		}
		if v.State != state || got != progress {
			t.Errorf("the worker is %s, with %q done, want %s, %q", v.State, got, state, progress)
		}
		body := s.get("/").Body.String()
		if !strings.Contains(body, ">"+state+"<") || strings.Contains(body, "<progress") != (progress != "") || !strings.Contains(body, text) {
			t.Errorf("the page is not %s, with %q: %s", state, text, body)
		}
		if progress != "" && (strings.Contains(body, ">0</dd>") || strings.Contains(body, "none yet")) {
			t.Errorf("%s: the page shows what is not there yet as zero", state)
		}
	}
	is("replaying the ledger", "", "No events have come yet.")
	s.server.Past().Replaying(1, 4)
	is("replaying the ledger", "1 of 4 windows", `<progress max="4" value="1"></progress> 1 of 4 windows of the ledger are replayed.`)
	s.server.Past().Stepped(page.Window{Outcome: &event.Outcome{Window: 1, Figures: countedIn(map[*figure.Figure]int{event.ContextNodes: 50, event.GraphNodes: 50})}, Replayed: true})
	is("replaying the ledger", "2 of 4 windows", "2 of 4 windows")
	s.attach()
	is("standing by", "", ">50</dd>")

	s.server.Past().Owns()
	is("serving", "", ">50</dd>")
	s.server.Past().Expect(60)
	is("loading", "50 of 60 events", `<progress max="60" value="50"></progress>`)
	s.server.Past().Lag("nodes", 130, 0)
	s.server.Past().Lag("labels", 20, 0)
	is("loading", "50 of 200 events", `<progress max="200" value="50"></progress> 50 of 200 events are loaded, and no node to predict has come yet.`)
	s.server.Past().Stepped(page.Window{Outcome: &event.Outcome{Window: 2, Figures: countedIn(map[*figure.Figure]int{event.ContextNodes: 100, event.LabelsOfContext: 10, event.GraphNodes: 150})}})
	s.server.Past().Lag("nodes", 30, 0)
	s.server.Past().Lag("labels", 10, 0)
	is("loading", "160 of 200 events", "160 of 200 events")
	s.server.Past().Stepped(page.Window{Outcome: &event.Outcome{Window: 3, Figures: countedIn(map[*figure.Figure]int{event.Arrivals: 1}), Predictions: make([]event.Prediction, 1)}})
	is("serving", "", "Since this worker started, no event was refused.")
	trouble := "no broker answers"
	s.server.Watch(func() string { return trouble })
	is("waiting for Kafka", "", "no event was refused.")
	trouble = ""
	is("serving", "", "no event was refused.")
}

// TestTrial: the trial of another model, from its loading until it ends.
func TestTrial(t *testing.T) {
	s := newFixture(t)
	s.attach()
	for _, c := range []struct {
		trial *page.Trial
		text  string
	}{
		{nil, ""},
		{&page.Trial{Model: "next", After: 500}, "On trial: model next is being loaded: it replays the ledger."},
		{&page.Trial{Model: "next", Loaded: true, After: 500}, `<progress max="500" value="0"></progress> On trial: model next is in the shadow, compared by 0 of 500 labels, the same for both.`},
		{&page.Trial{Model: "next", Loaded: true, After: 500, Labels: 200, Lead: 24.69}, `<progress max="500" value="200"></progress> On trial: model next is in the shadow, compared by 200 of 500 labels, the same for both: its NLL is 0.1235 lower.`},
		{&page.Trial{Model: "next", Loaded: true, Labels: 800, Lead: -8}, "On trial: model next is in the shadow, compared by 800 labels, the same for both: its NLL is 0.0100 higher."},
		{nil, ""},
	} {
		s.server.Past().Stepped(page.Window{Outcome: &event.Outcome{}, Trial: c.trial})
		body, got := s.get("/").Body.String(), s.status().Trial
		if strings.Contains(body, "On trial") != (c.text != "") || !strings.Contains(body, c.text) {
			t.Errorf("the page does not say %q", c.text)
		}
		if diff := cmp.Diff(c.trial, got); diff != "" {
			t.Errorf("the API has another trial (-want +got): %s", diff)
		}
	}
}

// TestRefused: page and API count the refused events by reason, and have the latest, without
// keeping their records. Details come from outside: they are cut, and never markup.
func TestRefused(t *testing.T) {
	s := newFixture(t)
	if body := s.get("/").Body.String(); strings.Contains(body, `id="reasons"`) {
		t.Error("without refused events the page has a table of them")
	}
	value := []byte("a value")
	refuse := func(window, offset int64, reason event.Reason, detail string) {
		s.server.Past().Stepped(page.Window{Outcome: &event.Outcome{Window: window, Refused: []event.Refusal{
			{Origin: &event.Origin{Topic: "g.nodes", Partition: 2, Offset: offset, Time: 1_795_000_000_000, Value: value}, Reason: reason, Detail: detail},
		}}})
	}
	for i := range int64(100) {
		refuse(i, 1000+i, event.OrphanLabel, fmt.Sprint("number ", i))
	}
	refuse(100, 1100, event.BadID, "<script>"+strings.Repeat("long ", 1000))
	refuse(101, 1101, event.Undecodable, "it was byte soup")
	var v struct {
		Events  int
		Reasons []struct {
			Reason string
			Events int
		}
		Latest []struct {
			Window, Offset int64
			Topic          string
			Partition      int32
			Time           time.Time
			Reason, Detail string
		}
	}
	w := s.get("/v1/refused")
	s.described("GET", "/v1/refused", w)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if v.Events != 102 || fmt.Sprint(v.Reasons) != "[{undecodable 1} {bad-id 1} {orphan-label 100}]" {
		t.Errorf("refused were %d: %v, want 102, by three reasons", v.Events, v.Reasons)
	}
	var windows []int64
	for _, r := range v.Latest {
		windows = append(windows, r.Window)
		if r.Offset != 1000+r.Window || r.Topic != "g.nodes" || r.Partition != 2 || r.Time.UnixMilli() != 1_795_000_000_000 || len(r.Detail) > 240 {
			t.Errorf("a refused event is %+v", r)
		}
	}
	want := make([]int64, 64)
	for i := range want {
		want[i] = 101 - int64(i)
	}
	if !slices.Equal(windows, want) {
		t.Errorf("the latest are of the windows %v", cmp.Diff(want, windows))
	}
	body := s.get("/").Body.String()
	for _, want := range []string{
		`<tr><th scope="row">orphan-label</th><td>100</td></tr>`, `<tr><th scope="row">bad-id</th><td>1</td></tr>`,
		"it was byte soup", "&lt;script&gt;long", "number 92", ">1101<", "gvbll dead-letters --prefix ham &amp; &lt;graph&gt;",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
	if strings.Contains(body, "number 91<") || strings.Contains(body, "<script>long") {
		t.Error("the page has more than the ten latest, or a detail became markup")
	}
}

// counted returns the figures of a window in which so many of each were counted.
func countedIn(of map[*figure.Figure]int) (w figure.Window) {
	for f, n := range of {
		w.Count(f, n)
	}
	return w
}
