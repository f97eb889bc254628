// Package shards runs the tasks of a sharded graph: a sequencer that writes what is in each window,
// with a trainer that learns the labels, and shards, each a worker of its own part of the ledger.
// Everything in topics that exists for shards alone is here and below. They are frozen: see ADR 25.
package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/shards/exchange"
	"github.com/gvbll/gvbll/topics/worker"
)

// A sharded graph has tasks: task 0 is the sequencer, tasks 1 to P are the shards. A shard is a worker
// on a partition of the ledger of its own, whose windows a sequencer has cut and whose engine is a
// [share]. The sequencer cuts the windows and learns the labels that the shards have joined, see sequencer.
//
// The workers of the graph are members of one group, which gives each task an owner, and to
// those without a task one to stand by for. A worker runs its tasks side by side: they know of
// each other no more than if they were on different machines.

// Config configures a worker of a sharded graph.
type Config struct {
	// Config is that of every task. Task is set for each, and Events go to TaskEvents.
	// Rebase, Fresh, Open and Room have no effect: all epochs of a sharded graph have the same
	// terms, and of the commands only those to forget nodes are obeyed. In Checkpoints.Dir each task has a folder; Checkpoints.Restore is not used.
	worker.Config
	// Lag is after how many windows labels are learned: in window w the heads have learned the
	// labels up to window w-1-Lag.
	Lag int64
	// Depth is how many windows a sequencer may be ahead of the slowest shard; zero means 8.
	Depth int64

	// NewShard returns shard p of P, from 0, at window 0, and NewTrainer the trainer.
	NewShard   func(p, shards int) (Shard, error)
	NewTrainer func(shards int) (Trainer, error)
	// RestoreShard and RestoreTrainer return them from a snapshot, and its meta, see
	// [replay.Checkpoints.Restore].
	RestoreShard   func(p, shards int, r io.ReaderAt, size int64, folder string) (Shard, map[string]string, error)
	RestoreTrainer func(shards int, r io.ReaderAt, size int64, folder string) (Trainer, map[string]string, error)

	// TaskEvents, if not nil, returns what is called when something happens in a task. Events of
	// one task come one at a time, those of each from other goroutines. The sequencer steps windows when
	// it learns them.
	TaskEvents func(task int) func(replay.Event)
	// Waited, if not nil, is called when a task has waited for another in the exchange. It may
	// be called from several goroutines.
	Waited func(task, from int, d time.Duration)
	// Tasks, if not nil, shows what the worker does, while it runs.
	Tasks *Tasks

	shards int // P, by the ledger's partitions
}

// defaultDepth keeps the shards busy while one of them is a few windows behind.
const defaultDepth = 8

// finishFor is how long after the end of the worker's context a shard may wait for others to
// finish its window. Without that, no checkpoint could be written at the end.
const finishFor = 2 * time.Second

// waited returns the hook of a task's end of the exchange.
func (cfg *Config) waited(task int) func(from int, d time.Duration) {
	return func(from int, d time.Duration) {
		if cfg.Waited != nil {
			cfg.Waited(task, from, d)
		}
	}
}

// config returns the configuration of a task.
func (cfg *Config) config(task int) worker.Config {
	c := cfg.Config
	c.Terms.Partition = task
	c.Logger = c.Logger.With("task", topics.TaskName(task))
	c.Models.Fresh, c.Models.Open, c.Models.Room, c.Rebase = nil, nil, nil, false
	if c.Checkpoints.Dir != "" {
		c.Checkpoints.Dir = filepath.Join(c.Checkpoints.Dir, "task-"+strconv.Itoa(task))
	}
	c.Events = nil
	if cfg.TaskEvents != nil {
		c.Events = cfg.TaskEvents(task)
	}
	return c
}

// Tasks shows the tasks of a running worker. Its methods may be called from any goroutine.
type Tasks struct {
	states atomic.Pointer[func() []TaskState]
}

// TaskState is what a worker does with a task.
type TaskState struct {
	Task    int // 0 is the sequencer, 1 to P are the shards
	Owner   bool
	Windows int64             // that its state has
	Missing *exchange.Missing // what it waits for from others, nil for nothing
}

// States returns the tasks that the worker owns or stands by for, by number. It is empty before
// the first election.
func (t *Tasks) States() []TaskState {
	if states := t.states.Load(); states != nil {
		return (*states)()
	}
	return nil
}

// Run runs a worker of a sharded graph until the context ends, and then returns nil. If it
// ends for any other reason it returns an error of one line.
func Run(ctx context.Context, c *kafka.Client, cfg Config) error {
	cfg.SetDefaults()
	cfg.Depth = cmp.Or(cfg.Depth, defaultDepth)
	err := cfg.checkTopics(ctx, c)
	if err == nil {
		r := &runner{cfg: &cfg, client: c, ended: make(chan *running), again: make(chan int), close: make(chan struct{}), caughtUp: make(chan int)}
		err = r.run(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// checkTopics returns an error unless the topics are those of a sharded graph, and sets how many
// shards it has.
func (cfg *Config) checkTopics(ctx context.Context, c *kafka.Client) (err error) {
	n := cfg.Terms.Names
	if cfg.shards, err = topics.Shards(ctx, c, n); err != nil {
		return err
	}
	missing, err := topics.Missing(ctx, c, n)
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return fmt.Errorf("missing topics %v: run 'gvbll topics --create'", missing)
	case cfg.shards == 0:
		return fmt.Errorf("ledger %s has one partition: it is of a graph without shards", n.Ledger)
	case cfg.BeginAgain:
		return nil
	}
	return topics.CheckLedger(ctx, c, n)
}

// runner runs the tasks that elections give to this worker.
type runner struct {
	cfg    *Config
	client *kafka.Client
	member *kafka.Membership

	tasks    atomic.Pointer[map[int]*running] // that run, see all
	kept     []atomic.Int64                   // by task, the windows in the newest checkpoint; 0 for none
	since    atomic.Int64                     // window that began the epoch, as far as a task has met it
	assigned kafka.Election                   // the newest
	retry    map[int]bool                     // tasks that are to be started again
	ended    chan *running
	again    chan int      // a task that is to be started again
	caughtUp chan int      // a task that stands by and has reached the end
	close    chan struct{} // closed when the worker ends
}

// all returns the tasks that run. The election reads them from another goroutine.
func (r *runner) all() map[int]*running {
	if m := r.tasks.Load(); m != nil {
		return *m
	}
	return nil
}

// set replaces the tasks that run by others.
func (r *runner) set(change func(map[int]*running)) {
	m := make(map[int]*running)
	maps.Copy(m, r.all())
	change(m)
	r.tasks.Store(&m)
}

// running is a task that runs: the sequencer, or a shard. It is its own seat in the elections.
type running struct {
	task    int
	loop    taskLoop
	stop    context.CancelCauseFunc
	elected chan kafka.Election
	left    chan struct{} // closed when it has given up the task, or has ended
	leaving atomic.Bool
	caught  atomic.Bool   // it has reached the end
	done    chan struct{} // closed when it has ended
	err     error         // why; read after done is closed
}

// taskLoop is the loop of a task.
type taskLoop interface {
	run(ctx context.Context) error
	// standing and missing may be called from other goroutines.
	standing() kafka.Standing
	missing() *exchange.Missing
}

// Elected implements seat.
func (t *running) Elected() <-chan kafka.Election { return t.elected }

// Leave implements seat.
func (t *running) Leave() {
	if t.leaving.CompareAndSwap(false, true) {
		close(t.left)
	}
}

// tell delivers the outcome of an election. Only the newest counts.
func (t *running) tell(e kafka.Election) {
	select {
	case <-t.elected:
	default:
	}
	t.elected <- e
}

func (r *runner) run(ctx context.Context) (err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go topics.WatchRisks(watching, r.client, r.cfg.Terms.Names, time.Hour, r.cfg.Logger, nil, r.cfg.AtRisk)
	r.kept, r.retry = make([]atomic.Int64, r.cfg.shards+1), make(map[int]bool)
	for task := range r.kept {
		r.noteKept(task)
	}
	if t := r.cfg.Tasks; t != nil {
		states := r.states
		t.states.Store(&states)
	}
	r.member, err = r.client.Join(kafka.MembershipConfig{
		Group: r.cfg.Terms.Names.Ledger, Topic: r.cfg.Terms.Names.Ledger, Tasks: r.cfg.shards + 1, Followers: r.cfg.Terms.Names.Exchange,
		Session: r.cfg.Session, About: r.cfg.About, Standings: r.standings,
		Divide: func(members [][]kafka.Standing) []kafka.Election {
			return balance(members, r.cfg.shards+1, r.cfg.Depth)
		},
	})
	if err != nil {
		return err
	}
	defer r.member.Leave()
	settled := r.newSettling()
	for err == nil {
		select {
		case e := <-r.member.Elected():
			if err = e.Err; err != nil {
				break
			}
			r.assigned = e
			if settled.note(); settled.over {
				r.assign(ctx)
				r.relieve()
			}
		case <-settled.timer.C:
			settled.over = true
			r.assign(ctx)
			r.relieve()
		case t := <-r.ended:
			err = r.end(ctx, t)
		case task := <-r.again:
			delete(r.retry, task)
			r.assign(ctx)
		case task := <-r.caughtUp:
			if r.relieves(task) {
				r.member.Rejoin()
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return r.finish(err)
}

// settling is the beginning of a worker, while which it starts no task: others that begin with it
// may have the checkpoints of the tasks that it is given first. It is over when there was no
// election for a while, as long as that takes no longer than a session.
type settling struct {
	quiet, most time.Duration
	began       time.Time // of the first election, zero before it
	timer       *time.Timer
	over        bool
}

func (r *runner) newSettling() *settling {
	session := cmp.Or(r.cfg.Session, kafka.DefaultSession)
	s := &settling{quiet: session / 5, most: session, timer: time.NewTimer(0)}
	s.timer.Stop()
	return s
}

// note takes note of an election.
func (s *settling) note() {
	if s.over {
		return
	}
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.timer.Reset(min(s.quiet, time.Until(s.began.Add(s.most))))
}

// finish ends the tasks, and leaves the group once all have given up theirs.
func (r *runner) finish(err error) error {
	close(r.close)
	tasks := r.all()
	for task, t := range tasks {
		if task > 0 {
			t.stop(err)
		}
	}
	for task, t := range tasks {
		if task > 0 {
			<-t.left
		}
	}
	if t := tasks[0]; t != nil { // the shards needed it to finish their windows
		t.stop(err)
		<-t.left
	}
	r.member.Leave() // others can take over while the last checkpoints are written
	for _, t := range tasks {
		<-t.done
		if errors.Is(err, context.Canceled) && !t.lost() {
			err = fmt.Errorf("%s: %w", topics.TaskName(t.task), t.err)
		}
	}
	return err
}

// lost reports whether a task that is done has ended because it was taken away, the worker ends,
// or an epoch began.
func (t *running) lost() bool {
	var began *epochError
	return t.err == nil || errors.Is(t.err, publish.ErrOwned) || errors.Is(t.err, context.Canceled) || errors.As(t.err, &began)
}

// assign starts the tasks that the newest election has given to this worker, and ends those that
// it has taken away.
func (r *runner) assign(ctx context.Context) {
	tasks := r.all()
	for task, t := range tasks {
		if !r.wants(task) {
			t.stop(publish.ErrOwned)
		} else {
			t.tell(r.assigned)
		}
	}
	for task := range r.kept {
		if tasks[task] == nil && !r.retry[task] && r.wants(task) {
			r.start(ctx, task)
		}
	}
}

// relieves reports whether this worker is to relieve the owner of a task for which it stands by,
// and has reached the end.
func (r *runner) relieves(task int) bool {
	t := r.all()[task]
	return r.assigned.Relieves && slices.Contains(r.assigned.Follows, task) && t != nil && t.caught.Load()
}

// relieve asks for one more election a while after one in which this worker had reached the end
// of the task that it stands by for, and did not get it: the owner may have been further just
// then.
func (r *runner) relieve() {
	for _, task := range r.assigned.Follows {
		if r.relieves(task) {
			r.after(rejoinAfter, r.caughtUp, task)
		}
	}
}

// rejoinAfter is the least time between two elections that one member asks for.
const rejoinAfter = 5 * time.Second

// after sends the task after a while, unless the worker ends.
func (r *runner) after(d time.Duration, to chan<- int, task int) {
	go func() {
		select {
		case <-time.After(d):
		case <-r.close:
			return
		}
		r.tell(to, task)
	}()
}

func (r *runner) tell(to chan<- int, task int) {
	select {
	case to <- task:
	case <-r.close:
	}
}

// wants reports whether this worker owns the task or stands by for it.
func (r *runner) wants(task int) bool {
	return r.assigned.Owns(task) || slices.Contains(r.assigned.Follows, task)
}

// restartAfter is how long after a task was lost, though it is still assigned to this worker, it
// is started again: another worker may have been elected without our knowing yet.
const restartAfter = 500 * time.Millisecond

// end takes note of a task that has ended. One that another worker has taken over may be this
// worker's again; any other error ends the worker.
func (r *runner) end(ctx context.Context, t *running) error {
	r.set(func(m map[int]*running) { delete(m, t.task) })
	var began *epochError
	if errors.As(t.err, &began) {
		r.since.Store(max(r.since.Load(), began.window))
	}
	r.noteKept(t.task)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !t.lost():
		return fmt.Errorf("%s: %w", topics.TaskName(t.task), t.err)
	case r.wants(t.task):
		r.cfg.Logger.Info("a task is begun again", "task", topics.TaskName(t.task), "err", t.err)
		r.retry[t.task] = true
		r.after(restartAfter, r.again, t.task)
	}
	return nil
}

// start starts a task. It runs until it is stopped.
func (r *runner) start(ctx context.Context, task int) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	t := &running{task: task, stop: stop, elected: make(chan kafka.Election, 1), left: make(chan struct{}), done: make(chan struct{})}
	caughtUp := func() {
		if t.caught.CompareAndSwap(false, true) {
			go r.tell(r.caughtUp, task)
		}
	}
	if task == 0 {
		t.loop = newSequencer(r.cfg, r.client, t, caughtUp)
	} else {
		t.loop = newShardLoop(r.cfg, r.client, t, caughtUp)
	}
	t.tell(r.assigned)
	r.set(func(m map[int]*running) { m[task] = t })
	go func() {
		defer stop(nil)
		t.err = t.loop.run(ctx)
		t.Leave()
		close(t.done)
		select {
		case r.ended <- t:
		case <-r.close:
		}
	}()
}

// noteKept notes how far a task's newest checkpoint is.
func (r *runner) noteKept(task int) {
	c := r.cfg.config(task)
	c.Checkpoints.Since = r.since.Load()
	list, err := c.Checkpoints.Find(c.Terms.Names.Ledger)
	r.kept[task].Store(0)
	if err == nil && len(list) > 0 {
		r.kept[task].Store(list[0].Window)
	}
}

// standings returns where this worker stands in each task, for an election.
func (r *runner) standings() []kafka.Standing {
	all := make([]kafka.Standing, len(r.kept))
	for task := range all {
		all[task].Progress = r.kept[task].Load()
	}
	for task, t := range r.all() {
		s := t.loop.standing()
		s.Progress = max(s.Progress, all[task].Progress)
		all[task] = s
	}
	return all
}

// states returns what [Tasks] shows.
func (r *runner) states() (list []TaskState) {
	for task, t := range r.all() {
		s := t.loop.standing()
		list = append(list, TaskState{Task: task, Owner: s.Owner, Windows: s.Progress, Missing: t.loop.missing()})
	}
	slices.SortFunc(list, func(a, b TaskState) int { return cmp.Compare(a.Task, b.Task) })
	return list
}

// shardLoop is the loop of a shard: a worker of its part of the ledger.
type shardLoop struct {
	cfg      *Config
	client   *kafka.Client
	task     int
	seat     worker.Membership
	caughtUp func()
	worker   atomic.Pointer[worker.Worker]
	engine   atomic.Pointer[share]
}

func newShardLoop(cfg *Config, c *kafka.Client, t *running, caughtUp func()) *shardLoop {
	return &shardLoop{cfg: cfg, client: c, task: t.task, seat: t, caughtUp: caughtUp}
}

// standing implements taskLoop.
func (l *shardLoop) standing() kafka.Standing {
	w := l.worker.Load()
	if w == nil {
		return kafka.Standing{}
	}
	return kafka.Standing{Owner: w.Owns.Load(), Progress: w.Stepped.Load()}
}

// missing implements taskLoop.
func (l *shardLoop) missing() *exchange.Missing {
	if s := l.engine.Load(); s != nil {
		return s.receiver.Load().Missing()
	}
	return nil
}

// run implements taskLoop.
func (l *shardLoop) run(ctx context.Context) error {
	waiting, stop := finishing(ctx)
	defer stop()
	cfg := l.cfg.config(l.task)
	cfg.Events = replay.Join(cfg.Events, replay.On(func(replay.Recovered) { l.caughtUp() }))
	cfg.Checkpoints.Restore = func(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
		s, meta, err := restoreShare(waiting, l.client, l.cfg, l.task, r, size, folder)
		if err != nil {
			return nil, nil, err
		}
		l.engine.Store(s)
		return s, meta, nil
	}
	shard, err := l.cfg.NewShard(l.task-1, l.cfg.shards)
	if err != nil {
		return err
	}
	s := newShare(waiting, l.client, l.cfg, l.task, shard)
	l.engine.Store(s)
	if cfg.Checkpoints.Since, err = readSince(ctx, l.client, cfg.Terms.Names); err != nil {
		return err
	}
	w, err := worker.NewTask(ctx, l.client, s, cfg, newByCuts)
	if err != nil {
		return err
	}
	if w.Saver, err = worker.NewSaver(ctx, l.client, w.Cfg); err != nil {
		return err
	}
	defer w.Saver.Unlock()
	defer func() { replay.Release(w.Replay.Engine) }()
	l.worker.Store(w)
	return w.Run(ctx, func() (worker.Membership, error) { return l.seat, nil })
}

// finishing returns a context that ends finishFor after ctx, or with it if the task was lost.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := publish.Lasting(ctx, finishFor)
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), publish.ErrOwned) {
			cancel()
		}
	})
	return longer, cancel
}
