package page_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
	get := func(path string) *httptest.ResponseRecorder {
		return s.do(httptest.NewRequest(http.MethodGet, path, nil))
	}
	for _, path := range []string{"/v1/pool", "/pictures/pool"} {
		if w := get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s of the paper's head: %d", path, w.Code)
		}
	}
	if strings.Contains(get("/").Body.String(), "/pictures/pool") {
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
		Bias          []struct{ Class string }
		Compatibility [][]float64
	}
	if err := json.Unmarshal(get("/v1/pool").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Heads) != len(spec.Heads) || v.Heads[0].Head != "static" || len(v.Bias) != 3 || len(v.Compatibility) != 3 || len(v.Compatibility[2]) != 3 {
		t.Errorf("%+v", v)
	}
	if w := get("/pictures/pool"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "labels-second") {
		t.Errorf("the picture: %d", w.Code)
	}
	if !strings.Contains(get("/").Body.String(), "/pictures/pool") {
		t.Error("the page shows no pool")
	}
}
