package page

import (
	"fmt"
	"runtime"
	"time"
)

// Flag is a flag of the command that runs, with the value that is in force.
type Flag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // where the value was given; "" for the default
}

// statusValue is what runs here.
type statusValue struct {
	Graph    string         `json:"graph"`
	State    string         `json:"state"`
	Version  string         `json:"version"`
	Go       string         `json:"go"`
	Started  time.Time      `json:"started"`
	Progress *progressValue `json:"progress,omitempty"`
	Trial    *Trial         `json:"trial,omitempty"`
	Flags    []Flag         `json:"flags"`
}

// statusValue does not ask the engine, so that there is one while the ledger is replayed, too.
func (s *Server) statusValue() *statusValue {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	return &statusValue{
		Graph: s.cfg.Graph, State: s.state(), Version: s.cfg.Version,
		Go:      fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
		Started: s.started.UTC().Truncate(time.Second), Progress: s.progress(), Trial: s.past.h.trial, Flags: s.cfg.Flags,
	}
}

// state says what this worker does. The caller must hold s.mu.
func (s *Server) state() string {
	trouble := s.trouble.Load()
	switch {
	case trouble != nil && (*trouble)() != "":
		return "waiting for Kafka"
	case s.ask.Load() == nil:
		return "replaying the ledger"
	case !s.past.h.worker.owner:
		return "standing by"
	case s.progress() != nil:
		return "loading"
	}
	return "serving"
}

// progressValue is how far something has come that lasts.
type progressValue struct {
	Of    string `json:"of"` // windows or events
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
}

func (p progressValue) String() string {
	if p.Of == "windows" {
		return fmt.Sprintf("%d of %d windows of the ledger are replayed", p.Done, p.Total)
	}
	return fmt.Sprintf("%d of %d events are loaded, and no node to predict has come yet", p.Done, p.Total)
}

// progress returns the progress of the ledger's replay; or, before the first prediction,
// that of the events that came before it, which are usually the graph's context. It is nil
// otherwise. The caller must hold s.mu.
func (s *Server) progress() *progressValue {
	h := &s.past.h
	if s.ask.Load() == nil {
		if h.come.ledger == 0 {
			return nil // what there is to replay is not known yet
		}
		return &progressValue{"windows", h.come.next, max(h.come.ledger, h.come.next)}
	}
	if total := max(h.come.events+h.waiting(), h.come.expected); h.worker.owner && h.served.count == 0 && total > h.come.events {
		return &progressValue{"events", h.come.events, total}
	}
	return nil
}
