package page

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// DecidePath is where events are sent into the stream and answered with what was committed.
const DecidePath = "/v1/decide"

// Desk sends events into the stream, and finds their predictions there. Many goroutines use it at once.
type Desk interface {
	// Decode decodes an event as the nodes topic has it, see Config.Decode.
	Decode(body []byte) (n *event.Node, reason event.Reason, detail string)
	// Decide returns the first prediction of a node, once it is committed. Unless the node is known to
	// be in the graph, whose windows are so many, its event is sent before.
	Decide(ctx context.Context, id event.ID, body []byte, known bool, windows int64) (Decision, error)
}

// Decision is a committed prediction, and where it is.
type Decision struct {
	Prediction json.RawMessage `json:"prediction"` // as JSON in the topic, docs/wire-format.md
	Topic      string          `json:"topic"`
	Partition  int32           `json:"partition"`
	Offset     int64           `json:"offset"`
}

// Errors of a Desk.
var (
	ErrBusy = errors.New("too many calls wait for their predictions: try again")
	ErrOld  = errors.New("the node came more than ten minutes ago: GET /v1/nodes/{id} has what was served")
)

// The time that a call waits for its prediction.
const (
	defaultWait = 5 * time.Second
	longestWait = 20 * time.Second
)

// Decides lets the server answer requests to DecidePath.
func (s *Server) Decides(desk Desk) { s.desk.Store(&desk) }

// decide serves POST /v1/decide.
func (s *Server) decide(r *http.Request) (any, *problem) {
	desk := s.desk.Load()
	if desk == nil {
		return nil, noSuchPage.because("start 'gvbll work' with --decide to have events sent into the stream here")
	}
	within := defaultWait
	if text := r.URL.Query().Get("wait"); text != "" {
		var err error
		if within, err = time.ParseDuration(text); err != nil || within <= 0 || within > longestWait {
			return nil, badParameter.because("wait: give a duration such as 500ms, up to " + longestWait.String())
		}
	}
	ctx, stop := context.WithTimeout(r.Context(), within)
	defer stop()
	n, body, p := s.event(r, (*desk).Decode)
	if p != nil {
		return nil, p
	}
	var known bool
	var windows int64
	var reason event.Reason
	var detail string
	if p := s.engine(ctx, func(e *pipeline.Engine) { _, known, reason, detail = e.Suppose(n); windows = e.Next() }); p != nil {
		return nil, p
	}
	if reason != "" && reason != event.ImpossibleCommand { // an edge that no what-if can have may come
		return nil, refused(reason, detail)
	}
	d, err := (*desk).Decide(ctx, n.ID, body, known, windows)
	switch {
	case errors.Is(err, ErrBusy):
		return nil, busy.because(err.Error())
	case errors.Is(err, ErrOld):
		return nil, knownNode.because(err.Error())
	case err != nil:
		return nil, notYet.because(err.Error())
	}
	return d, nil
}
