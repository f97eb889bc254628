package page

import (
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Window is a window that was stepped.
type Window struct {
	Outcome  *event.Outcome
	Cause    string        // what ended it: the name of a policy's rule
	Replayed bool          // from the ledger: at a start, or standing by
	Trial    *Trial        // that goes on after it, nil for none
	Took     time.Duration // to step it
	At       time.Time     // when it was stepped
}

// Stepped reports a window. Windows are reported in the order of their numbers.
func (s *Server) Stepped(w Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.step(w)
}

// Replaying reports that the first windows of the ledger came from a checkpoint, and that
// the rest of its windows will be replayed.
func (s *Server) Replaying(first, windows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.next, s.h.ledger = first, windows
}

// Expect reports how many events of the context will come before the first node to predict,
// where somebody knows: more than those that wait, while it is still being sent.
func (s *Server) Expect(events int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.expected = events
}

// Show reports the scores so far of all heads, that of the serving one first, and what the
// pool has learned, nil if no pool serves.
func (s *Server) Show(scores []pipeline.Summary, learned *pipeline.Pooled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.scores, s.h.pool = scores, learned
	s.h.version++
}

// Serves reports which model serves from now on. It must have the same classes as the
// one before.
func (s *Server) Serves(m *model.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.model = m
	if len(m.Classes) > len(*s.classes.Load()) {
		s.classes.Store(&m.Classes)
	}
	s.h.shadow, s.h.pool = shadow{}, nil
	s.h.version++
}

// ShowShadow reports the scores so far of the heads of the shadow model.
func (s *Server) ShowShadow(id string, scores []pipeline.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.shadow = shadow{id, scores}
}

// Committed reports the time of a commit.
func (s *Server) Committed(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.worker.commit = at
}

// Lag reports how many committed records of a topic are in no window yet.
func (s *Server) Lag(topic string, records, _ int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.worker.lag[topic] = records
}

// Owns reports that this worker owns the graph: it serves, and does not stand by.
func (s *Server) Owns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.h.worker.owner = true
	s.h.version++
}
