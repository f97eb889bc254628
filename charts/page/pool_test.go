package page_test

import (
	"encoding/json"
	"net/http"
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
	for _, path := range []string{"/v1/pool", "/pictures/pool"} {
		if w := s.get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s where the paper's head serves: status %d, want 404", path, w.Code)
		}
	}
	if strings.Contains(s.get("/").Body.String(), "/pictures/pool") {
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
	if err := json.Unmarshal(s.get("/v1/pool").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Heads) != len(spec.Heads) || v.Heads[0].Head != "static" || len(v.Bias) != 3 || len(v.Compatibility) != 3 || len(v.Compatibility[2]) != 3 {
		t.Errorf("/v1/pool has %+v, want %d heads from static on, and 3 classes", v, len(spec.Heads))
	}
	if w := s.get("/pictures/pool"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "labels-second") {
		t.Errorf("/pictures/pool: status %d, want 200 and a row for the head labels-second", w.Code)
	}
	if !strings.Contains(s.get("/").Body.String(), "/pictures/pool") {
		t.Error("the page does not show the pool that serves")
	}
}
