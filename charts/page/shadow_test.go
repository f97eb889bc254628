package page_test

import (
	"strings"
	"testing"
)

// TestShadow: the page shows the scores of a shadow model. After a promotion it names the
// promoted model alone, until scores of the new shadow are reported.
func TestShadow(t *testing.T) {
	s := newFixture(t)
	for range 3 {
		s.step(4)
	}
	page := func() string { return s.get("/").Body.String() }
	if strings.Contains(page(), "in the shadow") {
		t.Error("the page shows a shadow model though there is none")
	}
	s.server.Past().ShowShadow("candidate", s.engine.Summaries())
	for _, want := range []string{"online, model candidate in the shadow", `gvbll_shadow_prequential{head=&#34;online&#34;,mean=&#34;label&#34;,measure=&#34;ece&#34;,model=&#34;candidate&#34;}`} {
		if !strings.Contains(page(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	other := *s.m
	other.ID = "candidate"
	s.server.Past().Serves(&other)
	if got := page(); !strings.Contains(got, "model candidate (") || strings.Contains(got, "in the shadow") {
		t.Error("the page does not name the promoted model alone")
	}
	// The promoted model may have fewer heads: the history must not mix their scores.
	out := *s.last
	out.Model, out.Heads = "candidate", out.Heads[:1]
	s.show(&out)
	page()
}
