package trial

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// crashes is the result of [Crash].
type crashes struct {
	Runs       int            `json:"runs"`
	Kills      int            `json:"kills"`  // processes killed at a point
	Points     map[string]int `json:"points"` // the same, by point
	TakeOvers  int            `json:"takeovers"`
	SlowestMS  int64          `json:"slowest_takeover_ms"` // from the end of a worker to the first window after it
	Unfinished int            `json:"unfinished"`          // runs that failed or did not end in time, which are unequal too
	verdict
}

// Crash runs workers on the same stream many times, kills them at named points, and
// compares each run with one that is not disturbed. Windows are cut by event time, so
// that they are the same in every run.
//
// Successive runs begin with successive points. Once each point has had a run, the next
// round of runs has a standby, the one after that has none, and so on. In every run some
// nodes depart, and half-way some are forgotten; a model in the shadow is then promoted. Then
// the workers are started with other settings, which begins an epoch. At the end an audit
// replays the run's ledger.
//
// With bases there are neither commands nor epochs. Workers purge the ledger, at each restart the inputs are deleted up to the oldest
// base, and every second start has an empty folder. The audit begins at the newest base.
func Crash(ctx context.Context, s *Setup, runs int) (found *crashes, err error) {
	defer catch(&err)
	m := s.newMatrix()
	if strings.HasPrefix(s.Bases, "s3://") {
		defer disturbBucket(s.Seed)()
	}
	undisturbed, _ := m.run(ctx, "undisturbed", plan{})
	if len(undisturbed.faults) > 0 {
		fail("the undisturbed run: %s", strings.Join(undisturbed.faults, "; "))
	}
	numbers := make(chan int)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for n := range numbers {
				m.compare(ctx, n, undisturbed)
				m.mu.Lock()
				m.found.Runs++
				done := m.found.Runs
				m.mu.Unlock()
				s.Report(fmt.Sprintf("%d of %d runs", done, runs))
			}
		})
	}
	for n := range runs {
		if ctx.Err() != nil {
			break
		}
		numbers <- n
	}
	close(numbers)
	wg.Wait()
	return &m.found, ctx.Err()
}

// matrix holds what the runs of a crash matrix share.
type matrix struct {
	*Setup
	begin int64 // event time of the first node, milliseconds

	mu    sync.Mutex
	found crashes
}

func (s *Setup) newMatrix() *matrix {
	m := &matrix{Setup: s, begin: time.Now().Add(-30 * time.Minute).Truncate(time.Minute).UnixMilli()}
	m.found.Points = make(map[string]int)
	return m
}

// points returns the points at which workers are killed.
func (m *matrix) points() []string {
	if m.Bases == "" {
		return crash.Points
	}
	never := []string{crash.BeforeEpoch, crash.InEpoch, crash.BeforeForget, crash.InForget, crash.AfterForget}
	return slices.DeleteFunc(slices.Concat(crash.OfBases, crash.Points), func(p string) bool { return slices.Contains(never, p) })
}

// compare does run n, with crashes at points that depend on the seed and n, and compares
// it with the undisturbed run.
func (m *matrix) compare(ctx context.Context, n int, undisturbed *published) {
	rng := rand.New(rand.NewPCG(m.Seed, uint64(n)))
	all := m.points()
	const passes = 3 // up to which one kills
	points := []string{fmt.Sprintf("%s:%d", all[n%len(all)], 1+rng.IntN(passes))}
	for rng.IntN(2) == 0 { // further crashes
		points = append(points, fmt.Sprintf("%s:%d", all[rng.IntN(len(all))], 1+rng.IntN(passes+2)))
	}
	p := plan{points: points, standby: n/len(all)%2 == 1}
	var got *published
	var dir string
	err := caught(func() { got, dir = m.run(ctx, fmt.Sprintf("crash-%d-%d", m.Seed, n), p) })
	m.mu.Lock()
	defer m.mu.Unlock()
	fault := func(what string) {
		m.found.Wrong = append(m.found.Wrong, fmt.Sprintf("run %d (%s): %s", n, strings.Join(points, ", "), what))
	}
	if err != nil {
		if ctx.Err() == nil {
			m.found.Unfinished++
			m.found.Unequal++
			fault(err.Error())
		}
		return
	}
	m.found.Lost += got.lost
	m.found.Duplicated += got.twice
	for _, f := range got.faults {
		fault(f)
	}
	difference := undisturbed.difference(got, len(points))
	if difference != "" {
		m.found.Unequal++
		fault(difference)
	}
	if difference == "" && len(got.faults) == 0 {
		_ = os.RemoveAll(dir)
	}
}

// difference describes the first difference in other, which had so many kills at most, ""
// if there is none. A worker that was killed while it forgot nodes leaves a window in the
// ledger that notes the attempt, so that later windows have higher numbers than here, and
// nothing else differs.
func (c *published) difference(other *published, kills int) string {
	for id, value := range c.predictions {
		theirs, there := other.predictions[id]
		if !there {
			return fmt.Sprintf("there is no prediction of node %v", id)
		}
		theirs, err := other.withoutRetries(theirs)
		if err != nil {
			return err.Error()
		}
		if !bytes.Equal(value, theirs) {
			return fmt.Sprintf("the prediction of node %v differs", id)
		}
	}
	switch {
	case len(other.predictions) > len(c.predictions):
		return "there are more predictions"
	case len(other.attempts)-other.retried() != len(c.attempts) || other.retried() > kills:
		return fmt.Sprintf("the ledger notes the attempts %v to forget nodes, after %d kills at most", other.attempts, kills)
	case !slices.Equal(c.windows, other.windows):
		return "the ledger's windows differ"
	case !slices.Equal(c.dead, other.dead):
		return "the dead letters differ"
	}
	return ""
}

// crashRun is one run of the matrix. The stream is sent in two halves, and the commands
// between them, one by one. Each command is sent when everything before it is committed,
// so that it takes effect at the same place of the stream in every run.
type crashRun struct {
	*graph
	ctx     context.Context // of the run
	matrix  *matrix
	plan    plan
	workers map[string]*process // by name
	ledger  *progress
	died    time.Time // when the last worker died, zero once a window is committed after it

	until    map[kafka.TopicPartition]int64 // offsets of the inputs up to which all must be committed by now
	items    int                            // number of nodes whose predictions and labels must be committed by now
	poison   int                            // number of poisoned records sent
	commands int                            // number of commands sent
	starts   int                            // of workers
	sending  *sender                        // of a half that is not sent yet
	rebasing bool                           // workers are started with other settings, which begin an epoch
}

// plan is how a run is disturbed.
type plan struct {
	points  []string // at which workers are still to be killed, in order
	standby bool
}

// parallel is how many runs there are at a time.
const parallel = 4

// runTimeout bounds the duration of a run.
const runTimeout = 3 * time.Minute

// run sends the stream to a new graph, has workers process it while they are killed at
// the points, one after the other, audits the ledger and returns what was published. dir
// holds the checkpoints and logs.
func (m *matrix) run(ctx context.Context, name string, disturbed plan) (got *published, dir string) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	g := m.newGraph(ctx, name)
	r := &crashRun{ctx: ctx, graph: g, matrix: m, plan: disturbed, workers: make(map[string]*process)}
	r.send(ctx, false)
	r.ledger = g.follow(ctx)
	defer r.end()
	r.work(ctx)
	for _, p := range r.workers {
		r.stop(p)
	}
	must(r.ledger.close())
	var ids []event.ID
	for _, item := range m.Items {
		ids = append(ids, item.Node.ID)
	}
	got = g.read(ctx, ids)
	must(g.audit(ctx))
	return got, g.dir
}

// work runs the workers until the whole stream is in committed windows.
func (r *crashRun) work(ctx context.Context) {
	r.startWorkers()
	err := caught(func() {
		ticking(ctx, 5*time.Millisecond, func() bool {
			r.ledger.check()
			if r.advance(ctx) {
				return true
			}
			r.restart()
			return false
		})
	})
	if ctx.Err() != nil {
		for _, p := range r.workers {
			p.signal(syscall.SIGQUIT) // writes its goroutines to the log
			<-p.ended
		}
		sum, _ := r.ledger.now()
		fail("after %v the ledger has %+v, see %s", runTimeout, sum, r.dir)
	}
	must(err)
}

// startWorkers starts the first workers.
func (r *crashRun) startWorkers() {
	r.startWorker("a", r.nextPoint())
	if r.plan.standby {
		r.startWorker("standby", "")
	}
}

// startWorker starts a worker that kills itself at the point, unless that is empty.
func (r *crashRun) startWorker(name, point string) {
	var rebase []string
	if r.setup.Bases != "" {
		if r.starts++; r.starts%2 == 0 {
			must(os.RemoveAll(filepath.Join(r.dir, name)))
		}
		rebase = []string{"--base", r.setup.Bases, "--base-every", "20ms,keep=2", "--purge"}
	}
	if r.rebasing {
		rebase = []string{"--coverage", "0.9", "--rebase"}
	}
	r.workers[name] = r.start(name, point, append(rebase,
		"--event-time", "20ms", "--watermark", "lateness=10ms,idle=10m", "--commit-interval", "0s",
		"--checkpoints", "every=50ms,keep=2")...)
}

// nextPoint removes and returns the next point, "" if there are no more. Nor is there one
// for a worker that is about to forget nodes for the third time: if it were killed too, the
// next one would decline, as it should.
func (r *crashRun) nextPoint() (point string) {
	if sum, _ := r.ledger.now(); len(r.plan.points) > 0 && sum.attempt < 2 {
		point, r.plan.points = r.plan.points[0], r.plan.points[1:]
	}
	return point
}

// advance sends the next command or half of the stream once everything before it is
// committed. done is true when everything is sent and committed.
func (r *crashRun) advance(ctx context.Context) (done bool) {
	if r.sending != nil && !r.sendSome(ctx) {
		return false
	}
	sum, last := r.ledger.now()
	if !r.died.IsZero() && last.After(r.died) {
		if r.plan.standby {
			after := last.Sub(r.died).Milliseconds()
			r.matrix.count(func(c *crashes) { c.TakeOvers, c.SlowestMS = c.TakeOvers+1, max(c.SlowestMS, after) })
		}
		r.died = time.Time{}
	}
	if sum.predictions < r.items || sum.labels < r.items || sum.refused < r.poison ||
		sum.forgotten+sum.promoted < r.commands || !r.ledger.covers(r.until) {
		return false
	}
	all := r.matrix.commands()
	plain := r.setup.Bases != "" // without commands and epochs
	if plain {
		all = nil
	}
	switch {
	case r.commands < len(all):
		r.commands++
		r.command(ctx, &all[r.commands-1])
	case !plain && !r.rebasing:
		r.rebase()
	case !plain && sum.epoch == 0:
	case r.items < len(r.setup.Items):
		r.send(ctx, true)
	default:
		return true
	}
	return false
}

// rebase ends the workers and starts them again with other settings. One whose point was
// not reached gets it again.
func (r *crashRun) rebase() {
	points := make(map[string]string)
	for name, p := range r.workers {
		points[name] = p.point
	}
	r.rebasing = true
	for name, p := range r.workers {
		if r.stop(p); p.killed() {
			points[name] = r.nextPoint()
		}
	}
	for name, point := range points {
		r.startWorker(name, point)
	}
}

// restart restarts the workers that have ended, each with the next point. One without a standby would wait for the end of the last
// one's session in any case. Here it does so before it joins the group: kfake never removes a member that is killed
// before its first JoinGroup was answered, and no other would own the graph.
func (r *crashRun) restart() {
	for name, p := range r.workers {
		if !closed(p.ended) || !r.plan.standby && time.Since(p.at) < session+session/5 {
			continue
		}
		r.matrix.note(p)
		r.died = p.at
		if r.setup.Bases != "" {
			r.deleteUnneeded(r.ctx)
		}
		r.startWorker(name, r.nextPoint())
	}
}

// stop stops a worker, which may have reached its point after the last window.
func (r *crashRun) stop(p *process) {
	if err := p.stop(); p.killed() || err != nil && !p.interrupted() {
		r.matrix.note(p)
	}
}

// note counts a worker by how it ended.
func (m *matrix) note(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case p.killed():
		m.found.Kills++
		point, _, _ := strings.Cut(p.point, ":")
		m.found.Points[point]++
	case p.takenOver():
	default:
		m.found.ended(p)
	}
}

// count has f add to what was found.
func (m *matrix) count(f func(*crashes)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.found)
}

// commands returns the commands that are sent half-way: to forget some of the first
// nodes, which many others cite, and to promote the model in the shadow.
func (m *matrix) commands() []event.Command {
	forget := event.Command{Name: event.Forget}
	for _, item := range m.Items[:min(len(m.Items), 5)] {
		forget.Nodes = append(forget.Nodes, item.Node.ID)
	}
	if m.Shadow == "" {
		return []event.Command{forget}
	}
	return []event.Command{forget, {Name: event.Promote, Model: m.ShadowID}}
}

// command sends a command.
func (r *crashRun) command(ctx context.Context, c *event.Command) {
	s := r.newSender(ctx)
	s.put(r.names.Commands, nil, wire.AppendCommand(nil, c), 0)
	s.send(ctx)
}

// send sends the first or the second half of the stream: nodes whose event times are a
// millisecond apart and a little out of order, their labels later, corrections and withdrawals of
// some labels, departures of some nodes, and poisoned records. At the end every partition gets a node and a label whose
// event time is a minute later, which closes all windows before them.
func (r *crashRun) send(ctx context.Context, second bool) {
	s := r.newSender(ctx)
	m := r.matrix
	rng := rand.New(rand.NewPCG(m.Seed, 1<<32)) // the same in every run
	items, begin, serial := r.setup.Items[:len(r.setup.Items)/2], m.begin, 0
	if second {
		items, begin, serial = r.setup.Items[len(r.setup.Items)/2:], m.begin+120_000, 1000
	}
	stay := int64(60) // ms until a node departs, with or without its label
	if m.Seed%2 == 1 {
		stay = 150 // surely with its label
	}
	type timed struct {
		at  int64 // place in the stream, which is the event time with jitter
		put func()
	}
	var stream []timed
	poison := 0
	for i := range items {
		item := &items[i]
		at := int64(i)
		n := item.Node
		n.Time = begin + at
		stream = append(stream, timed{at + rng.Int64N(8), func() { s.node(&n) }})
		late := at + 20 + rng.Int64N(100)
		l := event.Label{Node: n.ID, Class: item.Class, Time: begin + late}
		stream = append(stream, timed{late + rng.Int64N(8), func() { s.label(&l) }})
		if i%5 == 1 {
			again := event.Label{Node: n.ID, Class: items[(i+1)%len(items)].Class, Time: l.Time + 20}
			if again.Withdrawn = i%10 == 1; again.Withdrawn {
				again.Class = ""
			}
			stream = append(stream, timed{late + 20, func() { s.label(&again) }})
		}
		if i%7 == 5 {
			departure := event.Node{ID: n.ID, Departed: true, Time: n.Time + stay}
			stream = append(stream, timed{at + stay + rng.Int64N(8), func() { s.node(&departure) }})
		}
		if i%50 == 7 {
			topic := []string{r.names.Nodes, r.names.Labels}[poison%2]
			n := serial + poison
			stream = append(stream, timed{at, func() { s.poison(topic, n) }})
			poison++
		}
	}
	slices.SortStableFunc(stream, func(a, b timed) int { return int(a.at - b.at) })
	for _, e := range stream {
		e.put()
	}
	end := begin + int64(len(items)) + 60_000
	for p := range partitions {
		id := event.ID{Str: fmt.Sprintf("end-%d-%d", serial, p)}
		n := items[0].Node
		n.ID, n.Neighbours, n.Time = id, nil, end
		s.put(r.names.Nodes, []byte(id.Str), wire.AppendNode(nil, &n), p)
		l := event.Label{Node: id, Class: items[0].Class, Time: end}
		s.put(r.names.Labels, []byte(id.Str), wire.AppendLabel(nil, &l), p)
	}
	r.poison += poison
	// The nodes that close a half are in a window that stays open until later events
	// come. Those of the first half are committed with the second.
	r.items = len(items)
	if second {
		r.items = len(r.setup.Items) + partitions
	}
	r.sending = s
	r.sendSome(ctx)
}

// sendSome sends the next records of a half, and reports whether they are all sent. With bases that takes some ticks, in which bases are
// stored.
func (r *crashRun) sendSome(ctx context.Context) (done bool) {
	all, some := r.sending.records, len(r.sending.records)
	if r.setup.Bases != "" {
		some = min(some, 8)
	}
	r.sending.records = all[:some]
	r.sending.send(ctx)
	if r.sending.records = all[some:]; len(all) > some {
		return false
	}
	r.sending, r.until = nil, r.ends(ctx)
	for at := range r.until {
		r.until[at]-- // the last one closes the half
	}
	return true
}
