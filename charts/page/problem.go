package page

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// problem is an answer that is not what was asked for, as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Reason string `json:"reason,omitempty"` // of a refused event: as in dead letters
}

// The problems. The list is closed: it stands in openapi.json and docs/api.md.
var (
	unknownNode  = problem{Type: "urn:gvbll:problem:unknown-node", Title: "The node is not in the graph", Status: http.StatusNotFound}
	knownNode    = problem{Type: "urn:gvbll:problem:known-node", Title: "The node is in the graph already", Status: http.StatusConflict}
	refusedEvent = problem{Type: "urn:gvbll:problem:refused-event", Title: "The event would be refused", Status: http.StatusUnprocessableEntity}
	badParameter = problem{Type: "urn:gvbll:problem:bad-parameter", Title: "A parameter is not what it should be", Status: http.StatusBadRequest}
	badBody      = problem{Type: "urn:gvbll:problem:bad-body", Title: "The body cannot be read", Status: http.StatusBadRequest}
	tooLarge     = problem{Type: "urn:gvbll:problem:too-large", Title: "The body is too large", Status: http.StatusRequestEntityTooLarge}
	wrongMedia   = problem{Type: "urn:gvbll:problem:unsupported-media-type", Title: "The body is of another media type", Status: http.StatusUnsupportedMediaType}
	noSuchPage   = problem{Type: "urn:gvbll:problem:not-found", Title: "There is nothing here", Status: http.StatusNotFound}
	wrongMethod  = problem{Type: "urn:gvbll:problem:method-not-allowed", Title: "This cannot be done here", Status: http.StatusMethodNotAllowed}
	notReady     = problem{Type: "urn:gvbll:problem:not-ready", Title: "The ledger is being replayed", Status: http.StatusServiceUnavailable}
	busy         = problem{Type: "urn:gvbll:problem:busy", Title: "Too much is asked at once", Status: http.StatusServiceUnavailable}
)

// retryAfter is told to those who come too early, in seconds.
const retryAfter = 1

// because is the problem with what there is to say of this one.
func (p problem) because(detail string) *problem {
	p.Detail = detail
	return &p
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error is the client's
}
