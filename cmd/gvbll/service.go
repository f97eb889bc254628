package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/worker"
)

// service is a worker that has a whole graph: an engine with its page and its metrics. What happens
// in the worker updates both.
type service struct {
	board  *board
	engine *lockedEngine // the worker may replace it on recovery and after forgetting
	terms  worker.Config
	// release removes files of the engine.
	release func()
	events  []func(worker.Event) // called after the service's own

	last      *event.Outcome // of the last window, nil before the first
	recovered bool           // the start's replay is over
}

// setup is what a worker of a graph begins with.
type setup struct {
	process flags.Process
	graph   string      // its prefix
	inForce []page.Flag // flags of the command, for people to look at
	web     *webServer
	names   topics.Names
	state   flags.State
	cfg     pipeline.Config
	models  []*model.Model // the one to serve, and perhaps a shadow
	folder  modelFolder    // of further models, "" for none
}

// newService returns the service of a graph, with the models that its ledger names.
func newService(ctx context.Context, c *kafka.Client, set setup) (*service, error) {
	models := set.models
	var err error
	if set.folder != "" {
		if models, err = set.folder.ofLedger(ctx, c, set.names, models); err != nil {
			return nil, err
		}
	}
	cfg, release, err := withFiles(set.cfg, set.state, set.process.Log)
	if err != nil {
		return nil, err
	}
	pair, err := pipeline.NewPair(cfg, models...)
	if err != nil {
		release()
		return nil, err
	}
	set.cfg, set.models = pair.Serving().Config(), models
	s := &service{board: newBoard(set), engine: &lockedEngine{pair: pair}, release: release, terms: terms(set.process, set.names, cfg, models...)}
	s.terms.Checkpoints = checkpoints(set.state, cfg, models...)
	if set.folder != "" {
		s.terms.Models.Open = func(id string) (worker.Engine, error) { return set.folder.beside(id, s.engine.serving().Model(), cfg) }
	}
	return s, nil
}

// Terms returns what a worker's configuration has of the settings, the models and the state.
func (s *service) Terms() worker.Config { return s.terms }

// Close removes the files of predictions that wait.
func (s *service) Close() { s.release() }

// Run drives the engine until the context ends. cfg begins as Terms; Run adds what the board needs.
func (s *service) Run(ctx context.Context, c *kafka.Client, cfg worker.Config) error {
	s.board.web.waitsFor(func() string { return waitsForKafka(c) })
	cfg.About, cfg.AtRisk = s.board.about(), s.board.stream.AtRisk
	settings := s.engine.serving().Config()
	cfg.Models.Fresh = func() (worker.Engine, error) { return fresh(settings, s.board.models...)() } // those of now
	cfg.Models.ClassesOf = s.classesOf
	cfg.Models.Scores = func(out *event.Outcome) *ledger.Scores { return ledgerScores(out, s.board.named.Classes) }
	cfg.Events = worker.Join(append([]func(worker.Event){s.board.stream.Observe, s.on}, s.events...)...)
	if err := worker.Run(ctx, c, s.engine, cfg); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// waitsForKafka says what of Kafka a client waits for, "" for nothing.
func waitsForKafka(c *kafka.Client) string {
	if what := c.Trouble(); what != "" {
		return "waiting for Kafka: " + what
	}
	return ""
}

// on shows what happens in the worker, one event at a time.
func (s *service) on(e worker.Event) {
	page := s.board.page
	switch e := e.(type) {
	case worker.Replaying:
		page.Replaying(e.Checkpoint, e.Windows)
	case worker.Recovered:
		s.onRecovered(e)
	case worker.TookOver:
		s.board.serves(s.engine.serving().Model())
		page.Owns()
	case worker.Stepped:
		s.onStepped(e)
	case worker.Committed:
		s.show()
		page.Committed(time.Now())
	case worker.Forgotten:
		s.onForgot(e)
	case worker.Loaded:
		s.onLoaded()
	case worker.Lag:
		page.Lag(e.Topic, e.Records, e.Withheld)
	}
}

func (s *service) onRecovered(r worker.Recovered) {
	s.engine, s.recovered = r.Engine.(*lockedEngine), true
	s.show()
	s.board.page.Attach(s.engine.ask)
	s.board.web.ready.Store(true)
}

func (s *service) onStepped(w worker.Stepped) {
	s.last = w.Outcome
	s.board.serves(s.engine.serving().Model())
	shadow := ""
	if w.Outcome.Shadow != nil {
		shadow = w.Outcome.Shadow.Model
	}
	s.board.page.Stepped(page.Window{Outcome: w.Outcome, Cause: w.Cause, Replayed: w.Replayed, Trial: trialOf(w.Trial, shadow), Took: w.Took, At: time.Now()})
	switch {
	case !w.Replayed:
		s.board.metrics.Observe(w.Outcome)
	case s.recovered && s.board.due(): // a standby, which never commits, shows its scores here
		s.board.page.Show(s.engine.serving().Summaries(), s.engine.serving().Pooled())
	}
}

func (s *service) onLoaded() {
	s.board.models = []*model.Model{s.engine.serving().Model(), s.engine.shadow().Model()}
	s.board.named = nil
	s.board.serves(s.engine.serving().Model())
}

// classesOf returns the classes of one of the models.
func (s *service) classesOf(id string) []string {
	for _, m := range s.board.models {
		if m.ID == id {
			return m.Classes
		}
	}
	return nil
}

func (s *service) onForgot(f worker.Forgotten) {
	s.engine = f.Engine.(*lockedEngine)
	if s.recovered {
		s.board.page.Attach(s.engine.ask)
	}
}

// show updates page and metrics from the engine's state.
func (s *service) show() {
	s.board.serves(s.engine.serving().Model())
	s.board.show(s.last, s.engine.serving())
	if shadow := s.engine.shadow(); shadow != nil {
		scores := shadow.Summaries()
		s.board.page.ShowShadow(shadow.Model().ID, scores)
		s.board.metrics.ShowShadow(shadow.Model().ID, scores)
	}
}
