// Package shards is what only graphs with shards need of a worker, of an audit and of what is
// printed.
package shards

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	sharding "github.com/gvbll/gvbll/pipeline/shards"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/blocks"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	tasks "github.com/gvbll/gvbll/topics/shards"
	"github.com/gvbll/gvbll/topics/worker"
)

// Worker is a worker of a sharded graph with its page and its metrics. It may own several
// tasks or none; each tells its events from a goroutine of its own.
type Worker struct {
	board   *service.Board
	terms   worker.Config
	log     *slog.Logger
	cfg     pipeline.Config // without files: each shard has a store of its own
	state   flags.State
	model   *model.Model
	metrics *Metrics
	tasks   tasks.Tasks

	mu        sync.Mutex
	trainer   *trainerEngine // the last one that this worker had, nil for none
	levels    event.Levels   // of the graph, after the last window of a shard
	replaying map[int]bool   // by task
}

// New returns a worker of a graph of so many shards. It returns an error if the graph
// cannot be served with the model and the settings, or with flags of this worker.
func New(set service.Setup, g flags.Given, shards int) (*Worker, error) {
	for flag, given := range map[string]bool{"--shadow": len(set.Models) > 1, "--models": set.Folder != ""} {
		if given {
			return nil, flags.Usagef("%s: the graph %s has %d shards, and one model: leave it out (docs/sharding.md)", flag, set.Graph, shards)
		}
	}
	if err := g.Check(flags.NoEffect(true, fmt.Sprintf("no effect on the graph %s of %d shards, whose epochs have one set of settings: leave it out", set.Graph, shards), "rebase")); err != nil {
		return nil, err
	}
	if err := g.Check(flags.NoEffect(set.Config.Labels != serve.FirstStands, fmt.Sprintf("the graph %s has %d shards, in which the first label of a node stands: leave it out", set.Graph, shards), "labels")); err != nil {
		return nil, err
	}
	if set.Config.Embeddings {
		return nil, flags.Usagef("--output: the graph %s has %d shards, none of which has a node's whole embedding: leave out embedding (docs/sharding.md)", set.Graph, shards)
	}
	if set.State.Base != "" {
		return nil, flags.Usagef("--base: the graph %s has %d shards, which have no bases: leave it out, and keep ledger and inputs (docs/sharding.md)", set.Graph, shards)
	}
	m := set.Models[0]
	small := set.Config
	small.Reserve = 0
	if _, err := sharding.NewTrainer(m, small, shards); err != nil {
		return nil, flags.Usagef("the graph %s has %d shards: %w", set.Graph, shards, err)
	}
	if _, err := sharding.NewShard(m, small, 0, shards); err != nil {
		return nil, flags.Usagef("the graph %s has %d shards: %w", set.Graph, shards, err)
	}
	set.Config.Shards, set.Config.Labels = shards, serve.FirstStands
	s := &Worker{
		board: service.NewBoard(set), terms: service.Terms(set.Process, set.Names, set.Config, m), log: set.Process.Log,
		cfg: set.Config, state: set.State, model: m, metrics: NewMetrics(set.Web.Registry, shards), replaying: make(map[int]bool),
	}
	var err error
	if s.terms.Checkpoints, err = service.Checkpoints(set.State, set.Names, set.Config, m); err != nil {
		return nil, err
	}
	s.board.Page.Silent("the graph has several shards, and no worker has all of a node: 'gvbll tail' has its predictions")
	return s, nil
}

// Terms returns what a worker's configuration has of the settings, the model and the state.
func (s *Worker) Terms() worker.Config { return s.terms }

// Close does nothing: each shard removes its own files.
func (s *Worker) Close() {}

// Run runs the tasks that elections give to this worker, until the context ends. cfg begins as
// Terms.
func (s *Worker) Run(ctx context.Context, c *kafka.Client, cfg worker.Config) error {
	s.board.Watch(c, s.unready)
	s.board.Stream.Cuts(cfg.Policy)
	s.board.Web.Ready.Store(true)
	cfg.About, cfg.AtRisk = s.board.About(), s.board.Stream.AtRisk
	cfg.Models.Scores = func(out *event.Outcome) *ledger.Scores { return service.LedgerScores(out, s.model.Classes, "") }
	showing, stop := context.WithCancel(ctx)
	defer stop()
	go s.showTasks(showing)
	if err := tasks.Run(ctx, c, tasks.Config{
		Config: cfg, Lag: int64(s.cfg.LearnLag),
		NewShard: s.newShard, NewTrainer: s.newTrainer, RestoreShard: s.restoreShard, RestoreTrainer: s.restoreTrainer,
		TaskEvents: func(task int) func(replay.Event) { return func(e replay.Event) { s.on(task, e) } }, Waited: func(_, from int, d time.Duration) { s.metrics.addWait(from, d) }, Tasks: &s.tasks,
	}); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

func (s *Worker) newShard(p, shards int) (tasks.Shard, error) {
	cfg, release, err := service.WithFiles(s.cfg, s.state, s.log)
	if err != nil {
		return nil, err
	}
	shard, err := sharding.NewShard(s.model, cfg, p, shards)
	if err != nil {
		release()
		return nil, err
	}
	return newShardEngine(shard, shards, release), nil
}

func (s *Worker) restoreShard(p, shards int, r io.ReaderAt, size int64, folder string) (tasks.Shard, map[string]string, error) {
	cfg, release, err := service.WithFiles(s.cfg, s.state, s.log)
	if err != nil {
		return nil, nil, err
	}
	if files, ok := cfg.Blocks.(*blocks.Store); ok {
		files.From(folder)
	}
	shard, meta, err := sharding.RestoreShard(s.model, cfg, p, shards, r, size)
	if err != nil {
		release()
		return nil, nil, err
	}
	return newShardEngine(shard, shards, release), meta, nil
}

func (s *Worker) newTrainer(shards int) (tasks.Trainer, error) {
	t, err := sharding.NewTrainer(s.model, s.cfg, shards)
	if err != nil {
		return nil, err
	}
	return s.learns(t), nil
}

func (s *Worker) restoreTrainer(shards int, r io.ReaderAt, size int64, _ string) (tasks.Trainer, map[string]string, error) {
	t, meta, err := sharding.RestoreTrainer(s.model, s.cfg, shards, r, size)
	if err != nil {
		return nil, nil, err
	}
	return s.learns(t), meta, nil
}

// learns takes note of the trainer, whose scores are shown.
func (s *Worker) learns(t *sharding.Trainer) *trainerEngine {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trainer = &trainerEngine{Trainer: t}
	return s.trainer
}

// on shows what happens in a task.
func (s *Worker) on(task int, e replay.Event) {
	tasks.ObserveTask(s.board.Stream, task, e)
	switch e := e.(type) {
	case replay.Replaying:
		s.replays(task, true)
	case replay.Recovered:
		s.replays(task, false)
	case replay.Stepped:
		s.stepped(task, e)
	case replay.Committed:
		s.board.Page.Committed(time.Now())
	case replay.TookOver:
		if task == 0 {
			s.board.Page.Owns()
		}
	case replay.Lag:
		if task == 0 {
			s.board.Page.Lag(e.Topic, e.Records, e.Withheld)
		}
	}
}

func (s *Worker) replays(task int, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaying[task] = on
}

// stepped counts and shows a window of a task. Shards have its predictions, the trainer has its
// labels and scores.
func (s *Worker) stepped(task int, w replay.Stepped) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if task > 0 {
		s.levels = w.Outcome.Levels
	}
	if w.Replayed {
		return
	}
	s.board.Metrics.Observe(w.Outcome)
	if task > 0 {
		s.board.Metrics.ShowLevels(w.Outcome)
	}
	s.board.Page.Stepped(page.Window{Outcome: w.Outcome, Cause: w.Cause, Took: w.Took, At: time.Now()})
	if task == 0 && s.board.Due() {
		out := *w.Outcome
		out.Levels = s.levels
		s.board.Show(&out, s.trainer) // which called this
	}
}

// showTasks shows which tasks this worker has, until the context ends.
func (s *Worker) showTasks(ctx context.Context) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		of := s.tasks.States()
		s.metrics.show(of)
		s.board.Stream.Owns(slices.ContainsFunc(of, func(t tasks.TaskState) bool { return t.Task == 0 && t.Owner }))
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// missingAfter is how long a task waits for others before the worker says that it is not ready.
const missingAfter = 3 * time.Second

// unready says in one line what keeps this worker from its work, "" for nothing: trouble with
// Kafka, a ledger that is replayed, or shards that nobody steps.
func (s *Worker) unready(trouble string) string {
	states := s.tasks.States()
	if trouble != "" || len(states) == 0 {
		return cmp.Or(trouble, "waiting for an election")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var what []string
	for _, t := range states {
		switch m := t.Missing; {
		case s.replaying[t.Task]:
			what = append(what, fmt.Sprintf("%s replays the ledger", topics.TaskName(t.Task)))
		case m != nil && time.Since(m.Since) > missingAfter:
			what = append(what, fmt.Sprintf("%s waits for %v", topics.TaskName(t.Task), m))
		}
	}
	return strings.Join(what, "; ")
}
