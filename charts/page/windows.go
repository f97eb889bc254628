package page

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
)

// windowSummary is what the history keeps of a window.
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
}

func summaryOf(w *Window) windowSummary {
	out := w.Outcome
	v := windowSummary{
		Window: out.Window, At: w.At.UTC().Format(time.RFC3339Nano), Cause: w.Cause, Replayed: w.Replayed,
		Milliseconds: float64(w.Took.Nanoseconds()) / 1e6, Arrivals: out.Figures.Int(event.Arrivals),
		Context: out.Figures.Int(event.ContextNodes),
		Updates: out.Figures.Int(event.Updates), Edges: out.Figures.Int(event.EdgesAdded), Labels: len(out.Labelled),
		Refused: len(out.Refused),
		Pending: out.Figures.Int(event.Pending), Posterior: out.Posterior.Hex(), Chain: out.Chain.Hex(),
	}
	if len(out.Heads) > 0 {
		v.Version = out.Heads[0].Version
	}
	return v
}

// windowsValue is the last windows.
type windowsValue struct {
	Windows []windowSummary `json:"windows"` // the newest first
}

// windows serves GET /v1/windows.
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
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	return windowsValue{s.past.h.windows.newest(limit)}, nil
}
