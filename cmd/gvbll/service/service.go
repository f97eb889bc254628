// Package service is a worker with its page, its metrics and its files.
package service

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/cmd/gvbll/scores"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// service is a worker that has a whole graph: an engine with its page and its metrics. What happens
// in the worker updates both.
type service struct {
	Board  *board
	Engine *lockedEngine // the worker may replace it on recovery and after forgetting
	terms  worker.Config
	// release removes files of the engine.
	release func()
	desk    *desk                // nil for none
	Events  []func(replay.Event) // called after the service's own

	last      *event.Outcome // of the last window, nil before the first
	recovered bool           // the start's replay is over
}

// Setup is what a worker of a graph begins with.
type Setup struct {
	Process flags.Process
	Graph   string      // its prefix
	InForce []page.Flag // flags of the command, for people to look at
	Web     *Web
	Names   topics.Names
	State   flags.State
	Config  pipeline.Config
	Models  []*model.Model // the one to serve, and perhaps a shadow
	Folder  *ModelFolder   // of further models, nil for none
	Rebase  bool           // other settings than the ledger's begin an epoch
	Decide  bool           // POST /v1/decide sends events into the stream
}

// New returns the service of a graph, with the models that its ledger names.
func New(ctx context.Context, c *kafka.Client, set Setup) (*service, error) {
	newest, err := ledger.Newest(ctx, c, set.Names.LedgerAt())
	if err != nil {
		return nil, err
	}
	models := set.Models
	if set.Folder != nil {
		if models, err = set.Folder.ofLedger(set.Names, newest, models); err != nil {
			return nil, err
		}
	}
	cfg, err := AsWritten(ctx, c, set.Process, set.Names, newest, set.Config, set.Rebase, models...)
	if err != nil {
		return nil, err
	}
	work, cfg, release, err := Prepare(set.Process, set.Names, cfg, set.State, models...)
	if err != nil {
		return nil, err
	}
	pair, err := pipeline.NewPair(cfg, models...)
	if err != nil {
		release()
		return nil, err
	}
	work.Newest = newest
	set.Config, set.Models = pair.Serving().Config(), models
	s := &service{Board: newBoard(set), Engine: &lockedEngine{pair: pair}, release: release, terms: work}
	if set.Decide {
		if s.desk, err = newDesk(ctx, c, set, s.Board.Page.Past().Classes); err != nil {
			release()
			return nil, err
		}
		s.Board.Page.Decides(s.desk)
	}
	set.Web.show(s.Board.Page) // complete: until then whoever asks is told to come again
	if set.Folder != nil {
		s.terms.Models.Open = func(id string) (func() (replay.Engine, error), error) {
			return set.Folder.beside(id, s.Engine.Serving().Model(), cfg)
		}
	}
	return s, nil
}

// Terms returns what a worker's configuration has of the settings, the models and the state.
func (s *service) Terms() worker.Config { return s.terms }

// Close removes the files of predictions that wait.
func (s *service) Close() { s.release() }

// Run drives the engine until the context ends. cfg begins as Terms; Run adds what the board needs.
func (s *service) Run(ctx context.Context, c *kafka.Client, cfg worker.Config) error {
	if err := s.run(ctx, c, cfg, func(cfg worker.Config) error { return worker.Run(ctx, c, s.Engine, cfg) }); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// run calls a function that runs a worker, with its configuration, which has what the board needs.
func (s *service) run(ctx context.Context, c *kafka.Client, cfg worker.Config, work func(worker.Config) error) error {
	if s.desk != nil {
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.desk.run(ctx, cfg.Publishing.CommitInterval)
		}()
		defer func() {
			stop()
			<-ended
		}()
	}
	return work(s.watched(c, cfg))
}

// watched returns the configuration of a worker with what the board needs.
func (s *service) watched(c *kafka.Client, cfg worker.Config) worker.Config {
	s.Board.watch(c)
	s.Board.Stream.Cuts(cfg.Policy)
	cfg.About, cfg.AtRisk, cfg.Needed = about(s.Board.version, s.Board.web, s.Board.models), s.Board.Stream.AtRisk, s.Board.Stream.Needed
	if b := cfg.Checkpoints.Bases; b.Store != nil {
		s.Board.Stream.BasesEvery(b.Every)
	}
	settings := s.Engine.Serving().Config()
	cfg.Models.Fresh = func() (replay.Engine, error) { return fresh(settings, s.Board.models...)() } // those of now
	cfg.Models.ClassesOf = s.classesOf
	cfg.Models.Attributes = func(out *event.Outcome) []ledger.Attribute { return scores.AttributesOf(out, s.Board.named) }
	cfg.Models.Scores = func(out *event.Outcome) *ledger.Scores {
		return scores.Of(out, s.Board.named, settings.LabelRates)
	}
	cfg.Events = replay.Join(append([]func(replay.Event){s.Board.Stream.Observe, s.on}, s.Events...)...)
	return cfg
}

// on shows what happens in the worker, one event at a time.
func (s *service) on(e replay.Event) {
	if w, is := e.(replay.Waiting); is {
		s.Board.web.WaitFor(w.For)
		return
	}
	s.Board.web.WaitFor("")
	page := s.Board.Page.Past()
	switch e := e.(type) {
	case replay.Replaying:
		page.Replaying(e.Checkpoint, e.Windows)
	case replay.Recovered:
		s.onRecovered(e)
	case replay.TookOver:
		s.Board.serves(s.Engine.Serving().Model())
		s.commits(e.Windows)
		page.Owns()
	case replay.Stepped:
		s.onStepped(e)
	case replay.Following:
		s.commits(math.MaxInt64) // the ledger has only such windows
	case replay.Committed:
		s.show()
		s.commits(e.Last + 1)
		page.Committed(time.Now())
	case replay.Forgotten:
		s.onForgot(e)
	case replay.Loaded:
		s.onLoaded()
	case replay.Lag:
		page.Lag(e.Topic, e.Records, e.Withheld)
	}
}

// commits tells the desk how many windows are committed.
func (s *service) commits(windows int64) {
	if s.desk != nil {
		s.desk.committed.Store(windows)
	}
}

func (s *service) onRecovered(r replay.Recovered) {
	s.Engine, s.recovered = r.Engine.(*lockedEngine), true
	s.show()
	s.Board.Page.Attach(s.Engine.ask)
	s.Board.web.Ready.Store(true)
}

func (s *service) onStepped(w replay.Stepped) {
	s.last = w.Outcome
	s.Board.serves(s.Engine.Serving().Model())
	shadow := ""
	if w.Outcome.Shadow != nil {
		shadow = w.Outcome.Shadow.Model
	}
	trial := look.TrialOf(w.Trial, shadow)
	s.Board.Page.Past().Stepped(page.Window{
		Outcome: w.Outcome, Cause: w.Cause, Replayed: w.Replayed, Trial: trial,
		Took: w.Took, At: time.Now(),
	})
	if s.Board.Metrics.Trial("", 0, 0, 0); trial != nil {
		s.Board.Metrics.Trial(trial.Model, trial.Labels, trial.After, trial.Lead)
	}
	switch {
	case !w.Replayed:
		s.Board.Metrics.Observe(w.Outcome)
	case s.recovered && s.Board.due(): // a standby, which never commits, shows its scores here
		e := s.Engine.Serving()
		s.Board.Page.Past().Show(e.Summaries(), e.Pooled(), e.Cohorts())
	}
}

func (s *service) onLoaded() {
	s.Board.models = []*model.Model{s.Engine.Serving().Model(), s.Engine.shadow().Model()}
	s.Board.named = nil
	s.Board.serves(s.Engine.Serving().Model())
}

// classesOf returns the classes of one of the models.
func (s *service) classesOf(id string) []string {
	for _, m := range s.Board.models {
		if m.ID == id {
			return m.Classes
		}
	}
	return nil
}

func (s *service) onForgot(f replay.Forgotten) {
	s.Engine = f.Engine.(*lockedEngine)
	if s.recovered {
		s.Board.Page.Attach(s.Engine.ask)
	}
}

// show updates page and metrics from the engine's state.
func (s *service) show() {
	s.Board.serves(s.Engine.Serving().Model())
	s.Board.show(s.last, s.Engine.Serving())
	if shadow := s.Engine.shadow(); shadow != nil {
		scores := shadow.Summaries()
		s.Board.Page.Past().ShowShadow(shadow.Model().ID, scores)
		s.Board.Metrics.ShowShadow(shadow.Model().ID, scores)
	}
}
