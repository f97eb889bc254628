package page

import (
	"sync"
	"sync/atomic"
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

// Past is what a server knows of the past. It is reported as it happens, by any goroutine.
type Past struct {
	// classes are the most that a model has had that served: all models' classes are the
	// first ones of these.
	classes atomic.Pointer[[]string]

	mu sync.Mutex // guards h
	h  history
}

// Stepped reports a window. Windows are reported in the order of their numbers.
func (p *Past) Stepped(w Window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.step(w)
}

// Replaying reports that the first windows of the ledger came from a checkpoint, and that
// the rest of its windows will be replayed.
func (p *Past) Replaying(first, windows int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.come.next, p.h.come.ledger = first, windows
}

// Expect reports how many events of the context will come before the first node to predict,
// where somebody knows: more than those that wait, while it is still being sent.
func (p *Past) Expect(events int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.come.expected = events
}

// Show reports the scores so far of all heads, that of the serving one first, what the
// pool has learned, nil if no pool serves, and the scores by the value of an attribute.
func (p *Past) Show(scores []pipeline.Summary, learned *pipeline.Pooled, by pipeline.Cohorts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.scores, p.h.pool, p.h.cohorts = scores, learned, cohortTable(by)
}

// Classes returns the classes of the model that serves, and perhaps of one before with more.
func (p *Past) Classes() []string { return *p.classes.Load() }

// Serves reports which model serves from now on. It must have the same classes as the
// one before.
func (p *Past) Serves(m *model.Model) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.model = m
	if len(m.Classes) > len(*p.classes.Load()) {
		p.classes.Store(&m.Classes)
	}
	p.h.shadow, p.h.pool = shadow{}, nil
}

// ShowShadow reports the scores so far of the heads of the shadow model.
func (p *Past) ShowShadow(id string, scores []pipeline.Summary) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.shadow = shadow{id, scores}
}

// Committed reports the time of a commit.
func (p *Past) Committed(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.worker.commit = at
}

// Lag reports how many committed records of a topic are in no window yet.
func (p *Past) Lag(topic string, records, _ int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.worker.lag[topic] = records
}

// Owns reports that this worker owns the graph: it serves, and does not stand by.
func (p *Past) Owns() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.h.worker.owner = true
}
