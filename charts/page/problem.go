package page

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// problem is an error response of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Reason string `json:"reason,omitempty"` // of a refused event, as its dead letter would have it
}

// All problems. openapi.json and docs/api.md list them too.
var (
	unknownNode  = problem{Type: "urn:gvbll:problem:unknown-node", Title: "The node is not in the graph", Status: http.StatusNotFound}
	knownNode    = problem{Type: "urn:gvbll:problem:known-node", Title: "The node is in the graph already", Status: http.StatusConflict}
	refusedEvent = problem{
		Type: "urn:gvbll:problem:refused-event", Title: "The event would be refused",
		Status: http.StatusUnprocessableEntity,
	}
	badParameter = problem{Type: "urn:gvbll:problem:bad-parameter", Title: "A parameter is invalid", Status: http.StatusBadRequest}
	badBody      = problem{Type: "urn:gvbll:problem:bad-body", Title: "The body cannot be read", Status: http.StatusBadRequest}
	tooLarge     = problem{Type: "urn:gvbll:problem:too-large", Title: "The body is too large", Status: http.StatusRequestEntityTooLarge}
	wrongMedia   = problem{
		Type:  "urn:gvbll:problem:unsupported-media-type",
		Title: "The media type of the body is not supported", Status: http.StatusUnsupportedMediaType,
	}
	noSuchPage  = problem{Type: "urn:gvbll:problem:not-found", Title: "There is nothing at this path", Status: http.StatusNotFound}
	wrongMethod = problem{
		Type: "urn:gvbll:problem:method-not-allowed", Title: "The method is not allowed here",
		Status: http.StatusMethodNotAllowed,
	}
	notReady = problem{
		Type: "urn:gvbll:problem:not-ready", Title: "The worker is not ready for this",
		Status: http.StatusServiceUnavailable,
	}
	notYet = problem{
		Type: "urn:gvbll:problem:not-yet", Title: "The prediction is not committed yet",
		Status: http.StatusGatewayTimeout,
	}
	busy = problem{Type: "urn:gvbll:problem:busy", Title: "Too many requests at once", Status: http.StatusServiceUnavailable}
)

// retryAfter is the number of seconds after which a client should repeat a request that
// failed with notReady or busy.
const retryAfter = 1

// because returns the problem with details of this occurrence.
func (p problem) because(detail string) *problem {
	p.Detail = detail
	return &p
}

// write sends the problem as the response.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error is the client's
}
