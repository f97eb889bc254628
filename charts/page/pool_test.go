package page_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/posterior/pool"
)

// TestPool: the API and the page show what a pool has learned, and nothing where the
// paper's head serves.
func TestPool(t *testing.T) {
	s := newFixture(t)
	s.attach()
	s.step(5)
	if w := s.get("/v1/pool"); w.Code != http.StatusNotFound {
		t.Errorf("/v1/pool where the paper's head serves: status %d, want 404", w.Code)
	}
	if strings.Contains(s.get("/").Body.String(), "pool-title") {
		t.Error("the page shows a pool though the paper's head serves")
	}

	spec := pool.Default(pool.Traits{Density: 1, Negative: true})
	p, err := pool.New(spec, s.m.Shape(), &s.m.Prior)
	if err != nil {
		t.Fatal(err)
	}
	s.m.Pool, s.m.PoolState, s.last = &spec, p.AppendState(nil), nil
	if s.engine, err = pipeline.New(s.m, pipeline.Config{}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s.step(20)
	}
	var v struct {
		Heads []struct {
			Head   string
			Weight float64
		}
		Parts []struct {
			Part  string
			Share float64
		}
		Bias          []struct{ Class string }
		Compatibility [][]float64
	}
	if err := json.Unmarshal(s.get("/v1/pool").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Heads) != len(spec.Heads) || v.Heads[0].Head != "static" || len(v.Bias) != 3 || len(v.Compatibility) != 3 || len(v.Compatibility[2]) != 3 {
		t.Errorf("/v1/pool has %+v, want %d heads from static on, and 3 classes", v, len(spec.Heads))
	}
	body := s.get("/").Body.String()

	// A head's bar begins at zero, goes to its side, and is as long as its weight.
	bars := regexp.MustCompile(`data-metric="gvbll_pool_weight\{head=&#34;([^&]+)&#34;\}">([^<]+)</td><td><svg[^>]+><rect( class="negative")? x="([^"]+)" y="1" width="([^"]+)" height="8"/><line x1="([^"]+)"`).FindAllStringSubmatch(body, -1)
	shares := 0.
	for _, p := range v.Parts {
		shares += p.Share
		if want := fmt.Sprintf(`<tr><th scope="row">%s</th><td data-metric="gvbll_pool_share{head=&#34;%[1]s&#34;}">%.4f</td><td><svg`, p.Part, p.Share); !strings.Contains(body, want) {
			t.Errorf("the page does not contain %s", want)
		}
	}
	if len(v.Parts) <= len(v.Heads) || math.Abs(shares-1) > 1e-6 {
		t.Errorf("the parts %v have shares of %v, want the heads and their products, and 1", v.Parts, shares)
	}
	if len(bars) != len(v.Heads) {
		t.Fatalf("the page has bars for %d heads, want %d", len(bars), len(v.Heads))
	}
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	least, most := 0., 0.
	for _, h := range v.Heads {
		least, most = min(least, h.Weight), max(most, h.Weight)
	}
	for k, bar := range bars {
		h := v.Heads[k]
		left, width, zero := number(bar[4]), number(bar[5]), number(bar[6])
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
		if bar[1] != h.Head || bar[2] != fmt.Sprintf("%.4f", h.Weight) || (bar[3] != "") != (h.Weight < 0) {
			t.Errorf("a row says %v, want head %s and its weight %.4f", bar[1:4], h.Head, h.Weight)
		}
		if begin := left + width; !near(width, 100*math.Abs(h.Weight)/(most-least)) || h.Weight < 0 && !near(begin, zero) || h.Weight >= 0 && !near(left, zero) {
			t.Errorf("the bar of %s is %v + %v with zero at %v, for the weight %v among %v to %v", h.Head, left, width, zero, h.Weight, least, most)
		}
	}
}
