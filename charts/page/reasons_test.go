package page_test

import (
	"html"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
)

// TestPagesSayWhy: the live page, a node's page and the API say what moved a prediction as it was served, in words; without
// --reasons they say nothing of it.
func TestPagesSayWhy(t *testing.T) {
	for _, reasons := range []string{"", "9"} {
		s := newFixture(t)
		var err error
		if s.engine, err = pipeline.New(s.m, pipeline.Config{Reasons: reasons}); err != nil {
			t.Fatal(err)
		}
		s.attach()
		for range 3 {
			s.step(20)
		}
		p := s.last.Predictions[19]
		w := s.get("/v1/nodes/" + p.Node.String())
		s.described("GET", "/v1/nodes/{id}", w)
		node, live := html.UnescapeString(s.get("/node?id="+p.Node.String()).Body.String()), html.UnescapeString(s.get("/").Body.String())
		if reasons == "" {
			for _, text := range []string{w.Body.String(), node, live} {
				if strings.Contains(text, "reasons_class") || strings.Contains(text, "What moved it") || strings.Contains(text, ">why<") {
					t.Errorf("without reasons: %.300s", text)
				}
			}
			continue
		}
		if len(p.Reasons.List) != 8 {
			t.Fatalf("%d reasons, want 8", len(p.Reasons.List))
		}
		first, last := p.Reasons.List[0].Words(p.Class), p.Reasons.List[7].Words(p.Class)
		for name, text := range map[string]string{"node": node, "live": live} {
			if !strings.Contains(text, first) || strings.Contains(text, last) {
				t.Errorf("the page %s does not say %q, or says more than six reasons, as %q", name, first, last)
			}
		}
		if !strings.Contains(w.Body.String(), `"reasons_class":`) {
			t.Errorf("the API says %s", w.Body)
		}
	}
}
