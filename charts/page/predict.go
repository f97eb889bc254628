package page

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// supposedValue is a prediction for a node that has not arrived.
type supposedValue struct {
	predictionValue
	Degree  int        `json:"degree"`
	Unknown []event.ID `json:"unknown_neighbours"`
}

// event reads the node event of a request.
func (s *Server) event(r *http.Request, decode func([]byte) (*event.Node, event.Reason, string)) (n *event.Node, body []byte, _ *problem) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, nil, wrongMedia.because("send Content-Type: application/json")
	}
	// The turn comes before the body, or as many bodies as connections could lie in
	// memory, half sent. It is another turn than the engine's, which a slow sender would
	// keep from those who only ask.
	done, p := wait(r.Context(), s.bodies)
	if p != nil {
		return nil, nil, p
	}
	defer done()
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, MaxPredictBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, nil, tooLarge.because(fmt.Sprintf("at most %d bytes are allowed", MaxPredictBody))
	case err != nil:
		return nil, nil, badBody.because("it ended early")
	}
	n, reason, detail := decode(body)
	if reason == "" && len(n.Neighbours) > maxNeighbours {
		reason, detail = event.TooManyNeighbours, fmt.Sprintf("%d neighbours, at most %d are allowed here",
			len(n.Neighbours), maxNeighbours)
	}
	if reason != "" {
		return nil, nil, refused(reason, detail)
	}
	return n, body, nil
}

// predict serves POST /v1/predict.
func (s *Server) predict(r *http.Request) (any, *problem) {
	n, _, p := s.event(r, s.cfg.Decode)
	if p != nil {
		return nil, p
	}
	var supposed *pipeline.Supposed
	var known bool
	var reason event.Reason
	var detail string
	if p := s.engine(r.Context(), func(e *pipeline.Engine) { supposed, known, reason, detail = e.Suppose(n) }); p != nil {
		return nil, p
	}
	switch {
	case reason != "":
		return nil, refused(reason, detail)
	case known:
		return nil, knownNode.because("GET /v1/nodes/{id} has its prediction; to ask about a new node, use an id that has not arrived")
	}
	return supposedValue{
		predictionValue: *opinionOf(&supposed.Opinion), Degree: supposed.Degree,
		Unknown: append([]event.ID{}, supposed.Unknown...),
	}, nil
}

// refused returns the problem of an event that would be refused.
func refused(reason event.Reason, detail string) *problem {
	p := refusedEvent.because(detail)
	p.Reason = string(reason)
	return p
}
