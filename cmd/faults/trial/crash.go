package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
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

// Crashes is the outcome of a crash matrix.
type Crashes struct {
	Runs       int            `json:"runs"`
	Kills      int            `json:"kills"` // processes killed at a point
	Points     map[string]int `json:"points"`
	TakeOvers  int            `json:"takeovers"` // by a standby
	SlowestMS  int64          `json:"slowest_takeover_ms"`
	Lost       int            `json:"lost"`
	Duplicated int            `json:"duplicated"`
	Unequal    int            `json:"unequal"`     // runs whose predictions, posteriors or dead letters differ from the undisturbed run's
	Unfinished int            `json:"unfinished"`  // runs that came to no end
	Unasked    int            `json:"unexplained"` // processes that ended without being killed, or told why
	Faults     []string       `json:"faults,omitempty"`
}

// Err is an error when anything was lost, doubled, unequal or unexplained.
func (c *Crashes) Err() error {
	if c.Lost+c.Duplicated+c.Unequal+c.Unfinished+c.Unasked > 0 {
		return errors.New("the promise does not hold")
	}
	return nil
}

// String is one line of counts.
func (c *Crashes) String() string {
	return fmt.Sprintf("crash matrix: %d runs, %d processes killed at %d points, %d takeovers by a standby (slowest %d ms after the kill): lost %d, duplicated %d, unequal %d, unfinished %d, unexplained %d",
		c.Runs, c.Kills, len(c.Points), c.TakeOvers, c.SlowestMS, c.Lost, c.Duplicated, c.Unequal, c.Unfinished, c.Unasked)
}

// Crash kills workers at named points, in so many runs, and compares each with a
// run that nothing disturbed. Windows are cut by event time, so that they are the
// same. Every second run has a standby. Nodes leave in each, and half-way some are
// forgotten. Where there is a model for the shadow, it is then promoted. At the end
// an audit replays what came of it.
func Crash(ctx context.Context, s *Setup, runs int, seed uint64, parallel int, progress func(done int)) (*Crashes, error) {
	client, err := kafka.Dial(ctx, kafka.Config{Brokers: s.Brokers})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	m := &matrix{Setup: s, client: client, begin: time.Now().Add(-30 * time.Minute).Truncate(time.Minute).UnixMilli(), seed: seed}
	m.found.Points = make(map[string]int)
	base, err := m.run(ctx, "undisturbed", nil, false)
	if err != nil {
		return nil, fmt.Errorf("the undisturbed run: %w", err)
	}
	if len(base.faults) > 0 {
		return nil, fmt.Errorf("the undisturbed run: %s", strings.Join(base.faults, "; "))
	}
	work := make(chan int)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for n := range work {
				m.trial(ctx, n, base)
				m.mu.Lock()
				m.found.Runs++
				done := m.found.Runs
				m.mu.Unlock()
				progress(done)
			}
		})
	}
	for n := range runs {
		if ctx.Err() != nil {
			break
		}
		work <- n
	}
	close(work)
	wg.Wait()
	return &m.found, ctx.Err()
}

// matrix is the crash matrix at work.
type matrix struct {
	*Setup
	client *kafka.Client
	begin  int64 // event time of the first node
	seed   uint64

	mu    sync.Mutex
	found Crashes
}

// trial is one run, with its plan of crashes.
func (m *matrix) trial(ctx context.Context, n int, base *came) {
	rng := rand.New(rand.NewPCG(m.seed, uint64(n)))
	// Each point has its turn; a run may have further crashes behind it.
	plan := []string{fmt.Sprintf("%s:%d", crash.Points[n%len(crash.Points)], 1+rng.IntN(3))}
	for rng.IntN(2) == 0 {
		plan = append(plan, fmt.Sprintf("%s:%d", crash.Points[rng.IntN(len(crash.Points))], 1+rng.IntN(5)))
	}
	name := fmt.Sprintf("crash-%d-%d", m.seed, n)
	got, err := m.run(ctx, name, plan, n/len(crash.Points)%2 == 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	told := func(what string) {
		m.found.Faults = append(m.found.Faults, fmt.Sprintf("run %d (%s): %s", n, strings.Join(plan, ", "), what))
	}
	if err != nil {
		if ctx.Err() == nil {
			m.found.Unfinished++
			told(err.Error())
		}
		return
	}
	m.found.Lost += got.lost
	m.found.Duplicated += got.twice
	for _, f := range got.faults {
		told(f)
	}
	what := base.differs(got)
	if what != "" {
		m.found.Unequal++
		told(what)
	}
	if what == "" && len(got.faults) == 0 {
		_ = os.RemoveAll(got.dir)
	}
}

// differs says how other is not what c is, "" when it is.
func (c *came) differs(other *came) string {
	for id, value := range c.predictions {
		if !bytes.Equal(value, other.predictions[id]) {
			return fmt.Sprintf("the prediction of node %v is another", id)
		}
	}
	if len(other.predictions) > len(c.predictions) {
		return "there are more predictions"
	}
	if !slices.Equal(c.windows, other.windows) {
		return "the posteriors are others"
	}
	if !slices.Equal(c.dead, other.dead) {
		return "the dead letters are others"
	}
	return ""
}

// half returns the items of the stream's first or second half.
func (m *matrix) half(second bool) []Item {
	if second {
		return m.Items[len(m.Items)/2:]
	}
	return m.Items[:len(m.Items)/2]
}

// commands are what is told half-way: to forget some of the first nodes, which many
// cite, and to promote the model in the shadow.
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

func (m *matrix) tell(ctx context.Context, g *graph, c *event.Command) error {
	s, err := g.sender(ctx)
	if err != nil {
		return err
	}
	s.put(g.names.Commands, nil, wire.AppendCommand(nil, c), 0)
	return s.send(ctx)
}

// patience is how long a run may take altogether.
const patience = 3 * time.Minute

// run sends the stream, has it worked on while the plan's crashes happen one
// after the other, and reads what came of it.
func (m *matrix) run(ctx context.Context, name string, plan []string, standby bool) (*came, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	g, err := m.graph(ctx, m.client, fmt.Sprintf("%s-%d", name, time.Now().UnixNano()%1e9))
	if err != nil {
		return nil, err
	}
	poison, err := m.fill(ctx, g, false)
	if err != nil {
		return nil, err
	}
	w, err := g.watch(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--event-time", "20ms", "--lateness", "10ms", "--idle-timeout", "10m", "--commit-interval", "0s",
		"--checkpoint-every", "50ms", "--checkpoint-keep", "2",
	}
	names := []string{"a"}
	if standby {
		names = append(names, "b")
	}
	workers := make(map[string]*process)
	defer func() {
		for _, p := range workers {
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
	}()
	next := func() (point string) {
		if len(plan) > 0 {
			point, plan = plan[0], plan[1:]
		}
		return point
	}
	for _, n := range names {
		point := ""
		if n == "a" {
			point = next()
		}
		if workers[n], err = g.start(n, point, args...); err != nil {
			return nil, err
		}
	}
	var died time.Time // the last kill that nobody has made up for
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	due, told := len(m.half(false)), 0 // items sent, and commands
working:
	for {
		sum, last := w.now()
		if !died.IsZero() && last.After(died) {
			if standby {
				m.tookOver(last.Sub(died))
			}
			died = time.Time{}
		}
		if sum.predictions >= due && sum.labels >= due && sum.refused >= poison && sum.forgotten+sum.promoted >= told {
			switch commands := m.commands(); {
			case told < len(commands): // whatever is closed is committed: it stands in the same place in every run
				err = m.tell(ctx, g, &commands[told])
				told++
			case due < len(m.Items): // and the events that were behind the first half
				due = len(m.Items) + partitions
				var more int
				more, err = m.fill(ctx, g, true)
				poison += more
			default:
				break working
			}
			if err != nil {
				return nil, err
			}
		}
		for _, n := range names {
			p := workers[n]
			select {
			case <-p.ended:
				m.note(p)
				died = p.at
				if workers[n], err = g.start(n, next(), args...); err != nil {
					return nil, err
				}
			default:
			}
		}
		select {
		case <-tick.C:
		case err := <-w.done:
			return nil, fmt.Errorf("the ledger: %w", err)
		case <-ctx.Done():
			for _, p := range workers { // their goroutines are then in their logs
				p.signal(syscall.SIGQUIT)
				<-p.ended
			}
			return nil, fmt.Errorf("after %v it had come to %+v, see %s", patience, sum, g.dir)
		}
	}
	for n, p := range workers {
		delete(workers, n)
		select {
		case <-p.ended: // at a point behind the end
			m.note(p)
			continue
		default:
		}
		if err := p.stop(); err != nil && !p.interrupted() {
			m.note(p)
		}
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	var ids []event.ID
	for _, item := range m.Items {
		ids = append(ids, item.Node.ID)
	}
	found, err := g.read(ctx, ids)
	if err == nil {
		err = g.audit(ctx)
	}
	return found, err
}

// note counts how a process ended that should have gone on.
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
		m.found.Unasked++
		m.found.Faults = append(m.found.Faults, fmt.Sprintf("a worker ended with %v, see %s: %s", p.err, p.log.Name(), lastWords(p.log.Name())))
	}
}

func (m *matrix) tookOver(after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found.TakeOvers++
	m.found.SlowestMS = max(m.found.SlowestMS, after.Milliseconds())
}

// fill sends a half of the stream: nodes a millisecond apart, a little out of order,
// their labels a while later, departures of some, poison, and behind all of it, in
// every partition, an event that is so much later that all windows before it are
// closed.
func (m *matrix) fill(ctx context.Context, g *graph, second bool) (poison int, err error) {
	s, err := g.sender(ctx)
	if err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(m.seed, 1<<32)) // the same for every run
	begin, serial := m.begin, 0
	if second {
		begin, serial = m.begin+120_000, 1000
	}
	stay := int64(60) // of a node that leaves, its label there or not
	if m.seed%2 == 1 {
		stay = 150 // until it has one
	}
	type timed struct {
		at  int64 // place in the stream: event time with jitter
		put func()
	}
	var stream []timed
	items := m.half(second)
	for i := range items {
		item := &items[i]
		at := int64(i)
		n := item.Node
		n.Time = begin + at
		stream = append(stream, timed{at + rng.Int64N(8), func() { s.node(&n) }})
		late := at + 20 + rng.Int64N(100)
		l := event.Label{Node: n.ID, Class: item.Class, Time: begin + late}
		stream = append(stream, timed{late + rng.Int64N(8), func() { s.label(&l) }})
		if i%7 == 5 {
			left := event.Node{ID: n.ID, Departed: true, Time: n.Time + stay}
			stream = append(stream, timed{at + stay + rng.Int64N(8), func() { s.node(&left) }})
		}
		if i%50 == 7 {
			topic := []string{g.names.Nodes, g.names.Labels}[poison%2]
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
		s.put(g.names.Nodes, []byte(id.Str), wire.AppendNode(nil, &n), p)
		l := event.Label{Node: id, Class: items[0].Class, Time: end}
		s.put(g.names.Labels, []byte(id.Str), wire.AppendLabel(nil, &l), p)
	}
	return poison, s.send(ctx)
}
