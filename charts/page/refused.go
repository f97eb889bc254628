package page

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Limits of the refused events that are kept and shown.
const (
	keptRefusals  = 64
	shownRefusals = 10
	maxDetail     = 240 // characters
)

// refusals are the events that were refused in the windows reported so far.
type refusals struct {
	byReason map[event.Reason]int
	latest   ring[refusalValue]
}

// refusedValue is the number of refused events by reason, and the latest of them.
type refusedValue struct {
	Events  int            `json:"events"`
	Reasons []reasonValue  `json:"reasons"` // those that occurred
	Latest  []refusalValue `json:"latest"`  // the newest first
}

type reasonValue struct {
	Reason event.Reason `json:"reason"`
	Events int          `json:"events"`
}

// refusalValue is one refused event: where its record is, and why.
type refusalValue struct {
	Window    int64        `json:"window"`
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Time      *time.Time   `json:"time"` // of the record; null if it has none
	Reason    event.Reason `json:"reason"`
	Detail    string       `json:"detail"`
}

// add adds a refused event. It keeps nothing of the record.
func (r *refusals) add(window int64, f *event.Refusal) {
	r.byReason[f.Reason]++
	v := refusalValue{
		Window: window, Topic: f.Origin.Topic, Partition: f.Origin.Partition, Offset: f.Origin.Offset,
		Reason: f.Reason, Detail: fmt.Sprintf("%.*s", maxDetail, f.Detail),
	}
	if f.Origin.Time > 0 {
		at := time.UnixMilli(f.Origin.Time).UTC()
		v.Time = &at
	}
	r.latest.add(v)
}

// events returns the number of refused events.
func (r *refusals) events() (n int) {
	for _, events := range r.byReason {
		n += events
	}
	return n
}

// value returns the counts and the last n events.
func (r *refusals) value(n int) refusedValue {
	v := refusedValue{Events: r.events(), Reasons: []reasonValue{}, Latest: r.latest.newest(n)}
	for _, reason := range event.Reasons() {
		if events := r.byReason[reason]; events > 0 {
			v.Reasons = append(v.Reasons, reasonValue{reason, events})
		}
	}
	return v
}

// refused serves GET /v1/refused.
func (s *Server) refused(*http.Request) (any, *problem) {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	return s.past.h.refused.value(keptRefusals), nil
}
