package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Cell is how a cell of a graph is doing, as its worker knows it.
type Cell struct {
	Number    int32      `json:"cell"`
	Owner     bool       `json:"owner"` // this worker owns it; else it stands by
	Windows   int64      `json:"windows"`
	Nodes     int        `json:"nodes"`
	Waiting   int64      `json:"waiting"`              // events that are in no window yet
	Committed *time.Time `json:"committed,omitempty"`  // nil before this worker's first commit
	LastLabel *time.Time `json:"last_label,omitempty"` // nil if none came to this worker
}

// Cells returns a handler that serves the cells of a worker as a table, at /, and as JSON, at /v1/cells. Those of the table link to
// their own pages, under cells/NUMBER/, of which it has none: whatever else is asked for is a problem that says so.
func Cells(graph string, list func() []Cell) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page.css", file("page.css"))
	mux.HandleFunc("GET /v1/cells", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(append([]Cell{}, list()...)) // an error is the client's
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		v := struct {
			Title titleView
			Cells []Cell
		}{titleView{graph, "cells"}, list()}
		render(w, http.StatusOK, "cells.html", v)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		noSuchPage.because(fmt.Sprintf("%.80q: the pages and the API of cell N are under /cells/N/, of the cells "+
			"at /; 'gvbll status' says which worker has which", r.URL.Path)).write(w)
	})
	return secured(mux)
}

// Elsewhere answers a request for a cell that a worker does not have, with the words that say who does.
func Elsewhere(w http.ResponseWriter, who string) { notReady.because(who).write(w) }
